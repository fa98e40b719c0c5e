#include "core/sweep/trials/trial_pid_and_pipes.h"

#include <string_view>
#include <utility>

#include "core/measure/process/child.h"
#include "core/sweep/trials/spawn.h"
#include "core/sweep/trials/trial_process.h"

extern char** environ;

namespace memtune::sweep {
namespace {

std::vector<std::string> trial_environment(int threads) {
  std::vector<std::string> variables;
  bool workspace_set = false, waiting_set = false, threads_set = false;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("KINETO_USE_DAEMON=")) continue;    // it would start a second user of CUPTI
    if (text.starts_with("MEMTUNE_RANK_SECRET=")) continue;  // the model could read it
    workspace_set |= text.starts_with("CUBLAS_WORKSPACE_CONFIG=");
    waiting_set |= text.starts_with("OMP_WAIT_POLICY=") || text.starts_with("GOMP_SPINCOUNT=");
    threads_set |= text.starts_with("OMP_NUM_THREADS=");
    variables.emplace_back(text);
  }
  if (!threads_set && threads > 0) variables.emplace_back("OMP_NUM_THREADS=" + std::to_string(threads));
  if (!workspace_set) variables.emplace_back("CUBLAS_WORKSPACE_CONFIG=:4096:8");  // deterministic cuBLAS
  // Threads that spin while they wait take cores from the threads they wait for. On a busy machine a step of 20 ms then
  // takes seconds.
  if (!waiting_set) variables.emplace_back("OMP_WAIT_POLICY=passive");
  return variables;
}

}  // namespace

TrialPidAndPipes start_trial(std::vector<std::string> arguments, int threads, int rendezvous, int input) {
  arguments.insert(arguments.begin(), find_trial_program().string());
  process::Pipe frames, said;
  const pid_t pid =
      spawn(std::move(arguments), trial_environment(threads), said.write.get(), frames.write.get(), rendezvous, input);
  return {pid, std::move(frames.read), std::move(said.read)};
}

}  // namespace memtune::sweep
