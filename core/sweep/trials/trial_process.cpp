#include "core/sweep/trials/trial_process.h"

#include <unistd.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/sweep/trials/local_rank_process.h"

namespace memtune::sweep {
namespace {

constexpr std::chrono::milliseconds kTick{50};  // how often limits are checked

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
  while (trial.poll_output(kTick)) {
  }
  return trial.answer();
}

}  // namespace memtune::sweep
