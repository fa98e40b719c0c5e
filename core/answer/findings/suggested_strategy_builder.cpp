#include "core/answer/findings/suggested_strategy_builder.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::findings {
namespace {

using plan::Strategy;
using plan::StrategyKind;
using plan::StrategyParameterId;
using plan::StrategyPart;

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kMaxBytes = int64_t{1} << 61;

int64_t twice(int64_t bytes, int64_t least) { return std::max(least, 2 * std::min(bytes, kMaxBytes)); }

// Twice as many bytes, or one block more, depending on what the parameter counts.
std::string more(const StrategyPart& part, StrategyParameterId parameter) {
  if (part.kind() == StrategyKind::offload_group) return std::to_string(part.count(parameter) + 1);
  return std::to_string(twice(part.bytes(parameter), kGiB));
}

// 0.62 -> "0.6": rounds down to a multiple of 0.05, below 0.05 to a multiple of 0.001.
std::string share_text(double share) {
  const double steps = share >= 0.05 ? 20 : 1000;
  return std::to_string(std::floor(share * steps + 1e-9) / steps);
}

std::string field(const std::string& name, int64_t from, int64_t to) {
  const std::string key = "\"" + name + "\": ";
  return key + std::to_string(from) + " -> " + key + std::to_string(to) + " in the plan's \"transfer\"";
}

// Number of blocks that the part names. If the model's blocks are unknown, it counts those of a model with very many.
int64_t named_blocks(const StrategyPart& part, int blocks) {
  constexpr int kManyBlocks = 1000;
  int64_t named = 0;
  for (int block = 0; block < (blocks > 0 ? blocks : kManyBlocks); ++block) named += part.blocks().contains(block);
  return named;
}

}  // namespace

SuggestedStrategyBuilder::SuggestedStrategyBuilder(const std::string& name, const plan::Plan* plan, int blocks)
    : strategy_(Strategy::of_name(name)), plan_(plan), blocks_(blocks) {}

// Engines of other programs have no parameters.
bool SuggestedStrategyBuilder::offloads() const {
  return strategy_ && strategy_->offloads() && !offload().info().preset;
}

const StrategyPart& SuggestedStrategyBuilder::offload() const {
  return *std::ranges::find_if(strategy_->parts(), &StrategyPart::is_offload);
}

AdviceTextAndStrategy SuggestedStrategyBuilder::change(StrategyParameterId parameter, const Change& value,
                                                       const std::string& otherwise) const try {
  const Strategy changed = strategy_->with(parameter, value);
  std::vector<std::string> changes;
  for (size_t i = 0; i < changed.parts().size(); ++i) {
    const StrategyPart &from = strategy_->parts()[i], &to = changed.parts()[i];
    if (from == to) continue;
    const std::string text = from.setting(parameter) + " -> " + to.setting(parameter);
    if (std::ranges::count(changes, text) == 0) changes.push_back(text);
  }
  if (changes.empty()) return otherwise;
  return {join(changes, " and "), changed};
} catch (const UsageError&) {
  return otherwise;
}

AdviceTextAndStrategy SuggestedStrategyBuilder::deeper_prefetch() const {
  const std::string otherwise = "a deeper prefetch";
  if (offloads()) {
    if (offload().kind() == StrategyKind::offload_sync)
      return {"offload:sync -> offload:stream, whose copies overlap compute",
              strategy_->with(StrategyKind::offload_sync, StrategyKind::offload_stream)};
    return change(
        StrategyParameterId::prefetch, [](const auto& part) { return more(part, StrategyParameterId::prefetch); },
        otherwise);
  }
  if (!plan_) return otherwise;
  const plan::TransferSettings& now = plan_->transfer;
  if (now.schedule == plan::ActivationOffloadCopyGranularity::block)
    return field("prefetch_blocks", now.prefetch_blocks, int64_t{now.prefetch_blocks} + 1);
  return field("prefetch_bytes", now.prefetch_bytes, twice(now.prefetch_bytes, kGiB));
}

AdviceTextAndStrategy SuggestedStrategyBuilder::larger_stash() const {
  const std::string otherwise = "more copies out in flight";
  if (offloads()) {
    if (offload().kind() == StrategyKind::offload_sync) return deeper_prefetch();
    const StrategyParameterId parameter =
        offload().has(StrategyParameterId::stash) ? StrategyParameterId::stash : StrategyParameterId::in_flight;
    return change(
        parameter, [&](const auto& part) { return more(part, parameter); }, otherwise);
  }
  if (!plan_) return otherwise;
  const plan::TransferSettings& now = plan_->transfer;
  if (now.schedule == plan::ActivationOffloadCopyGranularity::block)
    return field("groups_in_flight", now.groups_in_flight, int64_t{now.groups_in_flight} + 1);
  return field("stash_bytes", now.stash_bytes, twice(now.stash_bytes, kGiB));
}

