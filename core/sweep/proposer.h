// Which trials a sweep runs next. The loop asks, runs what it is told, and asks again with what was measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/result/measurement.h"
#include "core/result/predicted.h"
#include "core/sweep/candidates.h"
#include "core/sweep/trial_process.h"

namespace memtune::sweep {

inline constexpr char kOfEveryTrainer[] = "checkpoint:full";  // a strategy that all of them have

// One point of the axes, and the model as it is there: bytes and operations follow batch and sequence.
struct Setting {
  std::optional<int64_t> batch, sequence;  // empty: as the inputs say
  ModelFacts facts;
};

struct Proposal {
  std::string name;    // of the strategy or the plan
  size_t setting = 0;  // index into the sweep's settings
  config::Plan plan;   // made from that setting's facts
  std::optional<result::Predicted> predicted = {};
  bool costs = false;                 // it records what its step costs
  std::optional<int64_t> batch = {};  // in place of the setting's: at a setting of its own, looked at when it is new
};

// A proposal that has ended, well or not.
struct Tried {
  std::string name;
  size_t setting = 0;
  result::Measurement measurement;
  std::filesystem::path folder = {};  // with what its process wrote
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  // The trials to run next, in order; none: the sweep is done. `tried` are all so far, in order of running. UsageError
  // in the first call for what the person can fix.
  virtual std::vector<Proposal> next(std::span<const Tried> tried) = 0;
  // What plans of any budget would take at that setting, on paper, as far as is known now; the smallest peak first.
  // That takes seconds: `begin` is told which of how many budgets is looked at, from 1 on.
  using Begin = std::function<void(size_t budget, size_t budgets)>;
  virtual std::vector<result::Predicted> frontier(size_t setting, const Begin& begin) {
    (void)setting, (void)begin;
    return {};
  }
  // For people, of what the last call found out.
  virtual std::vector<std::string> take_notes() { return {}; }
};

// Both outlive the proposer.
using MakeProposer =
    std::function<std::unique_ptr<Proposer>(const Candidates& candidates, const std::vector<Setting>& settings)>;

// All candidates at all settings, at once: the baseline of a setting first. One UsageError has all that is wrong.
std::unique_ptr<Proposer> propose_all(const Candidates& candidates, const std::vector<Setting>& settings);

}  // namespace memtune::sweep
