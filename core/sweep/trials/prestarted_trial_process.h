// A process of memtune-trial that is started before its trial is known. It loads its libraries while the trial before
// it ends.
//
//   spare.start()   while a trial traces its steps  ->  memtune-trial later: loads, waits on stdin
//   spare.take()    for the next trial              ->  runs it
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/sweep/trials/trial_pid_and_pipes.h"

namespace memtune::sweep {

class PrestartedTrialProcess {
 public:
  // `device`: whose libraries are loaded. No context is made on it: the trial before still measures memory.
  explicit PrestartedTrialProcess(std::string device) : device_(std::move(device)) {}
  ~PrestartedTrialProcess() { end(); }
  PrestartedTrialProcess(const PrestartedTrialProcess&) = delete;
  PrestartedTrialProcess& operator=(const PrestartedTrialProcess&) = delete;

  // Does nothing if one waits already. If none can be started, the next trial starts its own process and reports why.
  void start(int threads) noexcept;
  // The process that was started with so many threads and now runs `arguments`. None if there is none, or if it ended.
  std::optional<TrialPidAndPipes> take(const std::vector<std::string>& arguments, int threads);

 private:
  void end() noexcept;

  const std::string device_;
  TrialPidAndPipes process_;  // pid 0: none
  int threads_ = 0;
  FileDescriptor words_;  // a socket to its stdin
};

}  // namespace memtune::sweep
