// The recorded step in the form that it is played back in: made once, read by every prediction. Values become storages
// with versions: what an op writes in place lies where the value before it did. Plain numbers; bytes, milliseconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/config/program_facts.h"
#include "core/config/step_costs.h"

namespace memtune::planner {

// Lists of one kind, one behind the other.
class Lists {
 public:
  explicit Lists(const std::vector<std::vector<int>>& lists);
  std::span<const int> operator[](int i) const {
    return std::span(items_).subspan(begin_[i], begin_[i + 1] - begin_[i]);
  }

 private:
  std::vector<int> begin_ = {0}, items_;
};

struct StepTables {
  struct Value {
    int number = 0;  // its own
    int run = -1;
    int block = -1;   // of the op that made it; -1 also: from outside
    int output = 0;   // argument of the op; kPrivate
    int storage = 0;  // values of one number lie in the same memory
    int cast_of = config::StepCosts::kNoCast;
    int64_t bytes = 0;       // as asked for
    int64_t held_bytes = 0;  // as allocated at least
    bool outside = false;
    bool in_place = false;  // in the memory of a value before it
    // Autocast keeps it until the end of the forward.
    bool cached() const { return cast_of == config::StepCosts::kCastOfOther && run >= 0; }
  };
  struct Run {
    int op = 0, block = -1;
    bool after_blocks = false, writes_outside = false;
    bool on_host = false;                      // asks for a size or a type: never made again
    int64_t generator_bytes = 0;               // of a random generator's state; 0: not in the device's memory
    int64_t own_bytes = 0, scratch_bytes = 0;  // the second: of that, what it does not make
    int64_t before_bytes = 0;
    double ms = 0, host_ms = 0;  // such that the recorded step takes step_ms
  };

  StepTables(const config::ProgramFacts& facts, const config::StepCosts& costs);

  std::vector<Value> values;
  std::vector<Run> runs;
  std::vector<int64_t> storage_bytes;  // by storage, as allocated at least; 0: not the step's
  std::vector<int64_t> op_bytes;       // by op, own_bytes at most
  double scale = 1;                    // of recorded times
  double cast_bytes_per_ms = 0;        // read and written; 0: not known
  Lists reads, makes, writes, saves;   // by run
  Lists last_reads, never_read;        // by run: storages that the step itself lets go behind it
};

}  // namespace memtune::planner
