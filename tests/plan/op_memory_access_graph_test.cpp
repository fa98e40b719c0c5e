// The memory that a value shows decides what is counted, kept and recomputed. Each form of sharing a memory has a test.
#include "core/plan/rules/op_memory_access_graph.h"

#include <doctest/doctest.h>

#include "tests/plan/program.h"

namespace memtune::memory_graph_test {

using namespace memtune;
using namespace memtune::test;
using plan::OpMemoryAccessGraph;
using plan::OpOutputAllocationNode;

namespace {

// Returns the ops that made what `op` reads.
std::vector<int> makers(const OpMemoryAccessGraph& graph, int op) {
  std::vector<int> ops;
  for (const int memory : graph.read_by(op)) ops.push_back(graph.memories()[memory].op);
  return ops;
}

using Ops = std::vector<int>;

}  // namespace

TEST_CASE("views and in-place results share the memory that they show") {
  Builder builder;
  const int made = builder.op("aten::relu", {builder.input()});  // 0
  const int view = builder.alias("aten::view", {made});          // 1
  const int written = builder.alias("aten::add_", {view});       // 2
  builder.op("aten::mul", {written, view, builder.input()});     // 3
  const OpMemoryAccessGraph graph(builder.facts);
  CHECK_FALSE(graph.measured());
  CHECK(graph.memories().size() == 2);
  CHECK(makers(graph, 3) == Ops{0});
  CHECK(graph.memories()[0].writers == Ops{2});
  CHECK(graph.memories()[0].last_write() == 2);
  CHECK(graph.memories()[1].last_write() == -1);
}

TEST_CASE("a memory is made from what its producer and its writers read except itself") {
  Builder builder;
  const int a = builder.op("aten::relu", {builder.input()});  // 0
  const int b = builder.op("aten::relu", {a});                // 1
  const int c = builder.op("aten::relu", {b});                // 2
  builder.alias("aten::add_", {c, a});                        // 3
  const OpMemoryAccessGraph graph(builder.facts);
  CHECK(graph.made_from(graph.memories()[2]) == std::vector<int>{1, 0});
}

TEST_CASE("a view that copied in the measured forward has its own memory") {
  Builder builder;
  const int made = builder.op("aten::relu", {builder.input()});  // 0
  builder.measured(8, false);
  const int copied = builder.alias("aten::reshape", {made});  // 1
  builder.measured(16, true);
  const int shown = builder.alias("aten::view", {copied});  // 2
  builder.measured(0, false);
  builder.op("aten::mul", {shown});  // 3
  const OpMemoryAccessGraph graph(builder.facts);
  CHECK(graph.measured());
  REQUIRE(graph.memories().size() == 2);
  CHECK(makers(graph, 1) == Ops{0});
  CHECK(makers(graph, 3) == Ops{1});
  CHECK(graph.memories()[1].bytes == 16);
  CHECK(graph.memories()[1].saved);
}

TEST_CASE("a dropout that made no memory passes on its input and a size is a number") {
  Builder builder;
  const int made = builder.op("aten::relu", {builder.input()});  // 0
  builder.measured(8, true);
  const int same = builder.op("aten::dropout", {made});  // 1: in evaluation
  builder.measured(0, false);
  builder.last().random = true;
  const int size = builder.op("aten::size", {made});  // 2
  builder.measured(0, false);
  builder.op("aten::mul", {same});     // 3
  builder.op("aten::arange", {size});  // 4
  const OpMemoryAccessGraph graph(builder.facts);
  CHECK(makers(graph, 3) == Ops{0});
  CHECK(makers(graph, 4).empty());
}

TEST_CASE("a list and its unpacked elements share the memory of all elements") {
  Builder builder;
  const int a = builder.op("aten::relu", {builder.input()});  // 0
  const int b = builder.op("aten::relu", {a});                // 1
  builder.facts.owner[b] = builder.facts.owner[a];            // elements of a list may share a memory
  const int list = builder.alias("prim::ListConstruct", {a, b});
  const int taken = builder.alias("prim::ListUnpack", {list});
  builder.op("aten::mul", {taken});
  const OpMemoryAccessGraph graph(builder.facts);
  CHECK(makers(graph, 4) == Ops{0, 1});
}

TEST_CASE("the output of a branch may be the output of any of its bodies") {
  Builder builder;
  const int in = builder.input();
  const int out = builder.op("prim::If", {});
  const int a = builder.op("aten::relu", {in});  // 1
  const int b = builder.op("aten::tanh", {in});  // 2
  for (const int value : {a, b}) builder.facts.owner[value] = builder.facts.owner[out];
  builder.op("aten::mul", {out});
  const OpMemoryAccessGraph graph(builder.facts);
  CHECK(makers(graph, 3) == Ops{1, 2});
}

TEST_CASE("program inputs and views of them are no memories") {
  Builder builder;
  const int in = builder.input();
  const int view = builder.alias("aten::view", {in});
  builder.op("aten::mul", {view, in});
  const OpMemoryAccessGraph graph(builder.facts);
  CHECK(makers(graph, 1).empty());
}

TEST_CASE("a memory crosses if an op of another block reads it directly or through a view") {
  Builder builder;
  builder.facts.blocks = {{"a"}, {"b"}};
  builder.block = 0;
  const int inner = builder.op("aten::relu", {builder.input()});
  const int outer = builder.op("aten::relu", {inner});
  const int view = builder.alias("aten::view", {outer});
  builder.block = 1;
  builder.op("aten::relu", {view});
  const OpMemoryAccessGraph graph(builder.facts);
  CHECK_FALSE(graph.memories()[0].crosses);
  CHECK(graph.memories()[1].crosses);
  CHECK_FALSE(graph.memories()[2].crosses);
}

TEST_CASE("a private value of an op is a memory that autograd saved") {
  Builder builder;
  builder.op("aten::dropout", {builder.input()});
  builder.measured(8, false, 0, 2);
  const OpMemoryAccessGraph graph(builder.facts);
  REQUIRE(graph.memories().size() == 2);
  CHECK(graph.memories()[1].output == kPrivateSave);
  CHECK(graph.memories()[1].bytes == 2);
  CHECK(graph.memories()[1].saved);
}

}  // namespace memtune::memory_graph_test
