// Readable names of kernels.
#pragma once

#include <string>

namespace memtune::profiler {

// Demangled, without return type, parameters and LibTorch's namespaces, at most 100 characters:
// "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, ...". Names that are not mangled stay unchanged.
std::string kernel_name(const char* mangled);

// True for names of NCCL's kernels, which are collectives: "ncclDevKernel_AllGather_RING_LL".
inline bool is_collective(const std::string& name) { return name.starts_with("nccl"); }

}  // namespace memtune::profiler
