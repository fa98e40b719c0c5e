#include "core/config/strategy.h"

namespace memtune::config {
namespace {

using enum Form;

constexpr ParameterInfo kInputs = {Parameter::inputs,    "inputs", words,
                                   "keep | host | disk", "keep",   "where the inputs of checkpointed blocks wait"};
constexpr ParameterInfo kSave = {
    Parameter::save,
    "save",
    names,
    "",
    "matmul+attention",
    "ops whose outputs stay; matmul is every other one of a block, matmul-all is all of them"};
constexpr ParameterInfo kBlocks = {
    Parameter::blocks, "blocks", blocks, "", "all", "which blocks, counted from 0; 20- is to the last"};
constexpr ParameterInfo kSegment = {Parameter::segment,
                                    "segment",
                                    positive,
                                    "",
                                    "1",
                                    "nested: of so many blocks in a row only the first's inputs stay"};

constexpr ParameterInfo kTier = {Parameter::tier, "tier", words,
                                 "host | disk",   "host", "disk: what the host budget has no room for waits there"};
constexpr ParameterInfo kMemory = {Parameter::memory,
                                   "memory",
                                   words,
                                   "pinned | pageable",
                                   "pinned",
                                   "of the host; pageable leaves it to the system, and copies hold the host up",
                                   true};
constexpr ParameterInfo kFraction = {Parameter::fraction,
                                     "fraction",
                                     share,
                                     "",
                                     "1",
                                     "how much of the bytes moves; what takes longest to recompute for its size first"};
constexpr ParameterInfo kMin = {Parameter::min, "min", bytes, "", "1MiB", "smaller tensors stay on the device", true};
constexpr ParameterInfo kHead = {Parameter::head, "head", words,
                                 "keep | move",   "keep", "what comes behind the last block: norm, output, loss"};
constexpr ParameterInfo kStash = {
    Parameter::stash,
    "stash",
    bytes,
    "",
    "8GiB",
    "sources kept on the device while their copies out run, as far as the step's peak allows",
    true};
constexpr ParameterInfo kPrefetch = {
    Parameter::prefetch, "prefetch", bytes, "", "1GiB", "copied back ahead of the value that backward is at", true};
constexpr ParameterInfo kKeepNone = {
    Parameter::keep_last, "keep_last", count, "", "0", "the values of that many last blocks stay"};
constexpr ParameterInfo kKeepOne = {
    Parameter::keep_last, "keep_last", count, "", "1", "the values of that many last blocks stay"};
constexpr ParameterInfo kInFlight = {
    Parameter::in_flight, "in_flight", positive, "", "1", "blocks whose sources wait for their copies out", true};
constexpr ParameterInfo kPrefetchBlocks = {
    Parameter::prefetch, "prefetch", count, "", "1", "blocks copied back ahead of the one backward is in", true};

constexpr ParameterInfo kFull[] = {kInputs, kSegment, kBlocks};
constexpr ParameterInfo kOp[] = {kSave, kInputs, kBlocks};
constexpr ParameterInfo kCheckpoint[] = {kInputs, kBlocks};
constexpr ParameterInfo kSync[] = {kTier, kMemory, kFraction, kMin, kKeepNone, kBlocks, kHead};
constexpr ParameterInfo kStream[] = {kTier, kMemory, kFraction, kStash, kMin, kPrefetch, kKeepNone, kBlocks, kHead};
constexpr ParameterInfo kGroup[] = {kTier, kMemory, kFraction, kInFlight, kMin, kPrefetchBlocks, kKeepOne, kBlocks};

constexpr StrategyInfo kStrategies[] = {
    {StrategyKind::none, "none", "keep everything: the baseline", {}},
    {StrategyKind::checkpoint_full, "checkpoint:full", "keep each block's inputs, recompute the rest in backward",
     kFull},
    {StrategyKind::checkpoint_every, "checkpoint:every=n", "the same for every n-th block only, from the first on",
     kCheckpoint},
    {StrategyKind::checkpoint_op, "checkpoint:op", "recompute blocks but for the outputs of costly ops", kOp},
    {StrategyKind::checkpoint_cheap, "checkpoint:cheap",
     "recompute only what costs next to nothing, from as few bytes as do", kCheckpoint},
    {StrategyKind::offload_sync, "offload:sync", "move values to host memory, with copies that compute waits for",
     kSync},
    {StrategyKind::offload_stream, "offload:stream", "move values to host memory on a side stream, beside compute",
     kStream},
    {StrategyKind::offload_group, "offload:group", "move the values of a block together when it ends, on a side stream",
     kGroup},
};

}  // namespace

std::span<const StrategyInfo> strategies() { return kStrategies; }

std::string_view values_text(const ParameterInfo& info) {
  switch (info.form) {
    case words: return info.words;
    case names: return "matmul, matmul-all, attention or op names, with + between";
    case share: return "a number from 0 to 1";
    case count: return "a whole number from 0";
    case positive: return "a whole number from 1";
    case bytes: return "bytes, as 512MiB";
    case blocks: return "all, or 0-9:12:20-";
  }
  return "";
}

}  // namespace memtune::config
