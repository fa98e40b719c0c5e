// The placements of each strategy, on a program small enough to see every value.
//
//   0 embedding  (outside)                     h0
//   1-6   block 0    linear l, view v, silu_ s, linear m, attention a, add: a + h0   -> h1
//   7-12  block 1    the same, from h1                                               -> h2
//   13-18 block 2    the same, from h2                                               -> h3
//   19 norm, 20 linear (after the blocks)
#include "core/plan/rules/strategy.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/plan/program.h"

namespace memtune::plan_strategy_test {

using namespace memtune;
using namespace memtune::plan;
using namespace memtune::test;

namespace {

void check_refused(const std::string& spec, const ProgramFacts& facts, const std::string& message) {
  CHECK_THROWS_WITH_AS(plan_of(spec, facts), message.c_str(), UsageError);
}

}  // namespace

TEST_CASE("none places nothing") {
  const Plan plan = plan_of("none", three_blocks());
  CHECK(plan.strategy == "none");
  CHECK(plan.placements.empty());
  CHECK(plan.keeps_everything());
  CHECK(plan_of("none", {}).keeps_everything());
}

TEST_CASE("checkpoint:full recomputes values within a block and keeps values that cross blocks") {
  CHECK(placed("checkpoint:full") ==
        "1-5 recompute/recompute, 6 keep/recompute, 7-11 recompute/recompute, 12 keep/recompute, "
        "13-17 recompute/recompute, 18 keep/recompute");
}

TEST_CASE("placements name the region and the op") {
  CHECK(plan_of("checkpoint:full", three_blocks()).placements[0].name == "layers.0/aten::linear");
  CHECK(plan_of("offload:sync", three_blocks()).placements[0].name == "aten::embedding");
}

TEST_CASE("inputs=host offloads the inputs of all blocks and not the last output") {
  const Plan plan = plan_of("checkpoint:full,inputs=host", three_blocks());
  CHECK(placed(plan) ==
        "0 host/keep, 1-5 recompute/recompute, 6 host/recompute, 7-11 recompute/recompute, 12 host/recompute, "
        "13-17 recompute/recompute, 18 keep/recompute");
  CHECK(plan.transfer.side_stream);
  CHECK(plan.transfer.prefetch_bytes == 1 << 30);
}

TEST_CASE("checkpoint:every=2 places the values of every second block only") {
  CHECK(placed("checkpoint:every=2") ==
        "1-5 recompute/recompute, 6 keep/recompute, 13-17 recompute/recompute, 18 keep/recompute");
  CHECK(placed("checkpoint:every=3") == "1-5 recompute/recompute, 6 keep/recompute");
  CHECK(placed("checkpoint:every=1") == placed("checkpoint:full"));
}

TEST_CASE("inputs=host with every=2 offloads only the inputs of checkpointed blocks") {
  CHECK(placed("checkpoint:every=2,inputs=host") ==
        "0 host/keep, 1-5 recompute/recompute, 6 keep/recompute, 12 host/keep, 13-17 recompute/recompute, "
        "18 keep/recompute");
}

TEST_CASE("a nested segment keeps only the inputs of its first block and restarts after a gap") {
  CHECK(placed("checkpoint:full,segment=3") == "1-17 recompute/recompute, 18 keep/recompute");
  CHECK(plan_of("checkpoint:full,segment=3", three_blocks()).nested);
  CHECK_FALSE(plan_of("checkpoint:full,segment=1", three_blocks()).nested);
  CHECK(placed("checkpoint:full,segment=2,inputs=host") ==
        "0 host/keep, 1-11 recompute/recompute, 12 host/recompute, 13-17 recompute/recompute, 18 keep/recompute");
  CHECK(placed("checkpoint:full,segment=3,blocks=0:2") ==
        "1-5 recompute/recompute, 6 keep/recompute, 13-17 recompute/recompute, 18 keep/recompute");
}

TEST_CASE("checkpoint:op keeps attention and every other matmul from the first of each block on") {
  CHECK(placed("checkpoint:op") ==
        "2 recompute/recompute, 4 recompute/recompute, 6 keep/recompute, 8 recompute/recompute, "
        "10 recompute/recompute, 12 keep/recompute, 14 recompute/recompute, 16 recompute/recompute, "
        "18 keep/recompute");
}

TEST_CASE("an in-place result is saved or recomputed with the matmul that it overwrites") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int first = builder.op("aten::linear", {builder.input()});  // saved: every second one, from the first
  const int second = builder.op("aten::linear", {first});           // not saved
  builder.alias("aten::relu_", {builder.alias("aten::relu_", {first})});
  builder.alias("aten::relu_", {second});
  CHECK(placed("checkpoint:op", builder.facts) == "1 recompute/recompute, 4 recompute/recompute");
  CHECK(placed("checkpoint:op,save=matmul-all", builder.facts) == "");
  CHECK(placed("checkpoint:full", builder.facts) == "0-4 recompute/recompute");
}

