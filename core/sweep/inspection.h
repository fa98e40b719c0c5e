// A look at the model: what it is at one setting, found out in a process of its own and kept, so that a sweep that goes
// on need not load the model to know it.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "core/config/trial_request.h"
#include "core/sweep/run_directory.h"
#include "core/sweep/trial_process.h"

namespace memtune::sweep {

// ModelFacts, or why there are none. `key` is the setting's; the directory's inspect/<key> keeps request, log and
// facts.
TrialAnswer inspect(const config::TrialRequest& request, const std::string& key, const RunDirectory& directory,
                    std::chrono::milliseconds limit, const std::function<void(const Phase&)>& progress);

// Parameters, gradients of all of them and what the optimizer keeps; of several ranks, on each.
int64_t state_bytes(const config::TrainingSettings& training, const config::ProgramFacts& facts);

// UsageError for a memory cap or budget that no strategy can keep: the parameters alone take more.
void check_limits(const config::TrainingSettings& training, int64_t budget_bytes, const ModelFacts& facts);

}  // namespace memtune::sweep
