// Step simulator: predicts memory and time of a step under any plan, from the costs that one trial recorded. It does
// what core/step, core/checkpoint and core/offload do, without tensors.
//
// Memory: unmodelled memory stays as recorded, and values are where the plan places them at each moment. Blocks are
// those of PyTorch's allocator (BlockCache), as the steps before left them. Gathered parameters are resident when the
// simulated step reads them, recomputed ops included. A plan that offloads is simulated like a real run, which learns
// from its first steps.
//
// Time: the measured step, plus recomputation, plus the time that compute waits for copies. An unknown bandwidth of
// PCIe or disk counts as infinite.
//
// Not modelled: memory of the allocator beyond blocks in use, blocks of tensors that live longer than a step, host time
// of the engines, copies of batch norm statistics, steps whose control flow depends on data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/plan/strategy/plan.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/step_costs.h"
#include "core/plan/planner/step_beside.h"
#include "core/plan/planner/step_log.h"
#include "core/plan/planner/step_tables.h"
#include "core/plan/planner/step_tier.h"

namespace memtune::planner {

struct StepPrediction {
  double step_ms = 0;
  int64_t peak_bytes = 0;      // peak allocated
  int64_t recomputed_ops = 0;  // per step, as in Measurement
  int64_t recomputed_bytes = 0;
  double recompute_ms = 0;
  int64_t out_bytes = 0, in_bytes = 0;                // per step
  double wait_ms = 0;                                 // compute waits for copies
  int64_t host_peak_bytes = 0;                        // peak in host memory; above its budget: there is no room
  int64_t disk_write_bytes = 0, disk_read_bytes = 0;  // per step
  int64_t disk_peak_bytes = 0;                        // peak on disk
  int64_t gathered_bytes = 0;                         // per step, of sharded parameters
};

// Thread: any; calls may be concurrent.
class StepModel {
 public:
  // `costs`: of a step that kept everything (see kept_costs), recorded from the program of `facts`; must outlive the
  // model.
  StepModel(const plan::ProgramFacts& facts, const plan::StepCosts& costs);

  // `tiers`: where the step may offload to. `log` (may be null): filled with the entries of the step where costs arise.
  StepPrediction predict(const plan::Plan& plan, const StepTiers& tiers = {}, StepLog* log = nullptr) const;

  // The recorded step in the form that the simulator reads.
  const StepTables& tables() const { return tables_; }
  const StepBeside& unmodelled() const { return beside_; }

 private:
  const plan::StepCosts& costs_;
  const StepTables tables_;
  const StepBeside beside_;
};

}  // namespace memtune::planner
