// Reads tensors from safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/safetensors/dtype.h"

namespace memtune::frontend {

at::ScalarType scalar_type(safetensors::Dtype dtype);
std::optional<safetensors::Dtype> dtype_of(at::ScalarType type);  // nullopt: not supported by safetensors files

// Returns the tensors on `device` (CPU or meta) in file order; for meta only the header is read. Throws UsageError with
// file and fault if it is not a safetensors file.
std::vector<std::pair<std::string, at::Tensor>> read_safetensors(const std::filesystem::path& path,
                                                                 c10::DeviceType device = c10::kCPU);

}  // namespace memtune::frontend
