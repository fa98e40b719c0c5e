// Least time of the ops of a recorded step on two machines: to multiply at the rate of their dtype, or to move their
// operands, whichever takes longer. Source: Williams, Waterman, Patterson, "Roofline", 2009.
//
// Backward counts twice its forward. It includes the time of the ops before it that saved nothing, because their
// backward runs before the next unpack.
#pragma once

#include <string>
#include <vector>

#include "core/plan/facts/machine_profile.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::planner {

// Milliseconds on the machine that measured, and on the other.
struct RooflineTimeOnSourceAndTargetMachine {
  double from_ms = 0, to_ms = 0;
  RooflineTimeOnSourceAndTargetMachine& operator+=(const RooflineTimeOnSourceAndTargetMachine& other);
};

class CrossMachineRoofline {
 public:
  // `dtype`: of multiplications, if the facts do not name it. Throws UsageError if a rate of a machine is unknown.
  CrossMachineRoofline(const plan::ProgramFacts& facts, const plan::RecordedStepCosts& costs,
                       const plan::MachineProfile& from, const plan::MachineProfile& to, const std::string& dtype);

  const RooflineTimeOnSourceAndTargetMachine& forward(int run) const { return forward_[static_cast<size_t>(run)]; }
  const RooflineTimeOnSourceAndTargetMachine& backward(int run) const { return backward_[static_cast<size_t>(run)]; }

  // Time on the other machine divided by that on this one, if only arithmetic, or only memory, is the bound.
  double arithmetic_ratio(int run) const { return arithmetic_[static_cast<size_t>(run)]; }
  double memory_ratio() const { return memory_.to_ms / memory_.from_ms; }
  bool bound_by_arithmetic(int run) const { return by_arithmetic_[static_cast<size_t>(run)]; }  // on this one
  // Whether it multiplies an unknown amount; it then has no roofline.
  bool unknown(int run) const { return unknown_[static_cast<size_t>(run)]; }

  RooflineTimeOnSourceAndTargetMachine moved(double bytes) const {
    return {memory_.from_ms * bytes, memory_.to_ms * bytes};
  }

 private:
  RooflineTimeOnSourceAndTargetMachine memory_;  // per byte
  std::vector<RooflineTimeOnSourceAndTargetMachine> forward_, backward_;
  std::vector<double> arithmetic_;
  std::vector<bool> by_arithmetic_, unknown_;
};

}  // namespace memtune::planner
