// Values of forward's arguments that are no tensors: numbers as --input gives them ("steps=3"), or as forward has them.
#pragma once

#include <ATen/core/function_schema.h>

#include <string>
#include <vector>

namespace memtune::frontend {

bool takes_tensor(const c10::Argument& argument);

// UsageError for a name that is no argument, or a tensor's.
void check_arguments(const c10::FunctionSchema& forward, const std::vector<std::string>& given);

// By `given`, else the default. UsageError when there is neither, with the way out, or when the text is no such value.
c10::IValue value_of(const c10::Argument& argument, const std::vector<std::string>& given);

}  // namespace memtune::frontend
