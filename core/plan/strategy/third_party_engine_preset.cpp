#include "core/plan/strategy/third_party_engine_preset.h"

#include <algorithm>

namespace memtune::plan {
namespace {

constexpr int kMinBytes = 1024;

// Saved tensors are copied one by one, each into pinned memory of its own. A reload is issued when backward asks for
// the tensor; the host is about one op ahead of the device.
constexpr ThirdPartyEngineEmulationFlags kHooksOnSaves = {.learns = false,
                                                          .prefetch_ops = 1,
                                                          .stash_saves = 5,
                                                          .counts_all = true,
                                                          .empties_stash = true,
                                                          .one_stream = true,
                                                          .power_of_two = true};

constexpr ThirdPartyEngineEmulationFlags torchtune_compatibility() {
  ThirdPartyEngineEmulationFlags compatibility = kHooksOnSaves;
  compatibility.parameter_views = true;
  return compatibility;
}

constexpr ThirdPartyEngineEmulationFlags trl_compatibility() {
  ThirdPartyEngineEmulationFlags compatibility = kHooksOnSaves;
  compatibility.repeats = RepeatedSavedTensorOffloadPolicy::stay;
  compatibility.flat_broadcasts = true;
  return compatibility;
}

}  // namespace

bool offloads_each_save(const Plan& plan) {
  return std::ranges::any_of(plan.placements,
                             [](const OneOpActivationPlacements& op) { return op.saves != TensorPlacement::keep; });
}

bool has_compatibility_flags(const Plan& plan) {
  return plan.transfer.compatibility != ThirdPartyEngineEmulationFlags{} || offloads_each_save(plan);
}

const ThirdPartyEnginePreset kTorchtune = {
    .engine = "torchtune 0.6.1",
    .hooks = StepPartWithSavedTensorHooks::model,
    .transfer = {.min_bytes = kMinBytes, .compatibility = torchtune_compatibility()}};

const ThirdPartyEnginePreset kTrl = {.engine = "TRL 1.16.0",
                                     .hooks = StepPartWithSavedTensorHooks::step,
                                     .transfer = {.min_bytes = kMinBytes, .compatibility = trl_compatibility()}};

const ThirdPartyEnginePreset kSwift = {
    .engine = "ms-swift 4.6.0",
    .hooks = StepPartWithSavedTensorHooks::blocks,
    .keep_last = 1,
    .transfer = {
        .min_bytes = 1,
        .schedule = ActivationOffloadCopyGranularity::block,
        .compatibility = {.learns = false, .power_of_two = true, .repeats = RepeatedSavedTensorOffloadPolicy::share}}};

const ThirdPartyEnginePreset kHfOffload = {
    .engine = "transformers 5.17.0",
    .inputs = true,
    .transfer = {.side_stream = false,
                 .min_bytes = 1,
                 .compatibility = {.learns = false, .host_waits = true, .power_of_two = true}}};

const ThirdPartyEnginePreset kAxolotlHidden = {
    .engine = "axolotl 0.19.0",
    .inputs = true,
    .transfer = {.min_bytes = kMinBytes,
                 .compatibility = {.learns = false, .prefetch_ops = 1, .stash_saves = 2, .one_stream = true}}};

// Same as axolotl, but the newest input stays, because backward needs it first.
const ThirdPartyEnginePreset kDeepSpeedCpu = {
    .engine = "DeepSpeed 0.19.8",
    .inputs = true,
    .keep_last = 1,
    .transfer = {.min_bytes = 1,
                 .compatibility = {.learns = false, .prefetch_ops = 1, .stash_saves = 2, .one_stream = true}}};

const ThirdPartyEnginePreset kTitanFull = {.engine = "torchtitan 0.3.0",
                                           .transfer = {.compatibility = {.whole_blocks = true}}};

const ThirdPartyEnginePreset kTitanSelective = {
    .engine = "torchtitan 0.3.0", .every_linear = true, .transfer = {.compatibility = {.whole_blocks = true}}};

const ThirdPartyEnginePreset kMegatronUniform = {.engine = "Megatron-LM 0.16.1", .layers_together = true};

const ThirdPartyEnginePreset kMegatronBlock = {.engine = "Megatron-LM 0.16.1", .layers_first = true};

}  // namespace memtune::plan
