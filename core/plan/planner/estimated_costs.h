// Times of a step of which only the bytes are known: those of the roofline of a machine, divided by the share of it
// that ops of their class reach. Shares, and the time in which the host issues an op, are those of recorded steps on an
// H200 (docs/decisions/fit-from-shapes.md). Hosts differ by a factor of two, which small models show.
#pragma once

#include <string>

#include "core/plan/facts/machine_profile.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::planner {

// `costs`: of the program of `facts`; its times are replaced, its bytes stay. `dtype`: of multiplications, if the facts
// do not name it. `optimizer`: as --optimizer names it. Throws UsageError if the machine lacks the rate of a dtype.
plan::RecordedStepCosts estimated_costs(const plan::ProgramFacts& facts, plan::RecordedStepCosts costs,
                                        const plan::MachineProfile& machine, const std::string& dtype,
                                        const std::string& optimizer);

}  // namespace memtune::planner
