// The first line of an exception's message, without the C++ stack that LibTorch adds. (TorchScript's own is often
// empty.)
#pragma once

#include <exception>
#include <string>

namespace memtune::program {

std::string first_line(const std::exception& error);

}  // namespace memtune::program
