// Explains from ProgramFacts why a plan, or a part of a strategy, has no effect on a model.
#pragma once

#include <string>

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/config/strategy.h"

namespace memtune::plan {

// Why a plan that was run offloaded and recomputed nothing. One line, such as "every value is below min=1MiB; min=64KiB
// would move 11 MiB".
std::string why_no_effect(const config::Plan& plan, const config::ProgramFacts& facts);

// Why a plan that was run offloaded nothing. Returns "" if the plan offloads nothing on purpose or size is not the
// reason.
std::string why_nothing_offloaded(const config::Plan& plan, const config::ProgramFacts& facts);

// Removes parts, and offloading of checkpoint inputs, that change nothing for backward. Example: an offload after a
// checkpoint that leaves it nothing to offload. Returns the strategy unchanged if forward was not measured.
config::Strategy without_idle_parts(const config::Strategy& strategy, const config::ProgramFacts& facts);

}  // namespace memtune::plan
