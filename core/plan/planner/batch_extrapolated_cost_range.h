// Predicts the step of a batch that was not recorded from two recorded batches: every number is on the line through the
// two. It need not know what grows with the batch and what does not (parameters, optimizer state).
//
// Bytes are exact if they grow linearly, as those of tensors do. Times are less certain outside of the two batches.
// Above them, `least` is the line and `most` the proportional share of the nearer batch; below them the two are
// swapped. `likely` is the middle. Between the two batches all three are the line. If one batch has no samples
// (fixed_costs), a time is between the recorded one and its proportional share, which is `likely`.
#pragma once

#include <cstdint>
#include <optional>

#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::planner {

struct BatchSizeAndRecordedCosts {
  int64_t batch = 0;
  plan::RecordedStepCosts costs;
};

struct BatchExtrapolatedCostRange {
  plan::RecordedStepCosts likely, least, most;
};

// The step has `passes` micro-batches. Returns nothing if both batches are equal or their steps ran different ops.
std::optional<BatchExtrapolatedCostRange> costs_at_batch(const BatchSizeAndRecordedCosts& one,
                                                         const BatchSizeAndRecordedCosts& other, int64_t batch,
                                                         int passes);

// Converts `facts` from the batch of `here` to that of `there`. Flops grow with the batch, bytes as in the costs.
plan::ProgramFacts facts_at_batch(plan::ProgramFacts facts, const BatchSizeAndRecordedCosts& here,
                                  const BatchSizeAndRecordedCosts& there);

}  // namespace memtune::planner
