// fraction=: which values move first, and how many.
#include "core/plan/rules/offload_rules.h"

#include <doctest/doctest.h>

#include "tests/plan/program.h"

using namespace memtune;
using namespace memtune::plan;
using namespace memtune::test;

namespace {

// Of what a decoder of two blocks saves: h0, and a block's 1536 MiB.
constexpr double kAll = 64 + 2 * 1536;

std::string moved(double mib, const std::string& parameters = "") {
  return placed("offload:stream,fraction=" + std::to_string(mib / kAll) + parameters, decoder(2));
}

}  // namespace

TEST_CASE(
    "the dearest per byte moves first: residual sums behind wide matmuls, then attention, early blocks before late "
    "ones") {
  CHECK(moved(0) == "");
  CHECK(moved(64) == "18 host/keep");
  CHECK(moved(128) == "18 host/keep, 36 host/keep");
  CHECK(moved(192) == "9 host/keep, 18 host/keep, 36 host/keep");
  CHECK(moved(256) == "9 host/keep, 18 host/keep, 27 host/keep, 36 host/keep");
}

TEST_CASE("elementwise results move last: norms, silu, the gate product") {
  const double dear = 2 * (1536 - 64 - 64 - 256 - 256);
  CHECK(moved(dear) ==
        "5 host/keep, 7-9 host/keep, 11 host/keep, 13-14 host/keep, 18 host/keep, "
        "23 host/keep, 25-27 host/keep, 29 host/keep, 31-32 host/keep, 36 host/keep");
}

TEST_CASE("the share is met as nearly as whole values can") {
  CHECK(moved(31) == "");
  CHECK(moved(33) == "18 host/keep");
  CHECK(moved(96 + 1) == "18 host/keep, 36 host/keep");
}

TEST_CASE("fraction=1 moves all, saved or not, and fraction=0 nothing") {
  CHECK(placed("offload:stream,fraction=1", decoder(2)) == "0-36 host/host");
  CHECK(plan_of("offload:stream,fraction=0", decoder(2)).keeps_everything());
}

TEST_CASE("values under min are neither counted nor moved") {
  CHECK(placed("offload:stream,min=100MiB,fraction=0.125", decoder(2)) == "13 host/keep");  // of eight
}

TEST_CASE("after a checkpoint the share is of what it left, its roots among it, and dear is what is then rerun") {
  const ProgramFacts facts = decoder(2);
  // Left: h0, and a block's q, k, v, attention, two sums and two wide matmuls: 64 + 16 + 16 + 64 + 128 + 512.
  const std::string half = placed("checkpoint:cheap+offload:stream,tier=disk,fraction=0.08", facts);
  CHECK(half.find("18 disk/keep") != std::string::npos);
  CHECK(half.find("36 disk/keep") != std::string::npos);
  const Plan all = plan_of("checkpoint:cheap+offload:stream,fraction=0.9999", facts);
  CHECK(placed(all).find("4-6 host/keep") != std::string::npos);  // v, q and k: what the head repeats start from
}

TEST_CASE("blocks, keep_last and head limit what a share is of") {
  CHECK(moved(kAll, ",blocks=1").find("18 host") == std::string::npos);
  CHECK(placed("offload:stream,fraction=0.04,blocks=1", decoder(2)) == "36 host/keep");
  CHECK(placed("offload:stream,fraction=0.04,keep_last=1", decoder(2)) == "18 host/keep");
  CHECK(placed("offload:stream,fraction=0.9999,head=move", decoder(2)).find("38 host") != std::string::npos);
}

TEST_CASE("private values are part of the share") {
  Builder builder;
  builder.op("aten::dropout", {builder.input()});
  builder.measured(8 * kMiB, false, 0, 2 * kMiB);
  builder.op("aten::relu", {builder.input()});
  builder.measured(8 * kMiB, true, 7);
  CHECK(placed("offload:sync,fraction=0.8", builder.facts) == "1 host/keep");
  CHECK(placed("offload:sync,fraction=0.95", builder.facts) == "0 keep/host, 1 host/keep");
}

TEST_CASE("memory that an in-place op writes into moves whichever of its contents is saved") {
  Builder builder;
  const int made = builder.op("aten::relu", {builder.input()});
  builder.measured(8 * kMiB, true);
  builder.alias("aten::add_", {made});
  builder.measured(0, false);
  CHECK(placed("offload:sync,fraction=0.99", builder.facts) == "0-1 host/keep");
}

TEST_CASE("without a measured forward values are counted, attention and matmuls first") {
  CHECK(placed("offload:stream,fraction=0.2", three_blocks()) == "5 host/keep, 11 host/keep, 17 host/keep");
}
