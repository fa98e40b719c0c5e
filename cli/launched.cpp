#include "cli/launched.h"

#include <chrono>
#include <memory>
#include <optional>

#include "cli/app.h"
#include "core/base/error.h"
#include "core/sweep/launch/launch.h"
#include "core/sweep/loop/command_line.h"
#include "core/sweep/ranks/follow.h"
#include "core/sweep/ranks/followers.h"
#include "core/sweep/ranks/meeting.h"

namespace memtune::cli {
namespace {

std::optional<launch::Launch> this_launch() { return launch::read_launch(launch::this_environment()); }

[[noreturn]] void refuse(const launch::Launch& launch, const std::string& what) {
  throw UsageError(launch.launcher + " started " + std::to_string(launch.size) + " processes: " + what);
}

}  // namespace

int run_launched(sweep::SweepSettings settings, const std::function<int(const sweep::SweepSettings&)>& act) {
  const std::optional<launch::Launch> launch = this_launch();
  if (!launch || settings.request.training.ranks == 1) return act(settings);
  const std::chrono::milliseconds patience(settings.request.training.rank_timeout_ms);
  const sweep::MeetingSettings meeting{sweep::command_line(), patience};
  if (launch->rank > 0) {
    const auto leader = sweep::meet_leader(*launch, meeting);
    return sweep::follow(*launch, *leader, settings.request, patience);
  }
  const std::unique_ptr<sweep::Followers> followers = sweep::meet_followers(*launch, meeting);
  settings.followers = followers.get();
  try {
    const int code = act(settings);
    followers->end(code);
    return code;
  } catch (const UsageError&) {
    followers->end(kUsage);
    throw;
  }
}

void refuse_launched(const plan::TrainingSettings& training, const std::string& what) {
  const std::optional<launch::Launch> launch = training.ranks == 1 ? std::nullopt : this_launch();
  if (launch) refuse(*launch, what);
}

void refuse_worker(const std::string& what) {
  const std::optional<launch::Launch> launch = this_launch();
  if (launch && launch->local_rank >= 0) refuse(*launch, what);
}

}  // namespace memtune::cli
