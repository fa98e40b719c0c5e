// Reasons for what a plan does with each block. They give cost and effect of recomputation, what is offloaded and
// whether compute waits for it, and what freeing more would cost. They also name the moment of the peak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace memtune::planner {

// Parts of the step with the same policy: some blocks, or the ops before or after the blocks. Figures are sums over
// these parts, per step. Bytes are those of activations that backward needs.
struct SamePolicyBlocksPlanExplanation {
  enum class Where { before, blocks, behind };
  Where where = Where::blocks;
  std::vector<int> blocks = {};              // ascending
  std::vector<std::string> recomputed = {};  // recomputed ops, in order, each kind once: "silu", "w1"
  std::vector<std::string> moved = {};       // the same for offloaded ones
  int64_t freed_bytes = 0;                   // by recomputation
  double recompute_ms = 0;
  int64_t offloaded_bytes = 0;
  double wait_ms = 0;  // compute waits for copies of any part while these run
  int64_t kept_bytes = 0;
  // The next thing to recompute: the cheapest per byte. 0: nothing is left.
  int64_t next_bytes = 0;
  double next_ms = 0;
};

struct PeakLocation {
  enum class Pass { forward, backward, update } pass = Pass::forward;
  int block = -1;           // -1: outside of blocks
  std::string region = {};  // module path of the running op; "" in an update
  std::string op = {};      // its name
  int64_t bytes = 0;
};

struct PlanReasons {
  std::vector<SamePolicyBlocksPlanExplanation> parts;  // in the order of the forward
  PeakLocation peak;
};

}  // namespace memtune::planner
