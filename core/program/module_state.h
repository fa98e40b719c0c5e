// What a run of a model leaves behind besides its answer, undone: buffers, attributes, state in lists and dicts, and
// the random generators.
#pragma once

#include <utility>
#include <vector>

#include "core/program/state.h"

namespace memtune::program {

class ModuleState {
 public:
  // Copies every tensor of the state that is no parameter, and the generators' states of the CPU and of `device`.
  ModuleState(const State& state, c10::Device device);
  // Puts everything back.
  ~ModuleState();
  ModuleState(const ModuleState&) = delete;
  ModuleState& operator=(const ModuleState&) = delete;

 private:
  void restore();

  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;  // in use, copy
  std::vector<std::pair<c10::intrusive_ptr<c10::ivalue::Object>, std::vector<c10::IValue>>> objects_;
  std::vector<std::pair<c10::impl::GenericList, std::vector<c10::IValue>>> lists_;
  std::vector<std::pair<c10::impl::GenericDict, c10::impl::GenericDict>> dicts_;
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;
};

}  // namespace memtune::program
