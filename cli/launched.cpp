#include "cli/launched.h"

#include <chrono>
#include <memory>
#include <optional>

#include "cli/app.h"
#include "core/base/error.h"
#include "core/sweep/launch/launcher_rank_environment.h"
#include "core/sweep/loop/command_line.h"
#include "core/sweep/ranks/rendezvous.h"
#include "core/sweep/ranks/worker.h"
#include "core/sweep/ranks/worker_coordinator.h"

namespace memtune::cli {
namespace {

std::optional<launch::LauncherRankEnvironment> this_launch() { return launch::read_launch(launch::this_environment()); }

[[noreturn]] void refuse(const launch::LauncherRankEnvironment& launch, const std::string& what) {
  throw UsageError(launch.launcher + " started " + std::to_string(launch.size) + " processes: " + what);
}

}  // namespace

int run_launched(sweep::EngineSweepSettings settings, const ConsoleFlags& console,
                 const std::function<int(const sweep::EngineSweepSettings&)>& act) {
  const std::optional<launch::LauncherRankEnvironment> launch = this_launch();
  if (!launch || settings.request.training.ranks == 1) return act(settings);
  const std::chrono::milliseconds timeout(settings.request.training.rank_timeout_ms);
  const sweep::RendezvousSharedCommandLineAndTimeout rendezvous{sweep::command_line(), timeout,
                                                                [&](const std::string& line) { say(console, line); }};
  if (launch->rank > 0) {
    const auto coordinator = sweep::join_coordinator(*launch, rendezvous);
    return sweep::run_worker(*launch, *coordinator, settings.request, timeout);
  }
  const std::unique_ptr<sweep::WorkerCoordinator> workers = sweep::accept_workers(*launch, rendezvous);
  settings.workers = workers.get();
  try {
    const int code = act(settings);
    workers->end(code);
    return code;
  } catch (const UsageError&) {
    workers->end(kUsage);
    throw;
  }
}

void refuse_launched(const plan::TrainingSettings& training, const std::string& what) {
  const std::optional<launch::LauncherRankEnvironment> launch = training.ranks == 1 ? std::nullopt : this_launch();
  if (launch) refuse(*launch, what);
}

void refuse_worker(const std::string& what) {
  const std::optional<launch::LauncherRankEnvironment> launch = this_launch();
  if (launch && launch->local_rank >= 0) refuse(*launch, what);
}

}  // namespace memtune::cli
