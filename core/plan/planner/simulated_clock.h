// Clocks of a simulated step in milliseconds: of the compute stream, and of the host, which runs ahead of it.
#pragma once

#include <algorithm>

namespace memtune::planner {

struct SimulatedClock {
  double compute = 0, host = 0;
  double waited = 0;  // compute waits for copies and the disk

  void run(double ms, double host_ms) {
    compute += ms;
    host += host_ms;
  }
  void wait_until(double then) {
    waited += std::max(0.0, then - compute);
    compute = std::max(compute, then);
  }
  // The host waits. Compute waits too, once it has finished the work queued before.
  void host_waits_until(double then) {
    const double late = std::max(0.0, then - host), ahead = std::max(0.0, compute - host);
    host += late;
    wait_until(compute + std::max(0.0, late - ahead));
  }
  // Whether the host sees an operation as ended that ends at `then`.
  bool ended(double then) const { return then <= host; }
};

}  // namespace memtune::planner
