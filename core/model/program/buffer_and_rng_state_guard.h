// Undoes the side effects of running a model: changes of buffers, attributes, lists, dicts and random generators.
#pragma once

#include <utility>
#include <vector>

#include "core/model/program/state.h"

namespace memtune::program {

class BufferAndRngStateGuard {
 public:
  // Copies every tensor of the state except parameters, and the generator states of the CPU and `device`.
  BufferAndRngStateGuard(const ModelParametersAndBuffers& state, c10::Device device);
  // Restores all copies. Does not throw.
  ~BufferAndRngStateGuard();
  BufferAndRngStateGuard(const BufferAndRngStateGuard&) = delete;
  BufferAndRngStateGuard& operator=(const BufferAndRngStateGuard&) = delete;

 private:
  void restore();

  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;  // the tensor, its copy
  std::vector<std::pair<c10::intrusive_ptr<c10::ivalue::Object>, std::vector<c10::IValue>>> objects_;
  std::vector<std::pair<c10::impl::GenericList, std::vector<c10::IValue>>> lists_;
  std::vector<std::pair<c10::impl::GenericDict, c10::impl::GenericDict>> dicts_;
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;
};

}  // namespace memtune::program
