// Inspects the model at one setting, in a process of its own. The facts are kept, so that a resumed sweep need not load
// the model.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "core/answer/run/run_directory.h"
#include "core/plan/request/trial_request.h"
#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {

// Returns ModelInspectionResult, or why there are none. `key`: of the setting. Request, log and facts are kept in
// inspect/<key> of the directory. `others`: folders of runs that may have the facts too. `spare`: for the trial that
// follows; may be null.
TrialAnswer inspect(const plan::TrialRequest& request, const std::string& key, const RunDirectory& directory,
                    std::span<const std::filesystem::path> others, std::chrono::milliseconds limit,
                    const std::function<void(const TrialPhaseProgress&)>& progress, PrestartedTrialProcess* spare);

// Bytes per rank of parameters, gradients and optimizer state.
int64_t state_bytes(const plan::TrainingSettings& training, const plan::ProgramFacts& facts);

// Throws UsageError if the memory cap or the budget is less than the parameters alone. For strategies of which none
// offloads parameters.
void check_limits(const plan::TrainingSettings& training, int64_t budget_bytes, const ModelInspectionResult& facts);

}  // namespace memtune::sweep
