// Runs the processes of one trial, one per rank: writes their requests and gives them a rendezvous.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/file_system.h"
#include "core/plan/request/resumable_training_request.h"
#include "core/plan/request/trial_request.h"
#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {

class WorkerCoordinator;

// Files with the loss and the gradients that the local ranks compare theirs with, by rank; the first is the request's.
// With `workers` only the first: each worker has its own.
std::vector<std::string> references_of(const std::string& reference, int ranks, const WorkerCoordinator* workers);

// CUDA device of a rank: its number among the ranks of this machine. If CUDA_VISIBLE_DEVICES leaves this process one
// device, as a launcher may set it for each rank, it is device 0.
std::string device_of_rank(const std::string& device, int local_rank);

// Where a rank records its step costs: costs.json, costs-rank1.json.
std::filesystem::path costs_of_rank(const std::filesystem::path& costs, int rank);

// Runs `request`, stored in `folder` as `name`, on as many ranks as its training has. Each rank runs `command` with a
// request of its own. Traces of local ranks are merged; the logs of ranks other than 0 are separate files in the same
// folder. `workers`: the other ranks if a launcher started them; nullptr: all ranks start here.
TrialAnswer run_ranks(const plan::TrialRequest& request, const std::filesystem::path& folder, const std::string& name,
                      const TrialProcessSettings& command, FileSystem& files, WorkerCoordinator* workers = nullptr);
// The same for a training run with saves.
TrialAnswer run_ranks(const plan::ResumableTrainingRequest& request, const std::filesystem::path& folder,
                      const std::string& name, const TrialProcessSettings& command, FileSystem& files,
                      WorkerCoordinator* workers = nullptr);

}  // namespace memtune::sweep
