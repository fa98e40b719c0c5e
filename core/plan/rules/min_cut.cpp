#include "core/plan/rules/min_cut.h"

#include <algorithm>

namespace memtune::plan {

void MinCut::add_edge(int from, int to, int64_t capacity) {
  edges_of_[from].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[to].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

int64_t MinCut::solve(int source, int sink) {
  int64_t flow = 0;
  while (flow < kNever && find_levels(source, sink)) {
    std::fill(next_.begin(), next_.end(), 0);
    while (const int64_t pushed = push(source, sink)) flow += pushed;
  }
  mark_sink_side(sink);
  return flow;
}

// Sets distances from the source over edges with unused capacity. Returns false if the sink is unreachable.
bool MinCut::find_levels(int source, int sink) {
  std::fill(level_.begin(), level_.end(), -1);
  level_[source] = 0;
  std::vector<int> queue = {source};
  for (size_t i = 0; i < queue.size(); ++i)
    for (const int index : edges_of_[queue[i]]) {
      const Edge& edge = edges_[index];
      if (edge.rest == 0 || level_[edge.to] >= 0) continue;
      level_[edge.to] = level_[queue[i]] + 1;
      queue.push_back(edge.to);
    }
  return level_[sink] >= 0;
}

// Sends flow along one shortest path, whose edges are in `way_`. Returns 0 if no path is left. Not recursive, because
// paths are as long as programs.
int64_t MinCut::push(int source, int sink) {
  way_.clear();
  int node = source;
  while (node != sink) {
    size_t& next = next_[node];
    if (next == edges_of_[node].size()) {  // a dead end
      if (way_.empty()) return 0;
      node = edges_[way_.back() ^ 1].to;
      way_.pop_back();
      ++next_[node];
      continue;
    }
    const int index = edges_of_[node][next];
    const auto [to, rest] = edges_[index];
    if (rest == 0 || level_[to] != level_[node] + 1) {
      ++next;
      continue;
    }
    way_.push_back(index);
    node = to;
  }
  int64_t pushed = kNever;
  for (const int index : way_) pushed = std::min(pushed, edges_[index].rest);
  for (const int index : way_) {
    edges_[index].rest -= pushed;
    edges_[index ^ 1].rest += pushed;
  }
  return pushed;
}

// Marks nodes that can still reach the sink. No minimum cut has fewer nodes on the side of the sink.
void MinCut::mark_sink_side(int sink) {
  sink_side_[sink] = true;
  std::vector<int> queue = {sink};
  for (size_t i = 0; i < queue.size(); ++i)
    for (const int index : edges_of_[queue[i]]) {
      const int from = edges_[index].to;
      if (edges_[index ^ 1].rest == 0 || sink_side_[from]) continue;
      sink_side_[from] = true;
      queue.push_back(from);
    }
}

}  // namespace memtune::plan
