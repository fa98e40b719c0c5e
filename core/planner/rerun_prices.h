// What it takes at the least to make a value of the step again, byte by byte: its op's time, and that of what the op
// reads, where nothing else keeps that. What several ops read is charged to each in part, so that whoever adds up the
// prices of any set of values has no more than making all of them again takes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/planner/step_tables.h"

namespace memtune::planner {

// Bytes that are freed, and the ms of making them again; less than all of them take their share of it.
struct RerunPiece {
  double bytes = 0, ms = 0;
};

class RerunPrices {
 public:
  // `tables` outlive it. `wanted`: by value, whether backward asks for it; such a value may be there for other reruns.
  RerunPrices(const StepTables& tables, std::vector<char> wanted);

  // Together the value's bytes, cheapest first; none: it cannot be made again.
  const std::vector<RerunPiece>& of(int value) const { return known_[value].pieces; }
  // The most bytes of it and of what the pieces count as gone: of these one may move instead.
  int64_t largest_bytes(int value) const { return known_[value].largest_bytes; }
  // The last run of the forward that reads what the pieces count as gone.
  int last_read(int value) const { return known_[value].last_read; }

 private:
  struct Known {
    std::vector<RerunPiece> pieces;
    int last_read = -1;
    int64_t largest_bytes = 0;
  };

  Known find(const StepTables::Value& value) const;
  double own_ms(const StepTables::Value& value) const;
  std::vector<int> unkept_inputs(const StepTables::Value& value) const;
  bool can_rerun(const StepTables::Value& value) const;

  const StepTables& tables_;
  std::vector<char> wanted_;
  std::vector<double> made_bytes_;   // by run, of all that it makes
  std::vector<int> readers_, last_;  // by value
  std::vector<Known> known_;
};

}  // namespace memtune::planner