TEST_CASE("checkpoint:op follows its save list") {
  const std::string views = "2 recompute/recompute, 8 recompute/recompute, 14 recompute/recompute";
  const std::string views_and_adds =
      "2 recompute/recompute, 6 keep/recompute, 8 recompute/recompute, 12 keep/recompute, 14 recompute/recompute, "
      "18 keep/recompute";
  CHECK(placed("checkpoint:op,save=matmul-all+attention") == views_and_adds);
  CHECK(placed("checkpoint:op,save=linear+aten::scaled_dot_product_attention") == views_and_adds);
  CHECK(placed("checkpoint:op,save=matmul-all+attention+add") == views);
  CHECK(placed("checkpoint:op,save=add") ==
        "1-5 recompute/recompute, 7-11 recompute/recompute, 13-17 recompute/recompute");
}

TEST_CASE("inputs=host offloads a block input that the save list keeps") {
  CHECK(placed("checkpoint:op,save=matmul-all+attention+add,inputs=host") ==
        "0 host/keep, 2 recompute/recompute, 6 host/keep, 8 recompute/recompute, 12 host/keep, "
        "14 recompute/recompute");
}

TEST_CASE("a save list may only name ops of the blocks that make memory") {
  const std::string known = " Known: attention, matmul, matmul-all, add, linear, scaled_dot_product_attention";
  check_refused("checkpoint:op,save=liner", three_blocks(),
                "checkpoint:op: save: unknown op 'liner'; did you mean 'linear'?" + known);
  check_refused("checkpoint:op,save=aten::matmul", three_blocks(),
                "checkpoint:op: save: unknown op 'matmul'. Known: add, linear, scaled_dot_product_attention");
  check_refused("checkpoint:op,save=silu_", three_blocks(), "checkpoint:op: save: unknown op 'silu_'." + known);
  check_refused("checkpoint:op,save=embedding", three_blocks(), "checkpoint:op: save: unknown op 'embedding'." + known);
}

TEST_CASE("memory that leaves its block through a view or an in-place result or a list is kept") {
  Builder builder;
  builder.facts.blocks = {{"a"}, {"b"}};
  builder.block = 0;
  const int seen = builder.op("aten::relu", {builder.input()});
  const int written = builder.op("aten::relu", {seen});
  const int listed = builder.op("aten::relu", {written});
  const int inner = builder.op("aten::relu", {listed});
  const int view = builder.alias("aten::view", {seen});
  const int result = builder.alias("aten::add_", {written, inner});
  builder.facts.owner[listed] = builder.facts.owner[inner];  // elements of a list may share a memory
  const int list = builder.alias("prim::ListConstruct", {inner, listed});
  builder.block = 1;
  builder.op("aten::mul", {view, result});
  builder.op("aten::cat", {list});
  CHECK(placed("checkpoint:full", builder.facts) ==
        "0 keep/recompute, 1 recompute/recompute, 2-5 keep/recompute, 7-8 recompute/recompute");
  CHECK(placed("checkpoint:full,inputs=host", builder.facts) ==
        "0 host/recompute, 1 recompute/recompute, 2-5 host/recompute, 7-8 recompute/recompute");
}

TEST_CASE("only the last content of overwritten memory is the input of the next block") {
  Builder builder;
  builder.facts.blocks = {{"a"}, {"b"}};
  builder.block = 0;
  const int hidden = builder.input();
  const int made = builder.op("aten::batch_norm", {hidden});
  const int sum = builder.alias("aten::add_", {made, hidden});
  const int output = builder.alias("aten::relu_", {sum});
  builder.block = 1;
  const int read = builder.op("aten::relu", {output});
  builder.alias("aten::add_", {output, read});  // the next block overwrites its input
  CHECK(placed("checkpoint:full,inputs=host", builder.facts) ==
        "0-1 recompute/recompute, 2 host/recompute, 3-4 recompute/recompute");
  builder.op("prim::Loop", {read});  // a loop body may read an earlier content
  CHECK(placed("checkpoint:full,inputs=host", builder.facts) ==
        "0-2 host/recompute, 3 recompute/recompute, 4 host/recompute");
}

