// Reads the step costs that a trial recorded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::sweep {

// Converted to a step that keeps all activations (planner::costs_without_recompute), whatever the trial's plan was.
// With several ranks, those of the rank with the highest predicted peak. None, and `why`, if not all ranks recorded
// them or they do not fit `program`.
std::optional<plan::RecordedStepCosts> read_costs(const std::filesystem::path& trial_folder,
                                                  const plan::ProgramFacts& program, std::string* why = nullptr);

}  // namespace memtune::sweep
