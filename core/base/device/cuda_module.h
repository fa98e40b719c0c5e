// Loads memtune's CUDA module when a CUDA device is requested, so that one build also runs without CUDA.
#pragma once

#include <filesystem>

namespace memtune::device {

// File name of the module.
constexpr const char* kCudaModule = "libmemtune_cuda.so";

// Expected path of the module, next to the executable. The file may be missing.
std::filesystem::path cuda_module_path();

// Returns an exported function of the module. Loads the module if necessary; it is never unloaded. Throws DeviceError
// that names what is missing. LibTorch looks for its CUDA libraries only once, so call this before any CUDA query of
// LibTorch.
void* cuda_symbol(const char* name);
void load_cuda_libraries();  // the same, without use of a device

}  // namespace memtune::device
