// Drives a random program through training steps, with or without an engine, and records all visible results. Engines
// promise that both give the same results.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/engine/shard/sharded_parameters.h"
#include "core/model/program/program.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/strategy/plan.h"
#include "tests/support/random_program.h"

namespace memtune::step {
class ActivationPlanExecutor;
}

namespace memtune::tests {

// How the steps are run.
enum class Mode {
  step,
  two_steps,       // reuses the engine
  backward_twice,  // retain_graph
  two_losses,      // of one graph
  forward_raises,  // an op throws; then a good step
  backward_raises,
  evaluation_between,  // a pass under no_grad between two steps
  evaluation_inside,   // the same between forward and backward, without the engine
  dropped,             // a graph without a backward; then a good step
};
constexpr int kModes = 9;
std::string to_string(Mode mode);

// The plan and all other choices of one run.
struct Placement {
  std::string strategy;  // "": a random plan
  uint64_t seed = 0;     // of the plan, the mode, the op that throws, and whether copies run as late as possible

  Mode mode() const;
  std::string text() const;
};
// All strategies and some random plans. The first is "TorchScript": its own interpreter, without an engine.
std::vector<Placement> placements(uint64_t seed);

// All recorded results, in order: name and bytes.
using Seen = std::vector<std::pair<std::string, std::string>>;

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct DoesNotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One of several ranks that run the same program.
struct Rank {
  shard::Collectives* group = nullptr;  // null: one rank
  // All ranks have the same inputs and random numbers, so that branches on data agree. Otherwise each rank has its own.
  bool alike = false;

  int number() const { return group && !alike ? group->rank() : 0; }
};

class Subject {
 public:
  // Throws DoesNotRun.
  explicit Subject(const RandomProgram& source, Rank rank = {});

  // From now on this rank holds its shards of the parameters, and all ranks run them together.
  void shard(shard::ReshardPolicy reshard);
  // Compares sharded steps with steps of `whole`, which is not sharded; gradients are the mean over the ranks. Returns
  // the difference; "": none.
  std::string failure_beside(Subject& whole, int steps);

  // Whether autograd itself rejects the program, because it overwrites a saved tensor.
  bool refused() const { return refused_; }
  // The difference from plain autograd, or the memory still held afterwards; "": none.
  std::string failure(const Placement& placement);

 private:
  friend class Driver;
  const Seen& expected(Mode mode, uint64_t choice);
  std::vector<at::Tensor> inputs(int step) const;
  Seen drive_joined(int steps);
  void take_mean_gradients();
  NamedTensors joined_gradients() const;
  plan::Plan plan(const Placement& placement) const;
  int64_t device_bytes() const;
  std::string held(step::ActivationPlanExecutor& executor, int64_t floor) const;

  RandomProgram source_;
  Rank rank_;
  RandomModel model_;
  program::Program program_;
  plan::ProgramFacts facts_;
  NamedTensors parameters_;                               // this rank's shards if they are sharded
  std::vector<std::pair<at::Tensor, at::Tensor>> state_;  // parameters and buffers: current, original
  uint64_t ops_ = 0;                                      // of a forward
  bool refused_ = false;
  std::map<std::pair<Mode, uint64_t>, Seen> expected_;
  std::map<std::string, at::Tensor> noise_;            // of the mean gradients computed last
  std::unique_ptr<shard::ShardedParameters> sharded_;  // destroyed before the program
};

}  // namespace memtune::tests
