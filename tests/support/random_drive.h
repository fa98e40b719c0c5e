// Drives a random program through training steps, with or without an engine, and notes everything that a person could
// see: what is the same for both is what the engines promise.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/program/program.h"
#include "core/shard/sharded_parameters.h"
#include "tests/support/random_program.h"

namespace memtune::step {
class Executor;
}

namespace memtune::tests {

// What is done with the steps.
enum class Mode {
  step,
  two_steps,       // the engine is used again
  backward_twice,  // retain_graph
  two_losses,      // of one graph
  forward_raises,  // an op does, somewhere; then a good step
  backward_raises,
  evaluation_between,  // a pass under no_grad between two steps
  evaluation_inside,   // and one, without the engine, between forward and backward
  dropped,             // a graph that has no backward; then a good step
};
constexpr int kModes = 9;
std::string to_string(Mode mode);

// Where the values go, and all else that is chosen for one drive.
struct Placement {
  std::string strategy;  // "": a random plan
  uint64_t seed = 0;     // of the plan, the mode, the op that raises, and whether copies happen as late as they may

  Mode mode() const;
  std::string text() const;
};
// Every strategy, some random plans, and first "TorchScript": no engine, but its interpreter instead of memtune's.
std::vector<Placement> placements(uint64_t seed);

// All that was seen, in order: name and bytes.
using Seen = std::vector<std::pair<std::string, std::string>>;

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct DoesNotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One of several that have the same program.
struct Rank {
  shard::Collectives* group = nullptr;  // null: there is one
  // All have the same inputs and random numbers, so that branches that differ by data are the same on all; otherwise
  // each has its own.
  bool alike = false;

  int number() const { return group && !alike ? group->rank() : 0; }
};

class Subject {
 public:
  // Throws DoesNotRun.
  explicit Subject(const RandomProgram& source, Rank rank = {});

  // From now on this rank has its pieces of the parameters, and all ranks drive them together.
  void shard(shard::Reshard reshard);
  // Steps of one that is sharded beside those of `whole`, which is not: whose gradients are the mean over the ranks.
  // What is different.
  std::string failure_beside(Subject& whole, int steps);

  // Autograd itself refuses the program: it writes over a saved tensor.
  bool refused() const { return refused_; }
  // What is different from plain autograd, or held afterwards; "": nothing.
  std::string failure(const Placement& placement);

 private:
  friend class Driver;
  const Seen& expected(Mode mode, uint64_t choice);
  std::vector<at::Tensor> inputs(int step) const;
  Seen drive_joined(int steps);
  void take_mean_gradients();
  NamedTensors joined_gradients() const;
  config::Plan plan(const Placement& placement) const;
  int64_t device_bytes() const;
  std::string held(step::Executor& executor, int64_t floor) const;

  RandomProgram source_;
  Rank rank_;
  RandomModel model_;
  program::Program program_;
  config::ProgramFacts facts_;
  NamedTensors parameters_;                               // this rank's pieces of them, when they are sharded
  std::vector<std::pair<at::Tensor, at::Tensor>> state_;  // parameters and buffers: in use, as they were
  uint64_t ops_ = 0;                                      // that a forward runs
  bool refused_ = false;
  std::map<std::pair<Mode, uint64_t>, Seen> expected_;
  std::map<std::string, at::Tensor> noise_;            // of the mean gradients that were taken last
  std::unique_ptr<shard::ShardedParameters> sharded_;  // goes before the program
};

}  // namespace memtune::tests
