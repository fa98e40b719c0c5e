// Bytes of parameters in host memory while their model is made, so that a device needs room for few of them at a time.
// The parameters stay tensors of their device, without bytes.
//
// Thread: one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>

namespace memtune::program {

class HostWeightsWhileModelLoads {
 public:
  // Copies the bytes to pageable host memory and frees those on the device. Does nothing if they are there already.
  // Throws OutOfHostMemoryError. `parameter`: alone in its storage.
  void move(const at::Tensor& parameter);
  // Gives the parameter its bytes on the device again, if they were moved.
  void restore(const at::Tensor& parameter);
  // A CPU tensor with the bytes, which are forgotten here; `parameter` itself if they were not moved.
  at::Tensor take(const at::Tensor& parameter);

 private:
  std::unordered_map<const c10::TensorImpl*, at::Tensor> bytes_;
};

}  // namespace memtune::program
