// "memtune plan --from RUN --batch N|auto": the step of one or two batches that a run recorded, as another batch would
// take it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/planner/batch_costs.h"
#include "core/planner/planner.h"
#include "core/sweep/batch_paper.h"
#include "core/sweep/run_directory.h"

namespace memtune::cli {

// The batches that a run recorded at the sequence of `source`, that one first.
struct RecordedBatches {
  // UsageError where what a batch is of the run is not known, or cannot be another.
  RecordedBatches(const sweep::RunDirectory& directory, const sweep::SweepRecord& record,
                  const sweep::TrialSpec& source, config::StepCosts costs);

  config::ProgramFacts program;  // at the first
  std::vector<planner::RecordedBatch> batches;
  sweep::StepSize size;
  double sample_tokens = 0;  // 0: samples have none
};

class OtherBatch {
 public:
  // `batch`: "auto" is that of most samples a second whose plan keeps `limits`. UsageError where it is no batch of such
  // a step, or where none fits.
  OtherBatch(RecordedBatches recorded, const std::string& batch, const std::optional<planner::PlanLimits>& limits);

  const planner::BatchCosts& costs() const { return costs_; }
  const config::ProgramFacts& program() const { return program_; }
  int64_t batch() const { return batch_; }

  std::string title() const;               // behind the name of what was recorded
  std::vector<std::string> notes() const;  // what a person must know
  nlohmann::json to_json() const;

 private:
  struct Looked {  // at, for "auto"
    int64_t batch = 0;
    std::optional<planner::PlannedStep> step;
    double sample_ms = 0;
  };

  bool is_worked_out(int64_t batch) const;
  bool was_recorded() const;
  bool is_of_one() const { return recorded_.batches[1].batch == 0; }
  std::string recorded_text() const;
  std::string rate_text(const Looked& one) const;
  void look_at_all(const planner::PlanLimits& limits);

  RecordedBatches recorded_;  // that it is worked out from: two, of which the second may be of no samples
  int64_t batch_ = 0;
  std::vector<Looked> looked_;
  config::ProgramFacts program_;
  planner::BatchCosts costs_;
};

}  // namespace memtune::cli
