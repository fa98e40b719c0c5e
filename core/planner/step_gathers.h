// The gathers of a sharded step on paper: which units' memory is there, and what compute waits for them.
//
// A gather takes what it took in the recorded step, one after another, beside compute. In the forward, which is the
// same under every plan, waits are those that were recorded. Reductions stay where they were recorded.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/config/step_costs.h"
#include "core/gather/unit_schedule.h"
#include "core/planner/step_clock.h"
#include "core/planner/step_memory.h"

namespace memtune::planner {

class StepGathers final : gather::UnitMemory {
 public:
  // Of the steps before it; nothing of the first.
  struct Before {
    gather::UnitSchedule::Learned learned;
    std::vector<bool> there;  // by unit
  };

  // Of costs that are not sharded it does nothing. Everything passed but `before` must outlive it; `scale`: of recorded
  // times.
  StepGathers(const config::StepCosts& costs, double scale, const Before& before, StepMemory& memory, StepClock& clock);
  StepGathers(const StepGathers&) = delete;
  StepGathers& operator=(const StepGathers&) = delete;

  void begin_forward();
  void read(int run) { schedule_.read(costs_.runs[run].units); }
  void begin_backward();
  void read_by_node(const std::vector<int>& units);
  void read_again(int run);
  void end_backward() { schedule_.end_backward(); }

  Before before_next() const;
  double waited_ms() const { return waited_ms_; }  // of compute, in backward
  double waited_in_reruns_ms() const { return waited_in_reruns_ms_; }
  int64_t gathered_bytes() const { return gathered_bytes_; }
  // Of what is there now, what is there at this moment under every plan.
  int64_t needed_bytes() const;

 private:
  void gather(int unit) override;
  void wait(int unit) override;
  void free(int unit) override;

  const config::StepCosts& costs_;
  const double scale_;
  const bool frees_;
  StepMemory& memory_;
  StepClock& clock_;
  std::vector<int> block_of_;  // memory, by unit; kNone: it is not there
  std::vector<double> done_ms_;
  std::vector<int> read_by_node_;
  bool in_backward_ = false;
  double lane_ms_ = 0;  // when the last gather is done
  double waited_ms_ = 0, waited_in_reruns_ms_ = 0;
  int64_t gathered_bytes_ = 0;
  gather::UnitSchedule schedule_;
};

}  // namespace memtune::planner
