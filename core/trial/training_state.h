// What a run of training has come to, as named tensors on their way to a saved state and back: parameters, buffers and
// attributes under their own names, what the optimizer keeps (optimizer.PARAMETER.exp_avg), random state
// (random.cpu, random.cuda) and the loss of every step (run.loss).
//
// Thread: the one that trains, between steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/program/state.h"
#include "core/state/manifest.h"
#include "core/state/state_folder.h"
#include "core/trial/optimizer.h"

namespace memtune::trial {

class TrainingState {
 public:
  // `optimizer` has the parameters of `model` in their order, and must outlive this. UsageError when there is something
  // in the model that cannot be saved.
  TrainingState(program::State model, Optimizer& optimizer, c10::Device device);

  // Writes it whole, under the number of steps that `losses` has; bytes. Throws IoError: then it is not saved.
  int64_t save(state::StateFolder& folder, const std::vector<double>& losses) const;

  // The newest state, or that of `step`: puts everything in its place, and answers with the losses. As state::load;
  // UsageError with all that differs when it is another model's, and nothing was changed then.
  std::vector<double> load(const state::StateFolder& folder, std::optional<int64_t> step);

 private:
  struct Item {
    std::string name;
    at::Tensor tensor;
    std::function<void(const at::Tensor&)> put;  // empty: it is copied into the tensor
  };
  using Items = std::vector<Item>;

  Items items() const;
  void add_tensors(Items& items) const;
  void add_attributes(Items& items) const;
  void add_optimizer(Items& items) const;
  void add_random(Items& items) const;
  void prepare(const state::Manifest& manifest);

  program::State model_;
  Optimizer& optimizer_;
  c10::Device device_;
  std::map<std::string, c10::IValue> numbers_;  // attributes as they were loaded; those that changed are saved
};

}  // namespace memtune::trial
