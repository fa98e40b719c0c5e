// The CUDA half of memtune, a module of its own: opened when a CUDA device is asked for, so that one build also runs
// where there is no CUDA.
#pragma once

#include <filesystem>

namespace memtune::device {

// The module's file.
constexpr const char* kCudaModule = "libmemtune_cuda.so";

// Where the module is expected: beside the executable. It need not exist there.
std::filesystem::path cuda_module_path();

// An exported function of the module, opening it first if need be; it stays open. Throws DeviceError that says what is
// missing. LibTorch looks for its CUDA half once, so the first call must come before LibTorch is asked about CUDA.
void* cuda_symbol(const char* name);

}  // namespace memtune::device
