// The processes of one trial, one a rank: their requests beside the trial's own, and where they meet.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/file_system.h"
#include "core/config/run_request.h"
#include "core/config/trial_request.h"
#include "core/sweep/trial_process.h"

namespace memtune::sweep {

// Files of the loss and the gradients that ranks compare theirs with: the request's for the first. Followers have their
// own.
std::vector<std::string> references_of(const config::TrialRequest& request, const Followers* followers);

// Of the machine's ranks each has a CUDA device of its own, by its number among them; or the only one that
// CUDA_VISIBLE_DEVICES leaves this process, as a launcher may have set it for each.
std::string device_of_rank(const std::string& device, int local_rank);

// Where a rank tells what its step costs: costs.json, costs-rank1.json.
std::filesystem::path costs_of_rank(const std::filesystem::path& costs, int rank);

// Runs `request`, which stands in `folder` as `name`, on as many ranks as its training has: `command` with what each
// of them is told in its place. Ranks' traces become one where they ran here; their logs lie beside the first one's.
TrialAnswer run_ranks(const config::TrialRequest& request, const std::filesystem::path& folder, const std::string& name,
                      const TrialCommand& command, FileSystem& files);
// The same of one that trains with saves.
TrialAnswer run_ranks(const config::RunRequest& request, const std::filesystem::path& folder, const std::string& name,
                      const TrialCommand& command, FileSystem& files);

}  // namespace memtune::sweep
