// Tensors out of safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/safetensors/dtype.h"

namespace memtune::frontend {

at::ScalarType scalar_type(safetensors::Dtype dtype);
std::optional<safetensors::Dtype> dtype_of(at::ScalarType type);  // nothing: such files do not have it

// On the CPU, in file order. UsageError naming file and fault when it is no safetensors file.
std::vector<std::pair<std::string, at::Tensor>> read_safetensors(const std::filesystem::path& path);

}  // namespace memtune::frontend
