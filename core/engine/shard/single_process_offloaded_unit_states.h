// Parameters of one dtype of one unit, their gradients and optimizer states: a row of bytes each, which is copied whole
// between device and host memory.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/optimizer/optimizer.h"
#include "core/engine/shard/flat_parameter.h"
#include "core/engine/shard/host_offloaded_tensor.h"
#include "core/plan/schedule/model_state_offload_scheduler.h"
#include "core/plan/strategy/plan.h"

namespace memtune::shard {

class SingleProcessOffloadedUnitStates {
 public:
  // `parameters`: as of FlatParameter; they keep their bytes, or `place` moves them to host memory. Moments follow when
  // the optimizer has made them. `host` and `device` must outlive this. Throws OutOfHostMemoryError.
  SingleProcessOffloadedUnitStates(const std::string& name, const program::NamedTensors& parameters,
                                   const plan::UnitStatePlacement& place, program::HostWeightsWhileModelLoads* weights,
                                   PinnedTensorAllocatorAndCopier& host, device::Device& device);

  const FlatParameter& parameters() const { return parameters_; }
  // Empty: on the device for good.
  std::optional<HostOffloadedTensor>& row(schedule::ModelStateKind row) { return rows_[static_cast<size_t>(row)]; }
  const std::optional<HostOffloadedTensor>& row(schedule::ModelStateKind row) const {
    return rows_[static_cast<size_t>(row)];
  }
  bool offloads() const;

  // `numbers`: of the parameters in the optimizer. `moves_gradients`: those of offloaded parameters are in host memory
  // between micro-batches and until the update.
  void attach(optimizer::Optimizer& optimizer, std::vector<size_t> numbers, bool moves_gradients);

  // Makes the optimizer states of these of its parameters, to load saved ones into.
  void make_moments(const std::vector<size_t>& numbers);

  void drop_gradients();
  bool has_gradients() const;
  // Adds the parameters' gradients to their row, if there is one, and frees them. The row must be loaded if
  // has_gradients().
  void take_gradients();
  // Adds the norms of the gradients, which must be loaded, in the order of Optimizer::step().
  using Norms = std::map<std::pair<at::ScalarType, size_t>, at::Tensor>;  // by dtype and number in the optimizer
  void add_norms(Norms& norms) const;
  // Updates the parameters that have a gradient, and drops these; all rows must be loaded. `factor`: of all gradients;
  // undefined: 1. Returns the bytes of the gradients.
  int64_t update(const at::Tensor& factor);

  // Bytes if each tensor were allocated by itself: of parameters and optimizer states that have a row, and of gradients
  // in their row. A gradient that is being added to an earlier one is allocated beside it, and is subtracted.
  int64_t state_bytes() const;
  int64_t gradient_bytes() const;
  int64_t bytes_on_device(schedule::ModelStateKind row) const;  // of the row

 private:
  std::vector<at::Tensor> made_gradients() const;  // undefined where there is none
  bool take_moments();
  int64_t allocated_bytes(const at::Tensor& tensor) const;

  std::optional<HostOffloadedTensor>& values() { return row(schedule::ModelStateKind::parameters); }
  std::optional<HostOffloadedTensor>& moments() { return row(schedule::ModelStateKind::moments); }

  FlatParameter parameters_;
  std::array<std::optional<HostOffloadedTensor>, std::size(schedule::kStateRows)> rows_;
  const bool moves_moments_;
  PinnedTensorAllocatorAndCopier& host_;
  device::Device& device_;
  optimizer::Optimizer* optimizer_ = nullptr;
  std::vector<size_t> numbers_;
  std::vector<at::Tensor> gradient_views_;  // of their row
  std::vector<char> made_;                  // whether the row has the parameter's gradient
  size_t moments_taken_ = 0;
  int64_t moment_bytes_ = 0;  // if allocated each for itself
};

}  // namespace memtune::shard
