// What of a plan has no effect on a model, and why: what the facts of the model say.
#pragma once

#include <string>

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/config/strategy.h"

namespace memtune::plan {

// Of a plan that was run and offloaded and recomputed nothing. One line: "every value is below min=1MiB; min=64KiB
// would move 11 MiB".
std::string why_no_effect(const config::Plan& plan, const config::ProgramFacts& facts);

// Of a plan that was run and offloaded nothing; "" where it offloads nothing on purpose or size is not the reason.
std::string why_nothing_offloaded(const config::Plan& plan, const config::ProgramFacts& facts);

// The strategy without parts, and with inputs kept, where that changes nothing that backward needs: an offload behind
// a checkpoint that leaves it nothing to move. As it is where forward was not measured.
config::Strategy without_idle_parts(const config::Strategy& strategy, const config::ProgramFacts& facts);

}  // namespace memtune::plan
