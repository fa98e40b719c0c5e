// Why a plan treats the blocks as it does: what making values again costs and frees, what moves and whether compute
// waits for it, what stays and what it would cost not to, and at which moment of the step the peak is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace memtune::planner {

// Parts of the step that are treated alike: blocks by number, or all that is before the blocks, or behind them. Figures
// are of all of them together, a step; bytes are those that wait for backward.
struct TreatedParts {
  enum class Where { before, blocks, behind };
  Where where = Where::blocks;
  std::vector<int> blocks = {};              // ascending
  std::vector<std::string> made_again = {};  // ops, in order, each kind once: "silu", "w1"
  std::vector<std::string> moved = {};       // the same
  int64_t freed_bytes = 0;                   // by making again
  double recompute_ms = 0;
  int64_t moved_bytes = 0;
  double wait_ms = 0;  // of compute, for copies of any part, while these run
  int64_t kept_bytes = 0;
  // The next thing to make again, of those that cost least a byte; 0: nothing more of it can be.
  int64_t next_bytes = 0;
  double next_ms = 0;
};

struct PeakMoment {
  enum class Pass { forward, backward, update } pass = Pass::forward;
  int block = -1;           // -1: in none
  std::string region = {};  // module path of the op that runs; "" in an update
  std::string op = {};      // its name
  int64_t bytes = 0;
};

struct PlanReasons {
  std::vector<TreatedParts> parts;  // in the order of the forward
  PeakMoment peak;
};

}  // namespace memtune::planner
