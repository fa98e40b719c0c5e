// Minimum cut between a source and a sink, computed as a maximum flow (Dinic's algorithm).
//
//   MinCut cut(4);
//   cut.add_edge(0, 1, 5);
//   ...
//   int64_t cost = cut.solve(0, 3);
//   the cut consists of the edges from a node with on_sink_side() == false to one with true
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace memtune::plan {

class MinCut {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;  // capacity of an edge that cannot be cut

  explicit MinCut(int nodes) : edges_of_(nodes), level_(nodes), next_(nodes), sink_side_(nodes) {}

  // `capacity` must be at least 0.
  void add_edge(int from, int to, int64_t capacity);

  // Returns the cost of the cut; kNever or more if no cut separates the two. Call it once.
  int64_t solve(int source, int sink);

  // If several cuts are cheapest, the result is the one nearest to the sink.
  bool on_sink_side(int node) const { return sink_side_[node]; }

 private:
  struct Edge {
    int to;
    int64_t rest;  // unused capacity
  };               // edge i ^ 1 is the reverse of edge i

  bool find_levels(int source, int sink);
  int64_t push(int source, int sink);
  void mark_sink_side(int sink);

  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;  // by node, into edges_of_: earlier edges are used up in this phase
  std::vector<int> way_;      // edges of the current path, from the source on
  std::vector<bool> sink_side_;
};

}  // namespace memtune::plan