TEST_CASE("a reshape is recomputed inside a block and kept with its base at the border") {
  Builder builder;
  builder.facts.blocks = {{"a"}, {"b"}};
  builder.block = 0;
  const int made = builder.op("aten::relu", {builder.input()});
  const int inner = builder.alias("aten::reshape", {made});
  const int hidden = builder.op("aten::relu", {inner});
  const int crossing = builder.alias("aten::reshape", {hidden});
  builder.block = 1;
  builder.op("aten::relu", {crossing});
  CHECK(placed("checkpoint:full", builder.facts) ==
        "0-1 recompute/recompute, 2-3 keep/recompute, 4 recompute/recompute");
  CHECK(placed("checkpoint:full,inputs=host", builder.facts) ==
        "0-1 recompute/recompute, 2-3 host/recompute, 4 recompute/recompute");
  CHECK(placed("offload:sync", builder.facts) == "0-4 host/host");
}

TEST_CASE("a value used two blocks later is an input of that block") {
  Builder builder;
  builder.facts.blocks = {{"a"}, {"b"}, {"c"}};
  builder.block = 0;
  const int skip = builder.op("aten::relu", {builder.input()});
  const int hidden = builder.op("aten::relu", {skip});
  builder.block = 1;
  const int next = builder.op("aten::relu", {hidden});
  builder.block = 2;
  builder.op("aten::add", {next, skip});
  CHECK(placed("checkpoint:full,inputs=host", builder.facts) == "0-2 host/recompute, 3 recompute/recompute");
  CHECK(placed("checkpoint:every=2,inputs=host", builder.facts) ==
        "0 host/recompute, 1 keep/recompute, 2 host/keep, 3 recompute/recompute");
}

TEST_CASE("control flow is never placed but the ops inside it are") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int in = builder.input();
  builder.op("prim::If", {in});
  builder.op("aten::relu", {in});
  CHECK(placed("checkpoint:full", builder.facts) == "1 recompute/recompute");
  CHECK(placed("offload:stream", builder.facts) == "1 host/host");
}

TEST_CASE("every output of an op is placed") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  builder.op("aten::lstm", {builder.input()});
  builder.facts.owner.push_back(0);
  builder.last().outputs.push_back(2);
  builder.facts.owner = {-1, 0, 0};
  CHECK(placed("checkpoint:full", builder.facts) == "0 recompute/recompute/recompute");
}

TEST_CASE("offload places the outputs of all ops except those after the last block") {
  for (const std::string name : {"offload:sync", "offload:stream"}) {
    CHECK(placed(name) == "0-18 host/host");
    CHECK(placed(name + ",head=move") == "0-20 host/host");
  }
}

TEST_CASE("offload:sync copies on the compute stream and prefetches nothing") {
  const Plan plan = plan_of("offload:sync,min=0", three_blocks());
  CHECK_FALSE(plan.transfer.side_stream);
  CHECK(plan.transfer.prefetch_bytes == 0);
  CHECK(plan.transfer.min_bytes == 0);
  CHECK(plan.saved_min_bytes == 0);
}

TEST_CASE("offload:stream passes its parameters to the transfer settings") {
  const Plan plan = plan_of("offload:stream,stash=3KiB,min=2KiB,prefetch=1KiB", three_blocks());
  CHECK(plan.strategy == "offload:stream,stash=3KiB,min=2KiB,prefetch=1KiB");
  CHECK(plan.transfer.side_stream);
  CHECK(plan.transfer.stash_bytes == 3072);
  CHECK(plan.transfer.min_bytes == 2048);
  CHECK(plan.saved_min_bytes == 2048);
  CHECK(plan.transfer.prefetch_bytes == 1024);
}

TEST_CASE("a checkpoint keeps no private tensor, however small, unless an offload part says which") {
  for (const std::string spec :
       {"checkpoint:full", "checkpoint:every=2", "checkpoint:op", "checkpoint:full,inputs=host"})
    CHECK(plan_of(spec, three_blocks()).saved_min_bytes == 0);
  CHECK(plan_of("checkpoint:cheap", three_blocks()).saved_min_bytes == 1 << 20);
  CHECK(plan_of("none", three_blocks()).saved_min_bytes == 1 << 20);
  CHECK(plan_of("checkpoint:full+offload:stream", three_blocks()).saved_min_bytes == 1 << 20);
}

