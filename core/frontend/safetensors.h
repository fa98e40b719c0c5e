// Tensors out of safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace memtune::frontend {

// On the CPU, in file order. UsageError naming file and fault when it is no safetensors file.
std::vector<std::pair<std::string, at::Tensor>> read_safetensors(const std::filesystem::path& path);

}  // namespace memtune::frontend
