// fraction=: which values are offloaded first, and how many.
#include "core/plan/rules/offload_rules.h"

#include <doctest/doctest.h>

#include "tests/plan/program.h"

namespace memtune::offload_rules_test {

using namespace memtune;
using namespace memtune::plan;
using namespace memtune::test;

namespace {

// MiB that a decoder of two blocks saves: h0, and 1536 per block.
constexpr double kAll = 64 + 2 * 1536;

std::string moved(double mib, const std::string& parameters = "") {
  return placed("offload:stream,fraction=" + std::to_string(mib / kAll) + parameters, decoder(2));
}

}  // namespace

TEST_CASE("offloading starts with the highest recomputation cost per byte and with early blocks") {
  CHECK(moved(0) == "");
  CHECK(moved(64) == "18 host/keep");
  CHECK(moved(128) == "18 host/keep, 36 host/keep");
  CHECK(moved(192) == "9 host/keep, 18 host/keep, 36 host/keep");
  CHECK(moved(256) == "9 host/keep, 18 host/keep, 27 host/keep, 36 host/keep");
}

TEST_CASE("elementwise results are offloaded last") {
  const double dear = 2 * (1536 - 64 - 64 - 256 - 256);
  CHECK(moved(dear) ==
        "5 host/keep, 7-9 host/keep, 11 host/keep, 13-14 host/keep, 18 host/keep, "
        "23 host/keep, 25-27 host/keep, 29 host/keep, 31-32 host/keep, 36 host/keep");
}

TEST_CASE("the offloaded share is as near to fraction= as whole values allow") {
  CHECK(moved(31) == "");
  CHECK(moved(33) == "18 host/keep");
  CHECK(moved(96 + 1) == "18 host/keep, 36 host/keep");
}

TEST_CASE("fraction=1 offloads all values and fraction=0 offloads none") {
  CHECK(placed("offload:stream,fraction=1", decoder(2)) == "0-36 host/host");
  CHECK(plan_of("offload:stream,fraction=0", decoder(2)).keeps_everything());
}

TEST_CASE("values below min are neither counted nor offloaded") {
  CHECK(placed("offload:stream,min=100MiB,fraction=0.125", decoder(2)) == "13 host/keep");  // one of eight
}

TEST_CASE("after a checkpoint part the share is of the values that it keeps") {
  const ProgramFacts facts = decoder(2);
  // Kept: h0, and a block's q, k, v, attention, two sums and two wide matmuls: 64 + 16 + 16 + 64 + 128 + 512.
  const std::string half = placed("checkpoint:cheap+offload:stream,tier=disk,fraction=0.08", facts);
  CHECK(half.find("18 disk/keep") != std::string::npos);
  CHECK(half.find("36 disk/keep") != std::string::npos);
  const Plan all = plan_of("checkpoint:cheap+offload:stream,fraction=0.9999", facts);
  CHECK(placed(all).find("4-6 host/keep") != std::string::npos);  // v, q and k: the inputs of the head repeats
}

TEST_CASE("blocks and keep_last and head limit the values that fraction= counts") {
  CHECK(moved(kAll, ",blocks=1").find("18 host") == std::string::npos);
  CHECK(placed("offload:stream,fraction=0.04,blocks=1", decoder(2)) == "36 host/keep");
  CHECK(placed("offload:stream,fraction=0.04,keep_last=1", decoder(2)) == "18 host/keep");
  CHECK(placed("offload:stream,fraction=0.9999,head=move", decoder(2)).find("38 host") != std::string::npos);
}

TEST_CASE("private values count for fraction=") {
  Builder builder;
  builder.op("aten::dropout", {builder.input()});
  builder.measured(8 * kMiB, false, 0, 2 * kMiB);
  builder.op("aten::relu", {builder.input()});
  builder.measured(8 * kMiB, true, 7);
  CHECK(placed("offload:sync,fraction=0.8", builder.facts) == "1 host/keep");
  CHECK(placed("offload:sync,fraction=0.95", builder.facts) == "0 keep/host, 1 host/keep");
}

TEST_CASE("memory with in-place writes is offloaded if any of its contents is saved") {
  Builder builder;
  const int made = builder.op("aten::relu", {builder.input()});
  builder.measured(8 * kMiB, true);
  builder.alias("aten::add_", {made});
  builder.measured(0, false);
  CHECK(placed("offload:sync,fraction=0.99", builder.facts) == "0-1 host/keep");
}

TEST_CASE("without a measured forward fraction= counts values and takes attention and matmuls first") {
  CHECK(placed("offload:stream,fraction=0.2", three_blocks()) == "5 host/keep, 11 host/keep, 17 host/keep");
}

}  // namespace memtune::offload_rules_test
