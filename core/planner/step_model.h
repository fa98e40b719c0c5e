// A step under any plan, on paper: what the engines would hold, move and run again, moment by moment, from the costs
// that one trial recorded. It is what core/step, core/checkpoint and core/offload do, without tensors.
//
// Memory: what the recorded step had beside the modelled values stays as it was; the values are where the plan has them
// at that moment. A plan that moves is played as it is run: the first steps are learned from. Time: the measured
// step's, and beside it what is run again and what compute waits for copies; a link whose speed is not known is
// infinitely fast, and so is such a disk. Blocks are those of PyTorch's allocator (BlockCache), as the steps before
// left them. Gathered parameters are there as the plan's step reads them, ops that are run again included. Not
// modelled: what the allocator holds beyond blocks in use, blocks of what lives longer than a step, the engines' own
// time on the host, copies of a batch norm's statistics, steps whose course the data decides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/config/step_costs.h"
#include "core/planner/step_beside.h"
#include "core/planner/step_log.h"
#include "core/planner/step_tables.h"
#include "core/planner/step_tier.h"

namespace memtune::planner {

struct StepPrediction {
  double step_ms = 0;
  int64_t peak_bytes = 0;      // allocated at most
  int64_t recomputed_ops = 0;  // per step, as in Measurement
  int64_t recomputed_bytes = 0;
  double recompute_ms = 0;
  int64_t out_bytes = 0, in_bytes = 0;  // per step
  double wait_ms = 0;                   // of compute, for copies
  int64_t host_peak_bytes = 0;          // that wait in host memory at most; more than its budget: it has no room
  int64_t disk_write_bytes = 0, disk_read_bytes = 0;  // per step
  int64_t disk_peak_bytes = 0;                        // that wait on the disk at most
  int64_t gathered_bytes = 0;                         // per step, of sharded parameters
};

// Thread: any, several at once.
class StepModel {
 public:
  // `costs` outlive it, of a step that kept everything (see kept_costs); `facts` is of the program that they were
  // recorded of.
  StepModel(const config::ProgramFacts& facts, const config::StepCosts& costs);

  // `tiers`: as they are when it runs; `log`: filled with where in the step that is.
  StepPrediction predict(const config::Plan& plan, const StepTiers& tiers = {}, StepLog* log = nullptr) const;

  // What of the recorded step it plays.
  const StepTables& tables() const { return tables_; }
  const StepBeside& unmodelled() const { return beside_; }

 private:
  const config::StepCosts& costs_;
  const StepTables tables_;
  const StepBeside beside_;
};

}  // namespace memtune::planner
