// Explains from ProgramFacts why a plan, or a part of a strategy, has no effect on a model.
#pragma once

#include <string>

#include "core/plan/facts/program_facts.h"
#include "core/plan/strategy/plan.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::plan {

// Why a plan that was run offloaded and recomputed nothing. One line, such as "every activation is below min=1MiB;
// min=64KiB would offload 11 MiB".
std::string why_no_effect(const Plan& plan, const ProgramFacts& facts);

// Why a plan that was run offloaded nothing. Returns "" if the plan offloads nothing on purpose or size is not the
// reason.
std::string why_nothing_offloaded(const Plan& plan, const ProgramFacts& facts);

// Removes parts, and offloading of checkpoint inputs, that change nothing for backward. Example: an offload after a
// checkpoint that leaves it nothing to offload. Returns the strategy unchanged if forward was not measured.
Strategy without_idle_parts(const Strategy& strategy, const ProgramFacts& facts);

}  // namespace memtune::plan
