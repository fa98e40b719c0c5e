#include "core/sweep/ranks/rank_trials.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>

#include "core/base/file.h"
#include "core/base/temporary_folder.h"
#include "core/sweep/launch/socket.h"
#include "core/sweep/ranks/rank_traces.h"
#include "core/sweep/ranks/worker_coordinator.h"
#include "core/sweep/trials/local_rank_process.h"
#include "core/sweep/trials/trial_group.h"

namespace memtune::sweep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// "request.json" of rank 1 is "request-rank1.json".
fs::path of_rank(const fs::path& path, int rank) {
  return path.parent_path() / (path.stem().string() + "-rank" + std::to_string(rank) + path.extension().string());
}

// Where the processes of a trial on several workers rendezvous: a file in a private folder if all of them see it, else
// a store of rank 0, to which others can connect too.
struct TrialRendezvous {
  explicit TrialRendezvous(const WorkerCoordinator& workers) {
    if (workers.shares_files()) {
      place = (folder.emplace("ranks").path() / "store").string();
    } else {
      listener.emplace(launch::is_loopback(workers.address(0)), 0);
      place = "tcp://" + workers.address(0) + ":" + std::to_string(listener->port());
    }
  }

  std::optional<TemporaryFolder> folder;
  std::optional<launch::TcpListener> listener;
  std::string place;
};

// Starts rank 0 here and the other ranks on the workers.
template <class DiskTransferCompletionHandle>
TrialAnswer run_on_workers(const plan::TrialRequest& request, const fs::path& path, const TrialProcessSettings& command,
                           FileSystem& files, WorkerCoordinator& workers,
                           const DiskTransferCompletionHandle& request_of) {
  workers.check();
  const TrialRendezvous rendezvous(workers);
  const bool fresh = !request.envelope.reference.empty() && !fs::exists(request.envelope.reference);
  std::vector<std::unique_ptr<LocalOrRemoteRankTrialProcess>> trials;
  for (int rank = 0; rank < workers.size(); ++rank) {
    plan::TrialRequest own = request;
    own.envelope.rank = rank;
    own.envelope.rendezvous = rendezvous.place;
    own.envelope.address = workers.address(rank);
    if (rank == 0) own.training.device = device_of_rank(request.training.device, 0);
    if (rank > 0) {
      const fs::path costs = request.envelope.costs.empty() ? "" : costs_of_rank(request.envelope.costs, rank);
      trials.push_back(workers.start(rank,
                                     {{"kind", command.arguments.front()},
                                      {"request", request_of(own)},
                                      {"limit_ms", command.limit.count()},
                                      {"grace_ms", command.grace.count()},
                                      {"fresh", fresh}},
                                     {of_rank(command.log, rank), costs}, files));
      continue;
    }
    const fs::path own_path = of_rank(path, rank);
    write_file(own_path, request_of(own).dump(1, '\t') + "\n", files);
    TrialProcessSettings each = command;
    each.arguments.back() = own_path.string();
    if (rendezvous.listener) each.rendezvous = rendezvous.listener->descriptor();
    each.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / workers.on_this_machine());
    trials.push_back(std::make_unique<LocalRankProcess>(each));
  }
  TrialAnswer answer = run_trial_group(trials);
  const auto* failure = std::get_if<ProcessFailure>(&answer);
  // After a signal the workers may be gone too, which is no error.
  const bool stopped = failure && failure->outcome == result::TrialOutcome::interrupted;
  if (!stopped) workers.check();
  return answer;
}

template <class DiskTransferCompletionHandle>
TrialAnswer run_each(const plan::TrialRequest& request, const fs::path& path, const TrialProcessSettings& command,
                     FileSystem& files, WorkerCoordinator* workers, const DiskTransferCompletionHandle& request_of) {
  const int ranks = request.training.ranks;
  if (ranks == 1) return run_trial_process(command);
  if (workers) return run_on_workers(request, path, command, files, *workers, request_of);
  const TemporaryFolder rendezvous_folder("ranks");
  const std::vector<std::string> references = references_of(request.envelope.reference, ranks, nullptr);
  std::vector<std::unique_ptr<LocalOrRemoteRankTrialProcess>> trials;
  std::vector<fs::path> traces;
  for (int rank = 0; rank < ranks; ++rank) {
    plan::TrialRequest own = request;
    own.envelope.rank = rank;
    own.envelope.rendezvous = (rendezvous_folder.path() / "meeting").string();
    own.training.device = device_of_rank(request.training.device, rank);
    if (!request.envelope.reference.empty()) own.envelope.reference = references[static_cast<size_t>(rank)];
    if (!request.envelope.trace.empty())
      own.envelope.trace =
          traces.emplace_back(rank == 0 ? fs::path(request.envelope.trace) : of_rank(request.envelope.trace, rank))
              .string();
    if (!request.envelope.costs.empty()) own.envelope.costs = costs_of_rank(request.envelope.costs, rank).string();
    const fs::path own_path = of_rank(path, rank);
    write_file(own_path, request_of(own).dump(1, '\t') + "\n", files);
    TrialProcessSettings each = command;
    each.arguments.back() = own_path.string();
    each.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
    if (rank > 0) {
      each.log = of_rank(command.log, rank);
      each.progress = {};
    }
    trials.push_back(std::make_unique<LocalRankProcess>(each));
  }
  TrialAnswer answer = run_trial_group(trials);
  if (!traces.empty()) merge_rank_traces(traces, files);
  return answer;
}

}  // namespace

std::string device_of_rank(const std::string& device, int local_rank) {
  if (device == "cpu") return device;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const bool one = visible && *visible && std::string_view(visible).find(',') == std::string_view::npos;
  return "cuda:" + std::to_string(one ? 0 : local_rank);
}

std::vector<std::string> references_of(const std::string& reference, int ranks, const WorkerCoordinator* workers) {
  std::vector<std::string> references = {reference};
  if (workers) return references;
  for (int rank = 1; rank < ranks; ++rank) references.push_back(of_rank(reference, rank).string());
  return references;
}

fs::path costs_of_rank(const fs::path& costs, int rank) { return rank == 0 ? costs : of_rank(costs, rank); }

TrialAnswer run_ranks(const plan::TrialRequest& request, const fs::path& folder, const std::string& name,
                      const TrialProcessSettings& command, FileSystem& files, WorkerCoordinator* workers) {
  return run_each(request, folder / name, command, files, workers,
                  [](const plan::TrialRequest& own) { return json(own); });
}

TrialAnswer run_ranks(const plan::ResumableTrainingRequest& request, const fs::path& folder, const std::string& name,
                      const TrialProcessSettings& command, FileSystem& files, WorkerCoordinator* workers) {
  return run_each(request.trial, folder / name, command, files, workers, [&](const plan::TrialRequest& own) {
    plan::ResumableTrainingRequest of_rank = request;
    of_rank.trial = own;
    return json(of_rank);
  });
}

}  // namespace memtune::sweep
