#include "core/plan/strategy_table.h"

#include "core/plan/strategy.h"

namespace memtune::plan {
namespace {

const ParameterInfo kInputs = {"inputs", "keep | host | disk", "keep", "where the inputs of checkpointed blocks wait"};
const ParameterInfo kSave = {"save", kOps, "matmul+attention",
                             "ops whose outputs stay; matmul is every other one of a block, matmul-all is all of them"};
const ParameterInfo kCovered = {"blocks", kRanges, "all", "which blocks, counted from 0; 20- is to the last"};

const ParameterInfo kSegment = {"segment", kPositive, "1",
                                "nested: of so many blocks in a row only the first's inputs stay"};

const ParameterInfo kTier = {"tier", "host | disk", "host", "disk: what the host budget has no room for waits there"};
const ParameterInfo kMemory = {"memory", "pinned | pageable", "pinned",
                               "of the host; pageable leaves it to the system, and copies hold the host up"};
const ParameterInfo kFraction = {"fraction", kShare, "1",
                                 "how much of the bytes moves; what is dearest to recompute first"};
const ParameterInfo kMin = {"min", kBytes, "1MiB", "smaller tensors stay on the device"};
const ParameterInfo kHead = {"head", "keep | move", "keep", "what comes behind the last block: norm, output, loss"};
const ParameterInfo kStash = {
    "stash", kBytes, "8GiB", "sources kept on the device while their copies out run, as far as the step's peak allows"};
const ParameterInfo kPrefetch = {"prefetch", kBytes, "1GiB", "copied back ahead of the value that backward is at"};
const ParameterInfo kKeepNone = {"keep_last", kCount, "0", "the values of that many last blocks stay"};
const ParameterInfo kKeepOne = {"keep_last", kCount, "1", "the values of that many last blocks stay"};
const ParameterInfo kInFlight = {"in_flight", kPositive, "1", "blocks whose sources wait for their copies out"};
const ParameterInfo kPrefetchBlocks = {"prefetch", kCount, "1", "blocks copied back ahead of the one backward is in"};

const StrategyInfo kStrategies[] = {
    {"none", "keep everything: the baseline", {}},
    {"checkpoint:full", "keep each block's inputs, recompute the rest in backward", {kInputs, kSegment, kCovered}},
    {"checkpoint:every=n", "the same for every n-th block only, from the first on", {kInputs, kCovered}},
    {"checkpoint:op", "recompute blocks but for the outputs of costly ops", {kSave, kInputs, kCovered}},
    {"checkpoint:cheap", "recompute only what costs next to nothing, from as few bytes as do", {kInputs, kCovered}},
    {"offload:sync",
     "move values to host memory, with copies that compute waits for",
     {kTier, kMemory, kFraction, kMin, kKeepNone, kCovered, kHead}},
    {"offload:stream",
     "move values to host memory on a side stream, beside compute",
     {kTier, kMemory, kFraction, kStash, kMin, kPrefetch, kKeepNone, kCovered, kHead}},
    {"offload:group",
     "move the values of a block together when it ends, on a side stream",
     {kTier, kMemory, kFraction, kInFlight, kMin, kPrefetchBlocks, kKeepOne, kCovered}},
};

}  // namespace

std::span<const StrategyInfo> strategies() { return kStrategies; }

}  // namespace memtune::plan
