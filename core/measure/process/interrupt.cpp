#include "core/measure/process/interrupt.h"

#include <array>
#include <atomic>

namespace memtune::process {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
// Lock-free, so that a handler may write them.
std::atomic<int> interrupted_by = 0;
std::atomic<bool> noticed = false;
std::atomic<bool> catching = false;

void remember(int signal) {
  interrupted_by = signal;
  for (int other : kSignals) std::signal(other, SIG_DFL);  // the second signal ends the process
}

}  // namespace

InterruptScope::InterruptScope() {
  if (catching.exchange(true)) return;
  previous_.resize(kSignals.size());
  interrupted_by = 0;
  noticed = false;
  struct sigaction action {};
  action.sa_handler = remember;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &previous_[i]);
    // Keep ignored signals ignored: nohup and background jobs rely on it.
    if (previous_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptScope::~InterruptScope() {
  if (previous_.empty()) return;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
  const int by = interrupted_by.exchange(0);
  const int missed = noticed ? 0 : by;
  catching = false;
  if (missed != 0) std::raise(missed);
}

bool interrupted() {
  if (interrupted_by == 0) return false;
  return noticed = true;
}

}  // namespace memtune::process
