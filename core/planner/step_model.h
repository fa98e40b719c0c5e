// A step under any plan, on paper: what the engines would hold, move and run again, moment by moment, from the costs
// that one trial recorded. It is what core/step, core/checkpoint and core/offload do, without tensors.
#pragma once

#include <cstdint>

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/config/step_costs.h"

namespace memtune::planner {

struct StepPrediction {
  double step_ms = 0;
  int64_t peak_bytes = 0;      // allocated at most
  int64_t recomputed_ops = 0;  // per step, as in Measurement
  int64_t recomputed_bytes = 0;
  double recompute_ms = 0;
  int64_t out_bytes = 0, in_bytes = 0;  // per step
  double wait_ms = 0;                   // of compute, for copies
  int64_t host_peak_bytes = 0;          // that wait in host memory at most
};

class StepModel {
 public:
  // Both outlive it. `facts` is of the program that `costs` were recorded of.
  StepModel(const config::ProgramFacts& facts, const config::StepCosts& costs);

  StepPrediction predict(const config::Plan& plan) const;

 private:
  const config::ProgramFacts& facts_;
  const config::StepCosts& costs_;
};

}  // namespace memtune::planner
