// memtune's names of dtypes (config::canonical_dtype) as LibTorch's types.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace memtune::frontend {

at::ScalarType scalar_type(const std::string& dtype);  // a canonical name
std::string name_of(at::ScalarType type);              // LibTorch's own for a type that has no other

// UsageError for what weights cannot be cast to.
at::ScalarType weight_type(const std::string& dtype);

}  // namespace memtune::frontend
