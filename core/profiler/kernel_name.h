// Names of kernels as a person reads them.
#pragma once

#include <string>

namespace memtune::profiler {

// Demangled, without return type, parameters and LibTorch's namespaces, at most 100 characters:
// "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, ...". Names that are not mangled stay.
std::string kernel_name(const char* mangled);

// By such a name: NCCL's kernels are collectives, "ncclDevKernel_AllGather_RING_LL".
inline bool is_collective(const std::string& name) { return name.starts_with("nccl"); }

}  // namespace memtune::profiler
