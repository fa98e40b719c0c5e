// LoRA over any program: beside the frozen weight of a linear layer, a Conv1D or an embedding two small ones that are
// trained, op by op as peft has it.
#pragma once

#include "core/config/lora.h"
#include "core/program/program.h"

namespace memtune::frontend {

// No parameter of `program` requires grad afterwards but the adapters', which have the names that peft gives them in
// its files, and the biases that `lora` asks for. Adapters come out of the file beside adapter_config.json, else are
// drawn by `seed`; of half-precision layers they are float32. UsageError when no layer is a target, or a
// module of another kind is one; when a weight of the file is missing, has another shape, or is of no layer here.
void add_lora(program::Program& program, const config::Lora& lora, int64_t seed);

}  // namespace memtune::frontend
