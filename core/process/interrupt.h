// Ctrl-C and its kin while a sweep runs: the first signal asks for a clean end, the second ends the process at once
// (a trial notices that its parent is gone).
#pragma once

#include <csignal>
#include <vector>

namespace memtune::process {

// Catches SIGINT, SIGTERM and SIGHUP while alive. Within another one it does nothing: that one goes on.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  std::vector<struct sigaction> previous_;  // empty: within another
};

// A signal has come since the scope began; never outside one.
bool interrupted();

}  // namespace memtune::process
