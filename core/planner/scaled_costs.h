// A recorded step as another machine would take it, op by op. Its memory stays as it is.
//
//   measured ms ─┬─ idle: the device had to wait for the host ── as long there, but for what the device does meanwhile
//                └─ busy ─┬─ what its roofline explains, as far as ops reach it ── x roofline there / roofline here
//                         └─ the rest ── with arithmetic, with memory, or unchanged
//
// What bounds the rest nobody knows: `likely` has the middle of the three, `least` and `most` the others, and all of
// the time above the roofline itself as rest.
#pragma once

#include <string>

#include "core/config/machine_profile.h"
#include "core/config/program_facts.h"
#include "core/config/step_costs.h"

namespace memtune::planner {

struct ScaledCosts {
  config::StepCosts likely, least, most;
};

// `costs` were recorded of the program of `facts`, on the machine `from`; `dtype`: what it multiplies in where facts do
// not tell. A link that `to` does not know is the recorded one. UsageError where a profile lacks the rate of a dtype.
ScaledCosts scale_costs(const config::ProgramFacts& facts, const config::StepCosts& costs,
                        const config::MachineProfile& from, const config::MachineProfile& to, const std::string& dtype);

}  // namespace memtune::planner
