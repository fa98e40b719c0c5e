// Clocks of a simulated step in milliseconds: of the compute stream, and of the host, which runs ahead of it. If
// `issues`, host times are those of RecordedStepCosts::IssueTimes, and compute starts no work before the host has
// issued it.
#pragma once

#include <algorithm>

namespace memtune::planner {

struct SimulatedComputeAndHostClock {
  double compute = 0, host = 0;
  double waited = 0;  // compute waits for copies and the disk
  bool issues = false;
  double hook_ms = 0;  // host time that engines add to each op; 0 unless `issues`

  // Returns how long compute took, with its wait for the host.
  double run(double ms, double host_ms) {
    host += host_ms + hook_ms;
    const double idle_ms = issues ? std::max(0.0, host - compute) : 0;
    compute += idle_ms + ms;
    return idle_ms + ms;
  }
  // Work that is issued in many parts, such as the optimizer's: it starts with the first of them.
  void run_parts(double ms, double host_ms) {
    compute = std::max(compute, host) + ms;
    host += host_ms;
    compute = std::max(compute, host);
  }
  // The host reads a result.
  void read_result() { host = std::max(host, compute); }
  // The earliest start of work that the host issues now.
  double next_start() const { return issues ? std::max(compute, host) : compute; }
  void wait_until(double then) {
    waited += std::max(0.0, then - compute);
    compute = std::max(compute, then);
  }
  // The host waits. Compute waits too, once it has finished the work queued before.
  void host_waits_until(double then) {
    if (issues) {
      wait_until(then);
      host = std::max(host, then);
      return;
    }
    const double late = std::max(0.0, then - host), ahead = std::max(0.0, compute - host);
    host += late;
    wait_until(compute + std::max(0.0, late - ahead));
  }
  // Whether the host sees an operation as ended that ends at `then`.
  bool ended(double then) const { return then <= host; }
};

}  // namespace memtune::planner
