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

struct DoesNotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Subject {
 public:
  // Throws DoesNotRun.
  explicit Subject(const RandomProgram& source);

  // Autograd itself refuses the program: it writes over a saved tensor.
  bool refused() const { return refused_; }
  // What is different from plain autograd, or held afterwards; "": nothing.
  std::string failure(const Placement& placement);

 private:
  friend class Driver;
  const Seen& expected(Mode mode, uint64_t choice);
  config::Plan plan(const Placement& placement) const;
  static std::string held(step::Executor& executor, int64_t floor);

  RandomProgram source_;
  RandomModel model_;
  program::Program program_;
  config::ProgramFacts facts_;
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  std::vector<std::pair<at::Tensor, at::Tensor>> state_;  // parameters and buffers: in use, as they were
  uint64_t ops_ = 0;                                      // that a forward runs
  bool refused_ = false;
  std::map<std::pair<Mode, uint64_t>, Seen> expected_;
};

}  // namespace memtune::tests
