// Least time to recompute a value, by byte: the time of its op, plus the time of inputs that nothing else keeps. Each
// op that reads such an input is charged a share of it. The sum over any set of values therefore never exceeds the time
// to recompute all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/planner/recorded_step_simulation_tables.h"

namespace memtune::planner {

// Freed bytes and the ms to recompute them. A part of the bytes takes the same part of the ms.
struct RecomputeCostCurveSegment {
  double bytes = 0, ms = 0;
};

class ActivationRecomputeTimeLowerBounds {
 public:
  // `tables` must outlive it. `wanted`: by value, whether backward needs it; such a value may be resident for other
  // recomputations.
  ActivationRecomputeTimeLowerBounds(const RecordedStepSimulationTables& tables, std::vector<char> wanted);

  // They add up to the bytes of the value, cheapest first. Empty: the value cannot be recomputed.
  const std::vector<RecomputeCostCurveSegment>& of(int value) const { return known_[value].pieces; }
  // Bytes of the largest value among this one and inputs that the pieces count as freed. Each of them could be
  // offloaded instead.
  int64_t largest_bytes(int value) const { return known_[value].largest_bytes; }
  // The last forward run that reads an input that the pieces count as freed; -1: none.
  int last_read(int value) const { return known_[value].last_read; }

 private:
  struct Known {
    std::vector<RecomputeCostCurveSegment> pieces;
    int last_read = -1;
    int64_t largest_bytes = 0;
  };

  Known find(const RecordedStepSimulationTables::Value& value) const;
  double own_ms(const RecordedStepSimulationTables::Value& value) const;
  std::vector<int> unkept_inputs(const RecordedStepSimulationTables::Value& value) const;
  bool can_rerun(const RecordedStepSimulationTables::Value& value) const;

  const RecordedStepSimulationTables& tables_;
  std::vector<char> wanted_;
  std::vector<double> made_bytes_;   // by run: bytes of all that it makes
  std::vector<int> readers_, last_;  // by value: number of reads, last reader
  std::vector<Known> known_;
};

}  // namespace memtune::planner
