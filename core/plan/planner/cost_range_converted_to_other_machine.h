// Converts a recorded step to another machine, op by op. Its memory stays as it is.
//
//   measured ms ─┬─ idle: the device waited for the host ── the same there, but for what the device does meanwhile
//                └─ busy ─┬─ explained by the roofline, as far as ops reach it ── x roofline there / roofline here
//                         └─ the rest ── with arithmetic, with memory, or unchanged
//
// It is unknown what bounds the rest. `likely` takes the middle of its three ratios. `least` and `most` take the other
// two, and count all time above the roofline as rest.
#pragma once

#include <string>

#include "core/plan/facts/machine_profile.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::planner {

struct CostRangeConvertedToOtherMachine {
  plan::RecordedStepCosts likely, least, most;
};

// `costs` were recorded from the program of `facts`, on the machine `from`. `dtype`: of multiplications, if the facts
// do not name it. If a bandwidth of `to` is unknown, the recorded one is used. Throws UsageError if a profile lacks the
// rate of a dtype.
CostRangeConvertedToOtherMachine scale_costs(const plan::ProgramFacts& facts, const plan::RecordedStepCosts& costs,
                                             const plan::MachineProfile& from, const plan::MachineProfile& to,
                                             const std::string& dtype);

}  // namespace memtune::planner
