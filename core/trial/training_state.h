// What a run of training has come to, as named tensors on their way to a saved state and back: parameters, buffers and
// attributes under their own names, what the optimizer keeps (optimizer.PARAMETER.exp_avg), random state
// (random.cpu, random.cuda) and the loss of every step (run.loss).
//
// Of several ranks each saves its pieces, by the parameters' names, and what it has of its own: buffers, attributes and
// random state, called rank.N.NAME of all but the first. Any number of ranks loads it; those that are more than there
// were begin with what the first had of its own. A state of a GPU is loaded on a CPU too, and the reverse, but for the
// device's random numbers.
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

#include "core/optimizer/optimizer.h"
#include "core/program/state.h"
#include "core/state/manifest.h"
#include "core/state/snapshot.h"
#include "core/state/state_folder.h"
#include "core/trial/state_item.h"

namespace memtune::trial {

class TrainingState {
 public:
  // `optimizer` has the parameters of `model` in their order, and must outlive this. UsageError when there is something
  // in the model that cannot be saved.
  TrainingState(program::State model, optimizer::Optimizer& optimizer, c10::Device device);

  // Memory that forwards write into, beside that of buffers and attributes: it leaves before the next one.
  void set_written(std::set<const void*> memory) { written_ = std::move(memory); }

  // As it is after as many steps as `losses` has: their bytes are those that are trained. Throws what an allocation
  // throws.
  std::vector<state::StatePart> parts(const std::vector<double>& losses) const;
  int64_t bytes(const std::vector<double>& losses) const;  // of them, in a file

  // The newest state, or that of `step`: puts everything in its place, and answers with the losses. As state::load;
  // UsageError with all that differs when it is another model's or another training's (the folder's settings), and
  // nothing was changed then.
  std::vector<double> load(const state::StateFolder& folder, std::optional<int64_t> step);

 private:
  using Items = std::vector<StateItem>;
  using Expected = std::map<std::pair<size_t, std::string>, StateItem>;  // by file and name in it

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
  Expected expect(const state::Manifest& manifest, std::vector<double>& losses);

  program::State model_;
  optimizer::Optimizer& optimizer_;
  c10::Device device_;
  std::set<const void*> written_;
  std::map<std::string, c10::IValue> numbers_;  // attributes as they were loaded; those that changed are saved
};

}  // namespace memtune::trial
