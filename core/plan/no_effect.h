// Why a plan that was run moved nothing and made nothing again: what the facts of the model say.
#pragma once

#include <string>

#include "core/config/plan.h"
#include "core/config/program_facts.h"

namespace memtune::plan {

// One line: "every value is below min=1MiB; min=64KiB would move 11 MiB".
std::string why_no_effect(const config::Plan& plan, const config::ProgramFacts& facts);

}  // namespace memtune::plan
