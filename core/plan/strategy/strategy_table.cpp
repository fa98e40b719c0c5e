#include "core/plan/strategy/strategy.h"

namespace memtune::plan {
namespace {

using enum StrategyParameterType;

constexpr StrategyParameterInfo kInputs = {
    StrategyParameterId::inputs, "inputs", words,
    "keep | host | disk",        "keep",   "where the inputs of checkpointed blocks are until backward"};
constexpr StrategyParameterInfo kSave = {
    StrategyParameterId::save,
    "save",
    names,
    "",
    "matmul+attention",
    "ops whose outputs stay; matmul is every other one of a block, matmul-all is all of them"};
constexpr StrategyParameterInfo kBlocks = {
    StrategyParameterId::blocks, "blocks", blocks, "", "all", "which blocks, counted from 0; 20- is to the last"};
constexpr StrategyParameterInfo kSegment = {StrategyParameterId::segment,
                                            "segment",
                                            positive,
                                            "",
                                            "1",
                                            "nested: of so many blocks in a row only the first's inputs stay"};

constexpr StrategyParameterInfo kTier = {StrategyParameterId::tier,
                                         "tier",
                                         words,
                                         "host | disk",
                                         "host",
                                         "disk: what does not fit the host budget goes to disk"};
constexpr StrategyParameterInfo kMemory = {
    StrategyParameterId::memory,
    "memory",
    words,
    "pinned | pageable",
    "pinned",
    "of the CPU; pageable memory is not page-locked, and its copies block the CPU",
    true};
constexpr StrategyParameterInfo kFraction = {
    StrategyParameterId::fraction,
    "fraction",
    share,
    "",
    "1",
    "share of the bytes that is offloaded; first what takes longest to recompute for its size"};
constexpr StrategyParameterInfo kMin = {
    StrategyParameterId::min, "min", bytes, "", "1MiB", "smaller tensors stay on the device", true};
constexpr StrategyParameterInfo kHead = {StrategyParameterId::head,
                                         "head",
                                         words,
                                         "keep | move",
                                         "keep",
                                         "what comes behind the last block: norm, output, loss"};
constexpr StrategyParameterInfo kStash = {
    StrategyParameterId::stash,
    "stash",
    bytes,
    "",
    "8GiB",
    "sources kept on the device while their copies out run, as far as the step's peak allows",
    true};
constexpr StrategyParameterInfo kPrefetch = {StrategyParameterId::prefetch,         "prefetch", bytes, "", "1GiB",
                                             "bytes copied back ahead of backward", true};
constexpr StrategyParameterInfo kKeepNone = {
    StrategyParameterId::keep_last, "keep_last", count, "", "0", "the activations of that many last blocks stay"};
constexpr StrategyParameterInfo kKeepOne = {
    StrategyParameterId::keep_last, "keep_last", count, "", "1", "the activations of that many last blocks stay"};
constexpr StrategyParameterInfo kInFlight = {StrategyParameterId::in_flight,          "in_flight", positive, "", "1",
                                             "blocks whose copies out are in flight", true};
constexpr StrategyParameterInfo kPrefetchBlocks = {StrategyParameterId::prefetch,          "prefetch", count, "", "1",
                                                   "blocks copied back ahead of backward", true};

constexpr StrategyParameterInfo kEveryNth = {
    StrategyParameterId::every, "every", positive, "", "1", "only every n-th block, from the first on"};
constexpr StrategyParameterInfo kLayers = {StrategyParameterId::layers,
                                           "layers",
                                           positive,
                                           "",
                                           "1",
                                           "blocks that one checkpoint has, as recompute_num_layers"};
constexpr StrategyParameterInfo kFirstLayers = {
    StrategyParameterId::layers, "layers", positive, "", "1", "blocks that are checkpointed, as recompute_num_layers"};

constexpr StrategyParameterInfo kParameters = {StrategyParameterId::parameters,
                                               "parameters",
                                               words,
                                               "host | keep",
                                               "host",
                                               "of the blocks: where they are while no op uses them"};
constexpr StrategyParameterInfo kMoments = {
    StrategyParameterId::moments, "moments", words, "host | keep", "host", "the optimizer's states of the blocks"};
constexpr StrategyParameterInfo kOutsideBlocks = {
    StrategyParameterId::outside,
    "outside",
    words,
    "keep | moments | host",
    "keep",
    "embeddings, final norm, output layer: moments moves their optimizer states, host their parameters too"};

constexpr StrategyParameterInfo kFull[] = {kInputs, kSegment, kBlocks};
constexpr StrategyParameterInfo kOp[] = {kSave, kInputs, kBlocks};
constexpr StrategyParameterInfo kCheckpoint[] = {kInputs, kBlocks};
constexpr StrategyParameterInfo kSync[] = {kTier, kMemory, kFraction, kMin, kKeepNone, kBlocks, kHead};
constexpr StrategyParameterInfo kStream[] = {kTier,     kMemory,   kFraction, kStash, kMin,
                                             kPrefetch, kKeepNone, kBlocks,   kHead};
constexpr StrategyParameterInfo kGroup[] = {kTier, kMemory,         kFraction, kInFlight,
                                            kMin,  kPrefetchBlocks, kKeepOne,  kBlocks};

constexpr StrategyParameterInfo kStates[] = {kParameters, kMoments, kOutsideBlocks, kBlocks};

constexpr StrategyParameterInfo kHf[] = {kEveryNth};
constexpr StrategyParameterInfo kUniform[] = {kLayers};
constexpr StrategyParameterInfo kBlock[] = {kFirstLayers};

constexpr StrategyInfo kStrategies[] = {
    {StrategyKind::none, "none", "keep everything: the baseline", {}},
    {StrategyKind::checkpoint_full, "checkpoint:full", "keep each block's inputs, recompute the rest in backward",
     kFull},
    {StrategyKind::checkpoint_every, "checkpoint:every=n", "the same for every n-th block only, from the first on",
     kCheckpoint},
    {StrategyKind::checkpoint_op, "checkpoint:op", "recompute blocks but for the outputs of costly ops", kOp},
    {StrategyKind::checkpoint_cheap, "checkpoint:cheap",
     "recompute only what costs next to nothing, from as few bytes as possible", kCheckpoint},
    {StrategyKind::offload_sync, "offload:sync", "offload activations to CPU, with copies that compute waits for",
     kSync},
    {StrategyKind::offload_stream, "offload:stream", "offload activations to CPU on a side stream, overlapping compute",
     kStream},
    {StrategyKind::offload_group, "offload:group",
     "offload the activations of a block together when it ends, on a side stream", kGroup},
    {StrategyKind::states_host, "states=host",
     "offload parameters and optimizer states to CPU; each block is updated on the device during backward", kStates},
    {StrategyKind::checkpoint_preset, "checkpoint:hf-offload",
     "what transformers does from 5.17 on with gradient_checkpointing_kwargs offload: inputs of blocks on the host, "
     "with "
     "copies on the compute stream, for which the host waits",
     kHf, &kHfOffload},
    {StrategyKind::checkpoint_preset,
     "checkpoint:axolotl-hidden",
     "what axolotl 0.19.0 does with activation_offloading: hidden_states",
     {},
     &kAxolotlHidden},
    {StrategyKind::checkpoint_preset,
     "checkpoint:deepspeed-cpu",
     "what DeepSpeed 0.19.8 does with cpu_checkpointing: inputs of blocks on the host, but for the last one's",
     {},
     &kDeepSpeedCpu},
    {StrategyKind::checkpoint_preset,
     "checkpoint:titan-full",
     "what torchtitan 0.3.0 does with FullAC: backward recomputes all of a block",
     {},
     &kTitanFull},
    {StrategyKind::checkpoint_preset,
     "checkpoint:titan-selective",
     "what torchtitan 0.3.0 does with SelectiveAC: attention and every other linear layer are kept, backward "
     "recomputes the rest of a block",
     {},
     &kTitanSelective},
    {StrategyKind::checkpoint_preset, "checkpoint:megatron-uniform",
     "what Megatron-LM 0.16.1 does with recompute_method uniform: so many blocks in a row are one checkpoint, "
     "recomputed at once",
     kUniform, &kMegatronUniform},
    {StrategyKind::checkpoint_preset, "checkpoint:megatron-block",
     "what Megatron-LM 0.16.1 does with recompute_method block: the first blocks are checkpointed", kBlock,
     &kMegatronBlock},
    {StrategyKind::offload_preset,
     "offload:torchtune",
     "what torchtune 0.6.1 does with enable_activation_offloading, beside checkpoint:full: saved tensors from 1 KiB "
     "on, one by one, weights' transposes too; not loss and output layer",
     {},
     &kTorchtune},
    {StrategyKind::offload_preset,
     "offload:trl",
     "what TRL 1.16.0 does with activation_offloading: saved tensors from 1 KiB on, one by one, those of the loss too; "
     "what is saved again while being offloaded stays",
     {},
     &kTrl},
    {StrategyKind::offload_preset,
     "offload:swift",
     "what ms-swift 4.6.0 does with activation_cpu_offload: the saved tensors of all blocks but the last, a block at a "
     "time, one block in flight",
     {},
     &kSwift},
};

}  // namespace

std::span<const StrategyInfo> strategies() { return kStrategies; }

std::string_view values_text(const StrategyParameterInfo& info) {
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

}  // namespace memtune::plan
