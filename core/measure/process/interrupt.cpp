#include "core/measure/process/interrupt.h"

#include <array>

namespace memtune::process {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t interrupted_by = 0;
bool noticed = false;
bool catching = false;

void remember(int signal) {
  interrupted_by = signal;
  for (int other : kSignals) std::signal(other, SIG_DFL);  // the second signal ends the process
}

}  // namespace

InterruptScope::InterruptScope() {
  if (catching) return;
  catching = true;
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
  catching = false;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
  const int missed = noticed ? 0 : interrupted_by;
  interrupted_by = 0;
  if (missed != 0) std::raise(missed);
}

bool interrupted() {
  if (interrupted_by == 0) return false;
  return noticed = true;
}

}  // namespace memtune::process
