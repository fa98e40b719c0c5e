// Converts memtune's dtype names (plan::canonical_dtype) to and from LibTorch's types.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace memtune::frontend {

at::ScalarType scalar_type(const std::string& dtype);  // `dtype`: a canonical name
std::string name_of(at::ScalarType type);              // LibTorch's name if memtune has none

// Throws UsageError for a dtype that weights cannot be cast to.
at::ScalarType weight_type(const std::string& dtype);

}  // namespace memtune::frontend
