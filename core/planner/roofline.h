// What the ops of a recorded step would take of two machines if each did nothing but what it must: multiply at the rate
// of their dtype, or move their operands, whichever takes longer. Source: Williams, Waterman, Patterson, "Roofline",
// 2009.
//
// Of a backward it is twice what the forward multiplies and moves, and what the ops before it that saved nothing move:
// their backward runs before anything else is asked for.
#pragma once

#include <string>
#include <vector>

#include "core/config/machine_profile.h"
#include "core/config/program_facts.h"
#include "core/config/step_costs.h"

namespace memtune::planner {

// Milliseconds on the machine that measured, and on the other.
struct Roof {
  double from_ms = 0, to_ms = 0;
  Roof& operator+=(const Roof& other);
};

class Roofline {
 public:
  // `dtype`: what is multiplied in where facts do not tell. UsageError where a machine's rate of a dtype is not known.
  Roofline(const config::ProgramFacts& facts, const config::StepCosts& costs, const config::MachineProfile& from,
           const config::MachineProfile& to, const std::string& dtype);

  const Roof& forward(int run) const { return forward_[static_cast<size_t>(run)]; }
  const Roof& backward(int run) const { return backward_[static_cast<size_t>(run)]; }

  // Times on the other machine by those on this, of what is bound by one thing alone.
  double arithmetic_ratio(int run) const { return arithmetic_[static_cast<size_t>(run)]; }
  double memory_ratio() const { return memory_.to_ms / memory_.from_ms; }
  bool bound_by_arithmetic(int run) const { return by_arithmetic_[static_cast<size_t>(run)]; }  // here
  // Whether it multiplies an amount that is not known; then it has no roof.
  bool unknown(int run) const { return unknown_[static_cast<size_t>(run)]; }

  Roof moved(double bytes) const { return {memory_.from_ms * bytes, memory_.to_ms * bytes}; }

 private:
  Roof memory_;  // of a byte
  std::vector<Roof> forward_, backward_;
  std::vector<double> arithmetic_;
  std::vector<bool> by_arithmetic_, unknown_;
};

}  // namespace memtune::planner
