// Handles Ctrl-C, SIGTERM and SIGHUP during a sweep. The first signal asks for a clean end, the second ends the process
// at once. Trials notice that their parent process has ended.
#pragma once

#include <csignal>
#include <vector>

namespace memtune::process {

// Catches SIGINT, SIGTERM and SIGHUP while it exists. A nested scope does nothing; the outer one stays in effect. A
// signal that came after the last call of interrupted() is raised again at the end.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  std::vector<struct sigaction> previous_;  // handlers to restore; empty if nested
};

// True if a signal has arrived since the outermost scope began. Always false outside a scope.
bool interrupted();

}  // namespace memtune::process
