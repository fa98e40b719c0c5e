// Lower bound of the step time under a budget, for every plan. It bounds the prediction of StepPredictor, not the time
// on the device.
//
// At some moment the peak leaves no room for some of the values that backward still needs. Each of these values is
// recomputed later (ActivationRecomputeTimeLowerBounds), or is offloaded before that moment and reloaded after it. The
// cheapest mix that frees enough bytes is the least extra time of that moment. The bound adds the largest extra time of
// all moments to the step, without what the device waits for the host. It holds for plans that offload no small values.
// Memory of the recomputations is ignored, so even the best plan may take longer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/planner/activation_recompute_time_lower_bounds.h"
#include "core/plan/planner/recorded_step_simulation_tables.h"
#include "core/plan/planner/step_predictor.h"

namespace memtune::planner {

class StepTimeLowerBound {
 public:
  // Keeps no reference to the arguments. The bound holds for plans that offload no value smaller than
  // `offload_min_bytes`.
  StepTimeLowerBound(const RecordedStepSimulationTables& tables, const plan::RecordedStepCosts& costs,
                     const UnmodelledMemory& unmodelled, int64_t offload_min_bytes);

  // No plan within both budgets is predicted to be faster (`host_budget_bytes` 0: no limit). Nothing: no plan fits.
  std::optional<double> least_ms(int64_t budget_bytes, int64_t host_budget_bytes) const;

 private:
  // Range of entries (runs of the forward, then moments of backward), both ends included.
  struct Span {
    int first = 0, last = 0;
  };
  // A storage that backward needs: its bytes, and when it may be off the device.
  struct Need {
    int64_t bytes = 0;
    bool may_move = false;
    std::vector<Span> offloaded = {};
    bool may_be_offloaded(int entry) const;
  };
  struct Piece : RecomputeCostCurveSegment {
    int need = 0, first_entry = 0, last_entry = 0;  // applies from one to the other
  };
  struct Entry {
    int64_t full_bytes = 0;               // allocated, with all needs resident
    double before_ms = 0, behind_ms = 0;  // of compute, with everything kept
  };

  void find_needs(const RecordedStepSimulationTables& tables, const plan::RecordedStepCosts& costs);
  void add_need(Need need, std::vector<Span> there, int last_asked);
  void add_pieces(int value, const ActivationRecomputeTimeLowerBounds& prices);
  void set_entries(const RecordedStepSimulationTables& tables, const plan::RecordedStepCosts& costs,
                   const UnmodelledMemory& unmodelled);
  bool is_summit(size_t entry) const;
  std::optional<double> more_ms(size_t entry, int64_t bytes, int64_t host_budget_bytes) const;

  double step_ms_, out_ms_, in_ms_;  // of a step with everything kept; of copying a byte
  double idle_ms_;                   // what the device of that step waits for the host; extra time may fill it
  double slowdown_;                  // RecordedStepCosts::copy_slowdown, at most 1: overlap costs no more than waiting
  int passes_;
  int64_t offload_min_bytes_;
  std::vector<Need> needs_;
  std::vector<Piece> pieces_;  // by ms per byte
  std::vector<Entry> entries_;
  std::vector<int64_t> held_bytes_;  // by entry: bytes of needs that are resident in any case or may be away
};

}  // namespace memtune::planner
