#include "core/sweep/trials/prestarted_trial_process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

namespace memtune::sweep {

void PrestartedTrialProcess::start(int threads) noexcept try {
  if (process_.pid != 0) return;
  int ends[2];  // sockets, because words to a process that has ended must not raise SIGPIPE
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  words_ = FileDescriptor(ends[0]);
  const FileDescriptor input(ends[1]);
  process_ = start_trial({"later", device_}, threads, -1, input.get());
  threads_ = threads;
} catch (const std::exception&) {
  end();
}

std::optional<TrialPidAndPipes> PrestartedTrialProcess::take(const std::vector<std::string>& arguments, int threads) {
  if (process_.pid == 0) return {};
  const std::string line = nlohmann::json(arguments).dump() + "\n";
  const bool said = threads == threads_ &&
                    ::send(words_.get(), line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
  if (!said) {
    end();
    return {};
  }
  words_ = FileDescriptor();
  return std::exchange(process_, TrialPidAndPipes());
}

void PrestartedTrialProcess::end() noexcept {
  words_ = FileDescriptor();
  if (process_.pid != 0) {
    ::kill(-process_.pid, SIGKILL);
    ::waitpid(process_.pid, nullptr, 0);
  }
  process_ = TrialPidAndPipes();
}

}  // namespace memtune::sweep
