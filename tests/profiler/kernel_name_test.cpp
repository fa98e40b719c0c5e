// Kernel names of LibTorch have hundreds of characters, but readers of a trace see only the first ones.
#include "core/measure/profiler/kernel_name.h"

#include <doctest/doctest.h>

namespace memtune::kernel_name_test {

using memtune::profiler::kernel_name;

TEST_CASE("kernel names that are not mangled stay unchanged") {
  CHECK(kernel_name("sm90_xmma_gemm_bf16") == "sm90_xmma_gemm_bf16");
  CHECK(kernel_name("") == "");
  CHECK(kernel_name(nullptr) == "kernel");
}

TEST_CASE("return type and parameters and LibTorch's namespaces are removed from kernel names") {
  CHECK(kernel_name("_ZN2at6native12add_kernel_1EPfi") == "add_kernel_1");
  CHECK(kernel_name("_ZN2at6native6kernelIfLi4EEEvPT_i") == "kernel<float, 4>");
  CHECK(kernel_name("_ZN2at6native12_GLOBAL__N_16kernelIfEEvPT_") == "kernel<float>");
}

TEST_CASE("collectives are recognised by the kernel names that the driver gives") {
  using memtune::profiler::is_collective;
  CHECK(is_collective(kernel_name("_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE")));
  CHECK(is_collective(kernel_name("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)")));
  CHECK_FALSE(is_collective(kernel_name("_ZN2at6native12add_kernel_1EPfi")));
}

TEST_CASE("a long kernel name is cut to 100 characters") {
  const std::string name = kernel_name(std::string(300, 'k').c_str());
  CHECK(name == std::string(97, 'k') + "...");
}

}  // namespace memtune::kernel_name_test
