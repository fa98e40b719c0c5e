// What a trial of a run recorded of its step's costs.
#pragma once

#include <filesystem>
#include <optional>

#include "core/config/program_facts.h"
#include "core/config/step_costs.h"

namespace memtune::sweep {

// As a step with everything kept has them (planner::kept_costs), whatever the trial's plan was, of the rank whose step
// takes most memory; nothing where they were not recorded on all ranks, or make no sense of that program.
std::optional<config::StepCosts> read_costs(const std::filesystem::path& trial_folder,
                                            const config::ProgramFacts& program);

}  // namespace memtune::sweep
