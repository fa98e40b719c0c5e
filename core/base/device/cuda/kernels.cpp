// Runs the module's kernels on LibTorch's current stream.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "core/base/device/cuda/cuda_check.h"
#include "core/base/device/cuda/launches.h"

namespace memtune::device {
namespace {

cudaStream_t stream_of(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

void unpack_nf4(const Nf4WeightPointers& from, void* to, KernelDtype type, int device) {
  const c10::cuda::CUDAGuard on(static_cast<c10::DeviceIndex>(device));
  launch_unpack_nf4(from, to, type, stream_of(device));
}

void step_adamw(const QuantizedAdamWArguments& step, int device) {
  const c10::cuda::CUDAGuard on(static_cast<c10::DeviceIndex>(device));
  int processors = 0;
  check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  launch_step_adamw(step, processors, stream_of(device));
}

void fold_logits(const CrossEntropyLogitTile& tile, const OnlineCrossEntropyStatePointers& statistics, int device) {
  const c10::cuda::CUDAGuard on(static_cast<c10::DeviceIndex>(device));
  launch_fold_logits(tile, statistics, stream_of(device));
}

void differentiate_logits(const CrossEntropyLogitTile& tile, const float* normalizers, const float* outer, int device) {
  const c10::cuda::CUDAGuard on(static_cast<c10::DeviceIndex>(device));
  launch_differentiate_logits(tile, normalizers, outer, stream_of(device));
}

void hash_memory(const void* from, int64_t size, uint64_t* to, int device) {
  const c10::cuda::CUDAGuard on(static_cast<c10::DeviceIndex>(device));
  launch_hash_memory(from, size, to, stream_of(device));
}

}  // namespace
}  // namespace memtune::device

extern "C" __attribute__((visibility("default"))) const memtune::device::CudaKernelTable* memtune_cuda_kernels() {
  static const memtune::device::CudaKernelTable kernels = {
      memtune::device::unpack_nf4, memtune::device::step_adamw, memtune::device::fold_logits,
      memtune::device::differentiate_logits, memtune::device::hash_memory};
  return &kernels;
}