AdviceTextAndStrategy SuggestedStrategyBuilder::offload_less(double share) const {
  const std::string otherwise = "offload fewer activations";
  if (!offloads()) return otherwise;
  const double less = std::clamp(share, 0.05, 0.95);
  const auto value = [&](const auto& part) { return share_text(part.share(StrategyParameterId::fraction) * less); };
  return change(StrategyParameterId::fraction, value, otherwise);
}

AdviceTextAndStrategy SuggestedStrategyBuilder::keep_small(int64_t bytes) const {
  const std::string otherwise = "keep activations under " + std::to_string(bytes >> 20) + " MiB on the device";
  const auto value = [&](const auto& part) {
    return std::to_string(twice(part.bytes(StrategyParameterId::min), bytes));
  };
  if (offloads()) return change(StrategyParameterId::min, value, otherwise);
  if (!plan_) return otherwise;
  return field("min_bytes", plan_->transfer.min_bytes, twice(plan_->transfer.min_bytes, bytes));
}

AdviceTextAndStrategy SuggestedStrategyBuilder::pinned() const {
  const std::string own = "the model copies between devices itself: pin that tensor, or keep it on the device";
  if (offloads())
    return change(
        StrategyParameterId::memory, [](const auto&) { return "pinned"; }, own);
  if (plan_ && !plan_->transfer.pinned) return "\"pinned\": false -> \"pinned\": true in the plan's \"transfer\"";
  return own;
}

AdviceTextAndStrategy SuggestedStrategyBuilder::keep_last() const {
  const std::string otherwise = "keep the last block's activations on the device";
  if (!offloads()) return otherwise;
  const auto value = [&](const StrategyPart& part) {
    const int more = part.count(StrategyParameterId::keep_last) + 1;
    return std::to_string(blocks_ > 0 ? std::min(blocks_, more) : more);
  };
  return change(StrategyParameterId::keep_last, value, otherwise);
}

// Recomputes every n-th of the blocks that parts of `kind` name, with the least n that recomputes fewer of them.
AdviceTextAndStrategy SuggestedStrategyBuilder::recompute_every(StrategyKind kind, const std::string& otherwise) const {
  const auto of_kind = [&](const StrategyPart& part) { return part.kind() == kind; };
  const auto part = std::ranges::find_if(strategy_->parts(), of_kind);
  if (part == strategy_->parts().end()) return otherwise;
  const int64_t named = named_blocks(*part, blocks_), covered = (named + part->every() - 1) / part->every();
  int64_t n = part->every() + 1;
  while (n < named && (named + n - 1) / n == covered) ++n;
  if (n > named) return otherwise;
  const Strategy changed = strategy_->with(kind, StrategyKind::checkpoint_every, n);
  const auto name = [](const StrategyPart& part) { return to_string(StrategyPart(part.info(), part.every())); };
  return {name(*part) + " -> " + name(changed.parts()[part - strategy_->parts().begin()]), changed};
}

AdviceTextAndStrategy SuggestedStrategyBuilder::recompute_less() const {
  const std::string otherwise = "blocks= with fewer blocks, or a rule of a plan, keeps more on the device";
  if (!strategy_) return otherwise;
  for (const StrategyKind kind : {StrategyKind::checkpoint_full, StrategyKind::checkpoint_every})
    if (AdviceTextAndStrategy advice = recompute_every(kind, ""); !advice.text.empty()) return advice;
  return change(
      StrategyParameterId::save, [](const auto& part) { return part.text(StrategyParameterId::save) + "+matmul-all"; },
      otherwise);
}

AdviceTextAndStrategy SuggestedStrategyBuilder::offload_head() const {
  const std::string otherwise = "a smaller --batch or --seq";
  const auto value = [](const StrategyPart& part) {
    // Activations outside of blocks belong to a part for all blocks.
    return part.blocks().all() ? "move" : part.text(StrategyParameterId::head);
  };
  return offloads() ? change(StrategyParameterId::head, value, otherwise) : AdviceTextAndStrategy(otherwise);
}

}  // namespace memtune::findings
