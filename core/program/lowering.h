// TorchScript's un-inlined graph to a Program.
#pragma once

#include "core/program/program.h"

namespace memtune::program {

// What the training step does with the model's answer.
enum class Loss { none, next_token, cross_entropy, mse, returned };
Loss parse_loss(const std::string& text);  // UsageError with the valid names
std::string to_string(Loss loss);

// Lowers module.forward followed by the loss. Arguments of forward that take a tensor are the program's inputs, others
// keep their defaults. `target` names the input the loss compares with: one of forward's
// arguments, or a further one that becomes the program's last input ("" for none). Constants and devices that a trace
// baked in are moved to `device`. UsageError names an op that memtune cannot run, with its source line.
Program lower(const torch::jit::Module& module, Loss loss, const std::string& target, c10::Device device);

}  // namespace memtune::program
