// Names of kernels as a person reads them.
#pragma once

#include <string>

namespace memtune::profiler {

// Demangled, without return type, parameters and LibTorch's namespaces, at most 100 characters:
// "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, ...". Names that are not mangled stay.
std::string kernel_name(const char* mangled);

}  // namespace memtune::profiler
