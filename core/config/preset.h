// Engines of other programs, as rows of data: which rule places what they place (core/plan), and how they copy, as
// settings and habits (config/plan.h) of the one engine that there is. Versions are those whose source was read.
#pragma once

#include <string_view>

#include "core/config/plan.h"

namespace memtune::config {

// Which ops' saved tensors an engine sees: where its hooks lie.
enum class Hooks {
  none,
  model,   // around the model, without its output layer
  step,    // around model and loss, without the output layer
  blocks,  // around each block
};

struct Preset {
  std::string_view engine;  // "torchtune 0.6.1"
  Hooks hooks = Hooks::none;
  bool inputs = false;  // what checkpointed blocks take from one another waits in host memory
  // Of what `layers` says: so many blocks are one checkpoint; only so many blocks, the first, are checkpointed.
  bool layers_together = false, layers_first = false;
  bool every_linear = false;  // of a block's linear layers every other is made again; all other costly ops are kept
  int keep_last = 0;          // of that many last blocks all stays, or their inputs do
  TransferSettings transfer = {};
};

// Whether it does what other engines do, which a step on paper does not know.
bool has_habits(const Plan& plan);

extern const Preset kTorchtune, kTrl, kSwift;                                       // offload
extern const Preset kHfOffload, kAxolotlHidden, kDeepSpeedCpu;                      // checkpoint, inputs on the host
extern const Preset kTitanFull, kTitanSelective, kMegatronUniform, kMegatronBlock;  // checkpoint

}  // namespace memtune::config
