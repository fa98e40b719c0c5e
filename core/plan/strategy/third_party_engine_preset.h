// Activation engines of other programs as data: which rule places their activations (core/plan), and how they copy, as
// settings and compatibility flags (core/plan/strategy/plan.h) of memtune's engine. The source of the named versions
// was read.
#pragma once

#include <string_view>

#include "core/plan/strategy/plan.h"

namespace memtune::plan {

// Scope of an engine's saved-tensor hooks.
enum class StepPartWithSavedTensorHooks {
  none,
  model,   // the model without its output layer
  step,    // model and loss without the output layer
  blocks,  // each block on its own
};

struct ThirdPartyEnginePreset {
  std::string_view engine;  // "torchtune 0.6.1"
  StepPartWithSavedTensorHooks hooks = StepPartWithSavedTensorHooks::none;
  bool inputs = false;  // inputs of checkpointed blocks are offloaded to the CPU
  // Meaning of the parameter `layers`. Together: that many consecutive blocks form one checkpoint. First: only the
  // first that many blocks are checkpointed.
  bool layers_together = false, layers_first = false;
  bool every_linear = false;  // recomputes every other linear layer of a block and keeps all other costly ops
  int keep_last = 0;          // the last blocks that keep everything, or their inputs, on the device
  TransferSettings transfer = {};
};

// Whether the plan uses OneOpActivationPlacements::saves. The step simulator knows saved tensors only by the
// activations that they view, so it cannot predict such a plan.
bool offloads_each_save(const Plan& plan);
// Whether the plan uses compatibility flags or OneOpActivationPlacements::saves, so that only memtune's own engine can
// run it.
bool has_compatibility_flags(const Plan& plan);

extern const ThirdPartyEnginePreset kTorchtune, kTrl, kSwift;                   // offload
extern const ThirdPartyEnginePreset kHfOffload, kAxolotlHidden, kDeepSpeedCpu;  // checkpoint with offloaded inputs
extern const ThirdPartyEnginePreset kTitanFull, kTitanSelective, kMegatronUniform, kMegatronBlock;  // checkpoint

}  // namespace memtune::plan
