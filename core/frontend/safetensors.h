// Reading of safetensors files, strictly: header checked against the file before anything is allocated.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace memtune::frontend {

// Tensors on the CPU in file order. UsageError naming file and fault: not a safetensors file, header too long, unknown
// dtype, shape against bytes, offsets outside the file, duplicate names.
std::vector<std::pair<std::string, at::Tensor>> read_safetensors(const std::filesystem::path& path);

}  // namespace memtune::frontend
