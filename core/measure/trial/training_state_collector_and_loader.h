// The state of a training as named tensors, to be saved and loaded: parameters, buffers and attributes under their own
// names, optimizer state (optimizer.PARAMETER.exp_avg), random state (random.cpu, random.cuda) and the loss of every
// step (run.loss).
//
// With several ranks, each saves its pieces under the names of the parameters. It also saves its own buffers,
// attributes and random state; ranks other than 0 call these rank.N.NAME. Any number of ranks can load it. Additional
// ranks start with what rank 0 had. A state of a GPU can be loaded on a CPU, and the reverse, except for the device's
// random state.
//
// Thread: the one that trains, between steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/optimizer/optimizer.h"
#include "core/engine/state/async_host_state_snapshot.h"
#include "core/engine/state/saved_states_folder.h"
#include "core/engine/state/state_manifest.h"
#include "core/measure/trial/forward_backward_runner.h"
#include "core/measure/trial/training_state_tensor.h"
#include "core/model/program/state.h"

namespace memtune::trial {

class TrainingStateCollectorAndLoader {
 public:
  // `optimizer`: of the runner's parameters. Both must outlive this. Throws UsageError if something in the model cannot
  // be saved.
  TrainingStateCollectorAndLoader(ForwardBackwardRunner& runner, optimizer::Optimizer& optimizer);

  // Memory into which forwards write, apart from that of buffers and attributes. It is copied before the next forward.
  void set_written(std::set<const void*> memory) { written_ = std::move(memory); }

  // The state after losses.size() steps, once their updates are finished. The parts refer to the memory that is
  // trained. Throws what an allocation throws.
  std::vector<state::TensorToSave> parts(const std::vector<double>& losses) const;
  int64_t bytes(const std::vector<double>& losses) const;  // size of the parts in a file

  // Loads the newest state, or that of `step`, and returns its losses. Throws as state::load. Throws UsageError with
  // all differences if it is of another model or another training (by the folder's settings); nothing is changed then.
  std::vector<double> load(const state::SavedStatesFolder& folder, std::optional<int64_t> step);

 private:
  using Items = std::vector<TrainingStateTensor>;
  using Expected = std::map<std::pair<size_t, std::string>, TrainingStateTensor>;  // by file and name in it

  int rank() const;
  Items items() const;
  Items saved_items(const std::vector<double>& losses) const;
  void add_buffers(Items& items) const;
  void add_attributes(Items& items) const;
  void add_parameters(Items& items) const;
  void add_pieces(Items& items) const;
  void add_random(Items& items) const;
  void prepare(const std::set<std::string>& there);
  std::set<std::string> without_piece() const;
  Expected expect(const state::StateManifest& manifest, std::vector<double>& losses);

  ForwardBackwardRunner& runner_;
  program::ModelParametersAndBuffers model_;
  optimizer::Optimizer& optimizer_;
  c10::Device device_;
  std::set<const void*> written_;
  std::map<std::string, c10::IValue> numbers_;  // attributes as they were loaded; only those that changed are saved
};

}  // namespace memtune::trial
