// Adds LoRA to any program. A frozen linear layer, Conv1D or embedding gets two small trained layers, op by op as in
// peft.
#pragma once

#include "core/model/adapter/lora_config.h"
#include "core/model/program/program.h"

namespace memtune::frontend {

// Afterwards only the adapters, named as in peft's files, and the biases selected by `lora` require grad. Adapters come
// from the file next to adapter_config.json, else are random with `seed`. They are float32 for half-precision layers.
// Throws UsageError if no layer is a target or a target is an unsupported module. Also if a weight of the file is
// missing, has another shape, or belongs to no layer here.
void add_lora(program::Program& program, const model::LoraConfig& lora, int64_t seed);

}  // namespace memtune::frontend
