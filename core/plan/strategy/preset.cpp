#include "core/plan/strategy/preset.h"

#include <algorithm>

namespace memtune::plan {
namespace {

constexpr int kLeastBytes = 1024;

// Saved tensors are copied one by one, each into pinned memory of its own. A reload is issued when backward asks for
// the tensor; the host is about one op ahead of the device.
constexpr Habits kHooksOnSaves = {.learns = false,
                                  .prefetch_ops = 1,
                                  .stash_saves = 5,
                                  .counts_all = true,
                                  .empties_stash = true,
                                  .one_stream = true,
                                  .power_of_two = true};

constexpr Habits torchtune_habits() {
  Habits habits = kHooksOnSaves;
  habits.parameter_views = true;
  return habits;
}

constexpr Habits trl_habits() {
  Habits habits = kHooksOnSaves;
  habits.repeats = Repeats::stay;
  habits.flat_broadcasts = true;
  return habits;
}

}  // namespace

bool has_habits(const Plan& plan) {
  return plan.transfer.habits != Habits{} ||
         std::ranges::any_of(plan.placements, [](const OpPlacement& op) { return op.saves != Place::keep; });
}

const Preset kTorchtune = {.engine = "torchtune 0.6.1",
                           .hooks = Hooks::model,
                           .transfer = {.min_bytes = kLeastBytes, .habits = torchtune_habits()}};

const Preset kTrl = {
    .engine = "TRL 1.16.0", .hooks = Hooks::step, .transfer = {.min_bytes = kLeastBytes, .habits = trl_habits()}};

const Preset kSwift = {.engine = "ms-swift 4.6.0",
                       .hooks = Hooks::blocks,
                       .keep_last = 1,
                       .transfer = {.min_bytes = 1,
                                    .schedule = Schedule::block,
                                    .habits = {.learns = false, .power_of_two = true, .repeats = Repeats::share}}};

const Preset kHfOffload = {
    .engine = "transformers 5.17.0",
    .inputs = true,
    .transfer = {
        .side_stream = false, .min_bytes = 1, .habits = {.learns = false, .host_waits = true, .power_of_two = true}}};

const Preset kAxolotlHidden = {
    .engine = "axolotl 0.19.0",
    .inputs = true,
    .transfer = {.min_bytes = kLeastBytes,
                 .habits = {.learns = false, .prefetch_ops = 1, .stash_saves = 2, .one_stream = true}}};

// Same as axolotl, but the newest input stays, because backward needs it first.
const Preset kDeepSpeedCpu = {
    .engine = "DeepSpeed 0.19.8",
    .inputs = true,
    .keep_last = 1,
    .transfer = {.min_bytes = 1, .habits = {.learns = false, .prefetch_ops = 1, .stash_saves = 2, .one_stream = true}}};

const Preset kTitanFull = {.engine = "torchtitan 0.3.0", .transfer = {.habits = {.whole_blocks = true}}};

const Preset kTitanSelective = {
    .engine = "torchtitan 0.3.0", .every_linear = true, .transfer = {.habits = {.whole_blocks = true}}};

const Preset kMegatronUniform = {.engine = "Megatron-LM 0.16.1", .layers_together = true};

const Preset kMegatronBlock = {.engine = "Megatron-LM 0.16.1", .layers_first = true};

}  // namespace memtune::plan
