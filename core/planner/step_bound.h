// How little a step can take under a budget, whatever the plan: a bound of what StepModel says, not of the device.
//
// At one moment of the step its peak leaves no room for some of the values that backward still needs. Each of them is
// made again later (RerunPrices), or has left over the link by then and comes back behind it; the cheapest way to free
// the bytes, of all mixes, is what the step takes more at the least. The moment of which that is most counts. It holds
// for every plan that moves nothing small; what reruns hold meanwhile is left out, so that even the best plan may take
// more.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/config/step_costs.h"
#include "core/planner/rerun_prices.h"
#include "core/planner/step_model.h"
#include "core/planner/step_tables.h"

namespace memtune::planner {

class StepBound {
 public:
  // Nothing that is passed has to outlive it. Of plans that move no value smaller than `move_min_bytes`.
  StepBound(const StepTables& tables, const config::StepCosts& costs, const StepBeside& beside, int64_t move_min_bytes);

  // No plan that keeps both budgets (`host_budget_bytes` 0: none) takes less; nothing: no plan keeps them.
  std::optional<double> least_ms(int64_t budget_bytes, int64_t host_budget_bytes) const;

 private:
  // Of an entry (a run of the forward, then a moment of the backward), both included.
  struct Span {
    int first = 0, last = 0;
  };
  // A storage that backward needs: its bytes, where somebody has to have it, and where it may be away meanwhile.
  struct Need {
    int64_t bytes = 0;
    bool may_move = false;
    std::vector<Span> away = {};
    bool may_be_away(int entry) const;
  };
  struct Piece : RerunPiece {
    int need = 0, first_entry = 0, last_entry = 0;  // holds from one to the other
  };
  struct Entry {
    int64_t full_bytes = 0;               // allocated, with all needs there
    double before_ms = 0, behind_ms = 0;  // of compute, everything kept
  };

  void find_needs(const StepTables& tables, const config::StepCosts& costs);
  void add_need(Need need, std::vector<Span> there, int last_asked);
  void add_pieces(int value, const RerunPrices& prices);
  void set_entries(const StepTables& tables, const config::StepCosts& costs, const StepBeside& beside);
  bool is_summit(size_t entry) const;
  std::optional<double> more_ms(size_t entry, int64_t bytes, int64_t host_budget_bytes) const;

  double step_ms_, out_ms_, in_ms_;  // of a step with everything kept; a byte's copy
  double slowdown_;                  // StepCosts::copy_slowdown, as far as copies beside compute cost less than waits
  int passes_;
  int64_t move_min_bytes_;
  std::vector<Need> needs_;
  std::vector<Piece> pieces_;  // by ms a byte
  std::vector<Entry> entries_;
  std::vector<int64_t> held_bytes_;  // by entry, of what is there in any case and what may be away
};

}  // namespace memtune::planner
