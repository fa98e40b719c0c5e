// The step of a batch that was not recorded, from those of two that were: every number of it lies on the line through
// the two. So what grows with the batch and what does not (parameters, what the optimizer keeps) need not be known.
//
// Bytes are exact where each grows in proportion, as tensors do. Times are less sure: beyond what was recorded an entry
// takes between what its line says (`least`, above the recorded batches) and its share of the nearer one (`most`);
// `likely` has the middle. Between the two batches all three are the line. One of the two may be of no samples
// (fixed_costs): then a time is between the recorded one and its share, which is `likely`.
#pragma once

#include <cstdint>
#include <optional>

#include "core/config/program_facts.h"
#include "core/config/step_costs.h"

namespace memtune::planner {

struct RecordedBatch {
  int64_t batch = 0;
  config::StepCosts costs;
};

struct BatchCosts {
  config::StepCosts likely, least, most;
};

// Steps of `passes` passes each. Nothing where the two are of one batch, or of steps that do not run the same.
std::optional<BatchCosts> costs_at_batch(const RecordedBatch& one, const RecordedBatch& other, int64_t batch,
                                         int passes);

// `facts` are of the batch that `here` is of; what they become with the costs of another. Multiply-adds grow with the
// batch, bytes as those of the costs.
config::ProgramFacts facts_at_batch(config::ProgramFacts facts, const RecordedBatch& here, const RecordedBatch& there);

}  // namespace memtune::planner