TEST_CASE("checkpoints need blocks and at least as many as every=n asks for") {
  for (const std::string spec : {"checkpoint:full", "checkpoint:every=2", "checkpoint:op", "checkpoint:cheap",
                                 "checkpoint:full,inputs=host", "offload:group", "offload:stream,blocks=0"})
    check_refused(spec, {}, "no repeated blocks were found in the model; name them with --blocks 'layers.*'");
  check_refused("checkpoint:every=4", three_blocks(), "checkpoint:every=4: n must be at most the number of blocks, 3");
  CHECK_THROWS_AS(plan_of("checkpoint:ful", three_blocks()), UsageError);
}

TEST_CASE("offload needs no blocks") { CHECK(plan_of("offload:stream", {}).placements.empty()); }

TEST_CASE("blocks= selects the blocks of a part and every=n counts among them") {
  CHECK(placed("checkpoint:full,blocks=1") == "7-11 recompute/recompute, 12 keep/recompute");
  CHECK(placed("checkpoint:every=2,blocks=1-") == "7-11 recompute/recompute, 12 keep/recompute");
  CHECK(placed("checkpoint:full,blocks=0:2") == placed("checkpoint:every=2"));
  CHECK(placed("checkpoint:full,blocks=1,inputs=disk") == "6 disk/keep, 7-11 recompute/recompute, 12 keep/recompute");
  CHECK(placed("offload:sync,blocks=0:2") == "1-6 host/host, 13-18 host/host");
  check_refused("checkpoint:full,blocks=1-3", three_blocks(),
                "checkpoint:full: blocks: the model has no block 3; it has 0 to 2");
  check_refused("offload:stream,blocks=7-", three_blocks(),
                "offload:stream: blocks: the model has no block 7; it has 0 to 2");
}

TEST_CASE("a later part places what earlier parts left on the device") {
  CHECK(placed("checkpoint:full+offload:stream") ==
        "0 host/host, 1-5 recompute/recompute, 6 host/recompute, 7-11 recompute/recompute, 12 host/recompute, "
        "13-17 recompute/recompute, 18 host/recompute");
  CHECK(placed("offload:stream,blocks=0,tier=disk+checkpoint:full") ==
        "1-6 disk/disk, 7-11 recompute/recompute, 12 keep/recompute, 13-17 recompute/recompute, 18 keep/recompute");
  CHECK(placed("checkpoint:full,blocks=0+checkpoint:op,blocks=1,inputs=host") ==
        "1-5 recompute/recompute, 6 host/recompute, 8 recompute/recompute, 10 recompute/recompute, "
        "12 keep/recompute");
}

TEST_CASE("a joined plan has the transfer settings of its offload part and the name as written") {
  const std::string spec = "checkpoint:full+offload:stream,stash=3KiB,min=2KiB";
  const Plan plan = plan_of(spec, three_blocks());
  CHECK(plan.strategy == spec);
  CHECK(plan.transfer.stash_bytes == 3072);
  CHECK(plan.saved_min_bytes == 2048);
}

TEST_CASE("host memory is page-locked unless the strategy says otherwise") {
  CHECK_FALSE(plan_of("offload:stream,memory=pageable", three_blocks()).transfer.pinned);
  CHECK(plan_of("offload:stream", three_blocks()).transfer.pinned);
}

TEST_CASE("offload:group offloads the values of all blocks but the last by block") {
  const Plan plan = plan_of("offload:group,in_flight=2,prefetch=3,min=1KiB", three_blocks());
  CHECK(placed(plan) == "1-12 host/host");
  CHECK(plan.transfer.schedule == plan::ActivationOffloadCopyGranularity::block);
  CHECK(plan.transfer.pinned);
  CHECK(plan.transfer.side_stream);
  CHECK(plan.transfer.groups_in_flight == 2);
  CHECK(plan.transfer.prefetch_blocks == 3);
  CHECK(plan.transfer.min_bytes == 1024);
  CHECK(plan_of("offload:stream", three_blocks()).transfer.schedule == plan::ActivationOffloadCopyGranularity::value);
}

TEST_CASE("keep_last leaves the values of the last blocks on the device") {
  CHECK(placed("offload:group,keep_last=0") == "1-18 host/host");
  CHECK(placed("offload:stream,keep_last=2") == "0-6 host/host");
  CHECK(placed("offload:stream,keep_last=3,tier=disk") == "0 disk/disk");
  check_refused("offload:stream,keep_last=4", three_blocks(),
                "offload:stream: keep_last=4 must be at most the number of blocks, 3");
}

}  // namespace memtune::plan_strategy_test
