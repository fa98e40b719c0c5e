#include "core/sweep/trials/trial_process.h"

#include <unistd.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/measure/process/interrupt.h"
#include "core/sweep/trials/local_rank_process.h"
#include "core/sweep/trials/prestarted_trial_process.h"

namespace memtune::sweep {
namespace {

constexpr std::chrono::milliseconds kTick{50};  // how often limits are checked

// From now on nothing is measured that another process could disturb.
bool is_ending(const TrialProcessSettings& command, const LocalRankProcess& trial) {
  return command.arguments.front() == "inspect" || trial.phase().name == "trace" || trial.answered();
}

}  // namespace

std::filesystem::path find_trial_program() {
  if (const char* path = std::getenv("MEMTUNE_TRIAL"); path && *path) {
    if (access(path, X_OK) != 0) throw UsageError(std::string("MEMTUNE_TRIAL=") + path + " is no program");
    return path;
  }
  const std::filesystem::path folder = executable_path().parent_path();
  for (const auto& path : {folder / "memtune-trial", folder / "../libexec/memtune/memtune-trial"}) {
    if (access(path.c_str(), X_OK) == 0) return path.lexically_normal();
  }
  // Set by the console script of the wheel, which knows the PyTorch of its environment.
  if (const char* why = std::getenv("MEMTUNE_NO_ENGINE"); why && *why) throw UsageError(why);
  throw UsageError("memtune-trial, which runs the trials, is neither in " + folder.string() + " nor in " +
                   (folder / "../libexec/memtune").lexically_normal().string() +
                   "; build with MEMTUNE_TORCH=ON or set MEMTUNE_TRIAL to its path");
}

TrialAnswer run_trial_process(const TrialProcessSettings& command) {
  LocalRankProcess trial(command);
  while (trial.poll_output(kTick))
    if (command.spare && is_ending(command, trial)) command.spare->start(command.threads);
  if (command.spare && !process::interrupted()) command.spare->start(command.threads);
  return trial.answer();
}

}  // namespace memtune::sweep
