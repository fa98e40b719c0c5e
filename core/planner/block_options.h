// The ways to treat one block of a model that are worth trying: what of it stays on the device between forward and
// backward, what moves to host memory meanwhile, and what is made again in backward. No way is worse than another in
// all of the three; a planner picks one a block.
//
//   what is made again    exact, at every price of memory (recompute_sets.h)
//   what moves            of what that keeps, the dearest to make again first, in a few steps
//
// Times are those of StepCosts, averaged over blocks of one structure, which have their options in common.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/config/step_costs.h"
#include "core/plan/memory_graph.h"

namespace memtune::planner {

struct PlacedMemory {
  int memory = 0;  // index into MemoryGraph::memories()
  config::Place place = config::Place::keep;
  bool operator==(const PlacedMemory&) const = default;
};

struct BlockOption {
  std::vector<PlacedMemory> places = {};  // that are not keep
  int64_t resident_bytes = 0;             // stay on the device
  int64_t moved_bytes = 0;
  int64_t disk_bytes = 0;            // of these: that may go on to the disk
  double recompute_ms = 0;           // each op once
  int64_t recompute_peak_bytes = 0;  // of remade values alive together, about: as if every user of one had saved it
};

struct OptionLimits {
  int64_t move_min_bytes = config::TransferSettings().min_bytes;  // smaller memories do not move
  int64_t saved_min_bytes = config::Plan().saved_min_bytes;       // smaller private values stay in any case
  int most = 12;                                                  // options a block; at least 2
  bool disk = false;     // what moves may go on to the disk: all of a block's, or nothing
  bool outside = false;  // the ops before the blocks and behind them may be treated too; else they keep everything
};

struct BlockChoices {
  int block = 0;      // -1: the ops before the blocks and between them; the number of blocks: those behind them
  int structure = 0;  // blocks with the same number have the same options, of memories of their own
  // Most resident bytes first, the first keeps everything where it is; behind them those that move, with the disk.
  std::vector<BlockOption> options = {};
};

// In the order of the forward, with an entry before the blocks and one behind them. `facts` is of a program that was
// measured, and that `graph` and `costs` are of.
std::vector<BlockChoices> block_options(const config::ProgramFacts& facts, const plan::MemoryGraph& graph,
                                        const config::StepCosts& costs, const OptionLimits& limits);

// The plan that treats each block as its option says; what no option names stays.
config::Plan plan_of_options(std::span<const BlockOption> chosen, const config::ProgramFacts& facts,
                             const plan::MemoryGraph& graph, const OptionLimits& limits, std::string name);

}  // namespace memtune::planner
