// The cheapest set of edges that parts a source from a sink, by the maximum flow between them (Dinic's algorithm).
//
//   MinCut cut(4);
//   cut.add_edge(0, 1, 5);
//   ...
//   int64_t cost = cut.solve(0, 3);
//   the cut is made of the edges from a node with on_sink_side() == false to one with true
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

  // `capacity` at least 0.
  void add_edge(int from, int to, int64_t capacity);

  // The cost of the cut; kNever or more when nothing parts the two. Once.
  int64_t solve(int source, int sink);

  // Of all cheapest cuts the one nearest to the sink counts.
  bool on_sink_side(int node) const { return sink_side_[node]; }

 private:
  struct Edge {
    int to;
    int64_t rest;  // capacity that no flow uses yet
  };               // edge i ^ 1 is edge i backwards

  bool find_levels(int source, int sink);
  int64_t push(int source, int sink);
  void mark_sink_side(int sink);

  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;  // of edges_of_: those before it are spent in this phase
  std::vector<int> way_;      // edges from the source on
  std::vector<bool> sink_side_;
};

}  // namespace memtune::plan
