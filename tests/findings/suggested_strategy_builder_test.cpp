// Advice must be usable. Each advised strategy is parsed, and its plan must differ in the direction that the advice
// names.
#include "core/answer/findings/suggested_strategy_builder.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/plan/rules/activation_placement_draft.h"
#include "tests/plan/program.h"

namespace memtune::tunables_test {

using namespace memtune;
using namespace memtune::test;
using findings::AdviceTextAndStrategy;
using findings::SuggestedStrategyBuilder;
using plan::Strategy;

namespace {

constexpr int kBlocks = 4;

const ProgramFacts& model() {
  static const ProgramFacts facts = decoder(kBlocks);
  return facts;
}

Plan plan_for(const std::string& strategy) { return plan_of(strategy, model()); }

// As the engines would do it: values below the minimum size stay.
int64_t bytes_at(const Plan& plan, TensorPlacement place) {
  const plan::OpMemoryAccessGraph graph(model());
  const plan::ActivationPlacementDraft draft(model(), plan);
  const std::vector<bool> needed = needed_in_backward(graph, draft);
  int64_t bytes = 0;
  for (size_t i = 0; i < needed.size(); ++i) {
    const plan::OpOutputAllocationNode& memory = graph.memories()[i];
    const bool counts = place == TensorPlacement::recompute || memory.bytes >= plan.transfer.min_bytes;
    if (draft.place(memory) == place && counts && (needed[i] || place == TensorPlacement::recompute))
      bytes += memory.bytes;
  }
  return bytes;
}

int64_t moved(const Plan& plan) {
  return bytes_at(plan, TensorPlacement::host) + bytes_at(plan, TensorPlacement::disk);
}

// The plan of the advised strategy. Checks that the strategy is canonical and differs from the present one.
Plan followed(const AdviceTextAndStrategy& advice, const std::string& strategy) {
  CAPTURE(strategy);
  CAPTURE(advice.text);
  CHECK(advice.alternative_strategy != "");
  CHECK(to_string(Strategy::parse(advice.alternative_strategy)) == advice.alternative_strategy);
  CHECK_FALSE(Strategy::parse(advice.alternative_strategy) == Strategy::parse(strategy));
  return plan_for(advice.alternative_strategy);
}

SuggestedStrategyBuilder knobs_of(const std::string& strategy) {
  return SuggestedStrategyBuilder(strategy, nullptr, kBlocks);
}

const std::string kOffloading[] = {
    "offload:sync",
    "offload:stream",
    "offload:group",
    "offload:stream, fraction=0.4, keep_last = 2",
    "offload:stream,blocks=0-1,fraction=0.6+offload:stream,blocks=2-",
    "checkpoint:cheap+offload:stream,prefetch=0,stash=0,min=2KiB",
    "offload:sync,memory=pageable,blocks=0-1+checkpoint:full,blocks=2-+offload:sync,memory=pageable,blocks=2-",
    "checkpoint:op,save=attention+offload:group,in_flight=2,prefetch=2,tier=disk",
    "offload:stream,memory=pageable,fraction=0.05",
};

}  // namespace

TEST_CASE("the advice to offload less reduces the offloaded bytes of every offloading part") {
  for (const std::string& strategy : kOffloading) {
    const Plan before = plan_for(strategy);
    CHECK(moved(followed(knobs_of(strategy).offload_less(0.5), strategy)) < moved(before));
    CHECK(moved(followed(knobs_of(strategy).offload_less(0), strategy)) < moved(before));
    CHECK(moved(followed(knobs_of(strategy).offload_less(1), strategy)) <= moved(before));
  }
}

TEST_CASE("the advice to keep the last block reduces the offloaded bytes") {
  for (const std::string& strategy : kOffloading) {
    if (strategy.find("0.05") != std::string::npos) continue;  // the early blocks are offloaded first anyway
    CHECK(moved(followed(knobs_of(strategy).keep_last(), strategy)) < moved(plan_for(strategy)));
  }
}

TEST_CASE("the advice to keep small values offloads none below the minimum") {
  for (const std::string& strategy : kOffloading) {
    const Plan before = plan_for(strategy), after = followed(knobs_of(strategy).keep_small(20 * kMiB), strategy);
    CHECK(after.transfer.min_bytes >= 20 * kMiB);
    CHECK(moved(after) <= moved(before));
  }
  CHECK(moved(followed(knobs_of("offload:stream").keep_small(100 * kMiB), "offload:stream")) <
        moved(plan_for("offload:stream")));
}

TEST_CASE("deeper prefetch and larger stash raise their settings or move copies to a side stream") {
  for (const std::string& strategy : kOffloading) {
    const plan::TransferSettings before = plan_for(strategy).transfer;
    const plan::TransferSettings deeper = followed(knobs_of(strategy).deeper_prefetch(), strategy).transfer;
    const plan::TransferSettings larger = followed(knobs_of(strategy).larger_stash(), strategy).transfer;
    if (!before.side_stream) {
      CHECK(deeper.side_stream);
      CHECK(larger.side_stream);
      CHECK(moved(plan_for(knobs_of(strategy).deeper_prefetch().alternative_strategy)) == moved(plan_for(strategy)));
    } else if (before.schedule == plan::ActivationOffloadCopyGranularity::block) {
      CHECK(deeper.prefetch_blocks > before.prefetch_blocks);
      CHECK(larger.groups_in_flight > before.groups_in_flight);
    } else {
      CHECK(deeper.prefetch_bytes > before.prefetch_bytes);
      CHECK(larger.stash_bytes > before.stash_bytes);
    }
  }
}

TEST_CASE("pageable memory becomes pinned if the strategy chose it") {
  for (const std::string& strategy : kOffloading) {
    const AdviceTextAndStrategy advice = knobs_of(strategy).pinned();
    if (plan_for(strategy).transfer.pinned)
      CHECK(advice.text.starts_with("the model copies"));
    else
      CHECK(followed(advice, strategy).transfer.pinned);
  }
}

TEST_CASE("the advice to offload the head offloads more and is given only if the strategy can") {
  for (const std::string strategy : {"offload:stream", "offload:sync,keep_last=1"})
    CHECK(moved(followed(knobs_of(strategy).offload_head(), strategy)) > moved(plan_for(strategy)));
  for (const std::string strategy : {"offload:group", "offload:stream,head=move", "offload:stream,blocks=0-1",
                                     "checkpoint:full,inputs=host", "none", "a plan"}) {
    CHECK(knobs_of(strategy).offload_head().text == "a smaller --batch or --seq");
    CHECK(knobs_of(strategy).offload_head().alternative_strategy == "");
  }
}

TEST_CASE("the advice to recompute less reduces the recomputed bytes") {
  for (const std::string strategy :
       {"checkpoint:full", "checkpoint:full,inputs=host,segment=4", "checkpoint:every=2", "checkpoint:op",
        "checkpoint:op,save=attention+silu",
        "checkpoint:full,blocks=0-1+checkpoint:every=2,blocks=2-+offload:stream,fraction=0.3"}) {
    const Plan after = followed(knobs_of(strategy).recompute_less(), strategy);
    CHECK(bytes_at(after, TensorPlacement::recompute) < bytes_at(plan_for(strategy), TensorPlacement::recompute));
  }
  for (const std::string strategy : {"checkpoint:cheap", "checkpoint:op,save=matmul-all+attention",
                                     "checkpoint:every=4", "offload:stream", "a plan"})
    CHECK(knobs_of(strategy).recompute_less().alternative_strategy == "");  // every=5 would be refused with four blocks
}

TEST_CASE("advice fits the number of blocks") {
  CHECK(SuggestedStrategyBuilder("offload:stream,keep_last=4", nullptr, 4).keep_last().alternative_strategy == "");
  CHECK(SuggestedStrategyBuilder("checkpoint:full", nullptr, 1).recompute_less().alternative_strategy == "");
}

TEST_CASE("the advice text has the present setting and the advised one and the whole strategy") {
  const SuggestedStrategyBuilder tunables = knobs_of("checkpoint:cheap+offload:stream,fraction=0.4,keep_last=2");
  const auto said = [](const AdviceTextAndStrategy& advice) {
    return advice.text + " (" + advice.alternative_strategy + ")";
  };
  CHECK(said(tunables.deeper_prefetch()) ==
        "prefetch=1GiB -> prefetch=2GiB (checkpoint:cheap+offload:stream,fraction=0.4,prefetch=2GiB,keep_last=2)");
  CHECK(said(tunables.larger_stash()) ==
        "stash=8GiB -> stash=16GiB (checkpoint:cheap+offload:stream,fraction=0.4,stash=16GiB,keep_last=2)");
  CHECK(said(tunables.offload_less(0.5)) ==
        "fraction=0.4 -> fraction=0.2 (checkpoint:cheap+offload:stream,fraction=0.2,keep_last=2)");
  CHECK(said(tunables.keep_small(4 << 20)) ==
        "min=1MiB -> min=4MiB (checkpoint:cheap+offload:stream,fraction=0.4,min=4MiB,keep_last=2)");
  CHECK(said(tunables.keep_last()) ==
        "keep_last=2 -> keep_last=3 (checkpoint:cheap+offload:stream,fraction=0.4,keep_last=3)");
  CHECK(knobs_of("offload:sync").deeper_prefetch().text ==
        "offload:sync -> offload:stream, whose copies overlap compute");
  CHECK(said(knobs_of("checkpoint:full,inputs=host").recompute_less()) ==
        "checkpoint:full -> checkpoint:every=2 (checkpoint:every=2,inputs=host)");
  CHECK(knobs_of("offload:stream,prefetch=0").deeper_prefetch().text == "prefetch=0 -> prefetch=1GiB");
  CHECK(knobs_of("offload:group").keep_last().text == "keep_last=1 -> keep_last=2");
  CHECK(knobs_of("offload:stream,min=8MiB").keep_small(4 << 20).text == "min=8MiB -> min=16MiB");
}

TEST_CASE("advice works for strategies with blanks and with two offload parts") {
  CHECK(knobs_of("offload:stream, fraction=0.4, keep_last = 2").offload_less(0.5).alternative_strategy ==
        "offload:stream,fraction=0.2,keep_last=2");
  CHECK(knobs_of("offload:stream, fraction=0.4, keep_last = 2").keep_last().alternative_strategy ==
        "offload:stream,fraction=0.4,keep_last=3");
  const AdviceTextAndStrategy both =
      knobs_of("offload:stream,blocks=0-1,fraction=0.6+offload:stream,blocks=2-").offload_less(0.5);
  CHECK(both.text == "fraction=0.6 -> fraction=0.3 and fraction=1 -> fraction=0.5");
  CHECK(both.alternative_strategy == "offload:stream,fraction=0.3,blocks=0-1+offload:stream,fraction=0.5,blocks=2-");
}

TEST_CASE("advised fractions fall in steps of 0.05 and below the first step in thousandths and never to zero") {
  const auto share = [](const char* strategy, double share) { return knobs_of(strategy).offload_less(share).text; };
  CHECK(share("offload:stream", 0.62) == "fraction=1 -> fraction=0.6");
  CHECK(share("offload:stream", 0.35) == "fraction=1 -> fraction=0.35");
  CHECK(share("offload:stream", 0.0) == "fraction=1 -> fraction=0.05");
  CHECK(share("offload:stream", -3) == "fraction=1 -> fraction=0.05");
  CHECK(share("offload:stream,fraction=0.05", 0.5) == "fraction=0.05 -> fraction=0.025");
}

TEST_CASE("advice for a handwritten plan names the fields of its file") {
  Plan plan;
  plan.strategy = "dear-13";
  plan.transfer.pinned = false;
  const SuggestedStrategyBuilder tunables(plan.strategy, &plan);
  CHECK(tunables.deeper_prefetch().text ==
        "\"prefetch_bytes\": 1073741824 -> \"prefetch_bytes\": 2147483648 in the plan's \"transfer\"");
  CHECK(tunables.offload_less(0.5).text == "offload fewer activations");
  const auto followed = [](const AdviceTextAndStrategy& advice) {
    CHECK(advice.alternative_strategy == "");
    const size_t begin = advice.text.find("-> ") + 3, end = advice.text.find(" in the plan's \"transfer\"");
    plan::TransferSettings transfer;
    plan::read_transfer(nlohmann::json::parse("{" + advice.text.substr(begin, end - begin) + "}"), "", transfer);
    return transfer;
  };
  CHECK(followed(tunables.deeper_prefetch()).prefetch_bytes == 2 * plan.transfer.prefetch_bytes);
  CHECK(followed(tunables.larger_stash()).stash_bytes == 2 * plan.transfer.stash_bytes);
  CHECK(followed(tunables.keep_small(4 << 20)).min_bytes == 4 << 20);
  CHECK(followed(tunables.pinned()).pinned);
  plan.transfer.schedule = plan::ActivationOffloadCopyGranularity::block;
  CHECK(followed(tunables.deeper_prefetch()).prefetch_blocks == 2);
  CHECK(followed(tunables.larger_stash()).groups_in_flight == 2);
}

TEST_CASE("without a plan the advice has no present settings") {
  const SuggestedStrategyBuilder tunables("dear-13", nullptr);
  CHECK(tunables.deeper_prefetch().text == "a deeper prefetch");
  CHECK(tunables.larger_stash().text == "more copies out in flight");
  CHECK(tunables.keep_small(4 << 20).text == "keep activations under 4 MiB on the device");
}

TEST_CASE("settings at their limit are not raised or lowered") {
  CHECK(knobs_of("offload:group,prefetch=1000000").deeper_prefetch().text == "a deeper prefetch");
  CHECK(knobs_of("offload:stream,stash=4EiB").larger_stash().text == "more copies out in flight");
  CHECK(knobs_of("offload:stream,fraction=0").offload_less(0.5).text == "offload fewer activations");
}

}  // namespace memtune::tunables_test
