// The Python program that writes a model of Hugging Face transformers as a program of torch.export. It runs in the
// Python that trains, with the torch and the transformers there.
#pragma once

#include <string_view>

namespace memtune::model {

std::string_view convert_program();  // its source, convert.py

}  // namespace memtune::model
