// Synthetic chains for tests of the solver: random ones and some like a decoder's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "core/plan/planner/chain_planning_problem.h"

namespace memtune::planner {

constexpr double kGiB = 1 << 30;

// mt19937 gives the same numbers everywhere, the standard library's distributions do not.
class MadeUpChains {
 public:
  explicit MadeUpChains(uint32_t seed) : random_(seed) {}

  double between(double low, double high) { return low + (high - low) * static_cast<double>(random_()) / 4294967296.0; }
  int below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }

  // Blocks and options that have little in common. PCIe bandwidth is missing, low in one direction, or high.
  ChainPlanningProblem random(int blocks, int options) {
    ChainPlanningProblem chain;
    const double speed = 50e6 * between(0.1, 3);
    chain.out_bytes_per_ms = below(12) == 0 ? 0 : speed;
    chain.in_bytes_per_ms = speed * between(0.3, 1.5);
    for (int i = 0; i < blocks; ++i) {
      ChainBlockTimesAndOptions block{between(2, 20), between(5, 40), {}};
      const double bytes = between(0.1, 2) * kGiB;
      for (int k = 0; k < options; ++k) block.options.push_back(random_option(bytes));
      chain.blocks.push_back(block);
    }
    return chain;
  }

  // Random chains of few values, so that many choices are equal, with much to offload through low PCIe bandwidth.
  ChainPlanningProblem plain(int blocks, int options) {
    ChainPlanningProblem chain;
    chain.out_bytes_per_ms = (1 + below(4)) * 8e6;
    chain.in_bytes_per_ms = (1 + below(4)) * 16e6;
    for (int i = 0; i < blocks; ++i) {
      ChainBlockTimesAndOptions block{4.0 + 4 * below(2), 8.0 + 4 * below(2), {}};
      for (int k = 0; k < options; ++k) {
        const int resident = below(3), moved = below(3);
        block.options.push_back({bytes(0.25 * resident), bytes(0.25 * moved), 4.0 * below(3),
                                 bytes(0.25 * (2 + below(2))), bytes(0.25 * (2 + below(2)))});
      }
      chain.blocks.push_back(block);
    }
    return chain;
  }

  // Adds a disk, which is slower than PCIe: each option that offloads may write part or all of it. Some disks are
  // small.
  void add_disk(ChainPlanningProblem& chain) {
    const double link = std::max(chain.out_bytes_per_ms, 4e6);
    chain.write_bytes_per_ms = link * between(0.05, 1);
    chain.read_bytes_per_ms = chain.write_bytes_per_ms * between(0.5, 3);
    chain.staging_bytes = bytes(between(0, 0.5));
    int64_t most = 0;
    for (ChainBlockTimesAndOptions& block : chain.blocks)
      for (ChainBlockOptionCosts& option : block.options) {
        if (below(2)) option.disk_bytes = below(3) ? option.offloaded_bytes : option.offloaded_bytes / 2;
        most += option.disk_bytes;
      }
    if (below(3) == 0)
      chain.disk_budget_bytes = static_cast<int64_t>(between(0.05, 0.4) * static_cast<double>(most)) + 1;
  }

  // A decoder of 7 billion parameters: what a block saves, and options that keep, offload or recompute parts of it.
  ChainPlanningProblem decoder(int blocks, int options, double jitter) {
    ChainPlanningProblem chain;
    chain.out_bytes_per_ms = chain.in_bytes_per_ms = 50e6;
    for (int i = 0; i < blocks; ++i) {
      const double time = 1 + between(-jitter, jitter), size = 1 + between(-jitter, jitter);
      ChainBlockTimesAndOptions block{9.5 * time, 19.5 * time, {}};
      const double ways[8][3] = {{1.07, 0, 0}, {0, 1.07, 0},  {0.03, 0, 9.5}, {0, 0.03, 9.5},
                                 {0.6, 0, 1},  {0, 0.6, 1.0}, {0.5, 0.57, 0}, {0.3, 0, 4}};
      for (int k = 0; k < std::min(options, 8); ++k)
        block.options.push_back({bytes(ways[k][0] * size), bytes(ways[k][1] * size), ways[k][2] * time,
                                 bytes(1.2 * size), bytes(1.4 * size)});
      chain.blocks.push_back(block);
    }
    chain.budget_bytes = bytes(1.07 * blocks + 1.4 * 2);
    return chain;
  }

  // The most bytes that a chain keeps, and that it offloads.
  static int64_t resident_most(const ChainPlanningProblem& chain) {
    return most(chain, &ChainBlockOptionCosts::resident_bytes);
  }
  static int64_t moved_most(const ChainPlanningProblem& chain) {
    return most(chain, &ChainBlockOptionCosts::offloaded_bytes);
  }

  static int64_t bytes(double gib) { return static_cast<int64_t>(gib * kGiB); }

 private:
  static int64_t most(const ChainPlanningProblem& chain, int64_t ChainBlockOptionCosts::*field) {
    int64_t most = 0;
    for (const ChainBlockTimesAndOptions& block : chain.blocks)
      most += std::ranges::max(block.options, {}, field).*field;
    return most;
  }

  ChainBlockOptionCosts random_option(double bytes) {
    ChainBlockOptionCosts option;
    const double resident = between(0, 1), moved = below(2) ? between(0, 1 - resident) : 0;
    option.resident_bytes = static_cast<int64_t>(bytes * resident);
    option.offloaded_bytes = static_cast<int64_t>(bytes * moved);
    option.recompute_ms = below(4) ? (1 - resident - moved) * between(2, 15) : 0;
    option.forward_peak_bytes = static_cast<int64_t>(bytes * between(0.8, 1.6));
    option.backward_peak_bytes = static_cast<int64_t>(bytes * between(1, 2));
    return option;
  }

  std::mt19937 random_;
};

}  // namespace memtune::planner
