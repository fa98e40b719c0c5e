// Values for forward's arguments that are not tensors: from --input ("steps=3"), or forward's defaults.
#pragma once

#include <ATen/core/function_schema.h>

#include <string>
#include <vector>

namespace memtune::frontend {

bool takes_tensor(const c10::Argument& argument);

// Throws UsageError for a name that is not an argument, or is a tensor's.
void check_arguments(const c10::FunctionSchema& forward, const std::vector<std::string>& given);

// From `given`, else the default. Throws UsageError with the remedy if there is neither or the text is no such value.
c10::IValue value_of(const c10::Argument& argument, const std::vector<std::string>& given);

}  // namespace memtune::frontend
