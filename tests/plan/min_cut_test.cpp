// The minimum cut decides what a plan keeps. It is compared with all cuts of small graphs.
#include "core/plan/rules/min_cut.h"

#include <doctest/doctest.h>

#include <bit>
#include <optional>
#include <random>
#include <vector>

namespace memtune::min_cut_test {

using memtune::plan::MinCut;

namespace {

struct Edge {
  int from, to;
  int64_t capacity;
};

// Node 0 is the source, the last one the sink.
struct Graph {
  int nodes;
  std::vector<Edge> edges;

  // Returns the cost of the cut that leaves `sink_side`, one bit per node, to the sink.
  int64_t cost(unsigned sink_side) const {
    int64_t cost = 0;
    for (const Edge& edge : edges)
      if (!(sink_side >> edge.from & 1) && (sink_side >> edge.to & 1)) cost += edge.capacity;
    return cost;
  }
};

Graph random_graph(std::mt19937& random) {
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  Graph graph{2 + draw(6), {}};
  for (int i = draw(3 * graph.nodes); i > 0; --i)
    graph.edges.push_back({draw(graph.nodes - 1), draw(graph.nodes - 1), draw(4)});
  return graph;
}

struct Best {
  int64_t cost = MinCut::kNever;
  unsigned sink_side = 0;  // nodes that all cheapest cuts have there
};

Best try_all(const Graph& graph) {
  Best best;
  for (unsigned inner = 0; inner < 1u << (graph.nodes - 2); ++inner) {
    const unsigned sink_side = inner << 1 | 1u << (graph.nodes - 1);
    const int64_t cost = graph.cost(sink_side);
    if (cost < best.cost) best = {cost, sink_side};
    if (cost == best.cost) best.sink_side &= sink_side;
  }
  return best;
}

}  // namespace

TEST_CASE("the cut of a random graph is the cheapest and the nearest one to the sink") {
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    const Graph graph = random_graph(random);
    MinCut cut(graph.nodes);
    for (const Edge& edge : graph.edges) cut.add_edge(edge.from, edge.to, edge.capacity);
    const Best best = try_all(graph);
    CAPTURE(i);
    REQUIRE(cut.solve(0, graph.nodes - 1) == best.cost);
    unsigned sink_side = 0;
    for (int node = 0; node < graph.nodes; ++node) sink_side |= unsigned{cut.on_sink_side(node)} << node;
    REQUIRE(sink_side == best.sink_side);
  }
}

TEST_CASE("the minimum cut is the one nearest to the sink if two cuts cost the same") {
  MinCut cut(3);
  cut.add_edge(0, 1, 5);
  cut.add_edge(1, 2, 5);
  CHECK(cut.solve(0, 2) == 5);
  CHECK_FALSE(cut.on_sink_side(1));
  CHECK(cut.on_sink_side(2));
}

TEST_CASE("a source and a sink that no cut may separate cost at least kNever") {
  MinCut cut(3);
  cut.add_edge(0, 1, MinCut::kNever);
  cut.add_edge(1, 2, MinCut::kNever);
  CHECK(cut.solve(0, 2) >= MinCut::kNever);
}

TEST_CASE("a long chain and a wide graph are solved without recursion") {
  constexpr int kNodes = 20'000, kLong = 500'000;  // recursion would need a hundred megabytes of stack
  MinCut chain(kLong);
  for (int node = 0; node + 1 < kLong; ++node) chain.add_edge(node, node + 1, node == 777 ? 1 : 9);
  CHECK(chain.solve(0, kLong - 1) == 1);
  CHECK_FALSE(chain.on_sink_side(777));
  CHECK(chain.on_sink_side(778));
  MinCut wide(kNodes);
  for (int node = 1; node + 1 < kNodes; ++node) {
    wide.add_edge(0, node, 1 + node % 3);
    wide.add_edge(node, kNodes - 1, 2);
  }
  CHECK(wide.solve(0, kNodes - 1) > kNodes);
}

}  // namespace memtune::min_cut_test
