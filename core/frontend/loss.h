// What the training step does with the model's answer; written by the emitter behind every form of model.
#pragma once

#include <string>

#include "core/config/loss_implementation.h"
#include "core/program/program.h"

namespace memtune::frontend {

enum class Loss { none, next_token, causal_lm, cross_entropy, mse, returned };
Loss parse_loss(const std::string& text);  // UsageError with the valid names
std::string to_string(Loss loss);
inline bool is_of_tokens(Loss loss) { return loss == Loss::next_token || loss == Loss::causal_lm; }

// The model followed by the loss (none: by its whole answer), with ops numbered and last uses known: ready to run.
// `target` names the input the loss compares with: one of the model's, or a further one that becomes the program's last
// input. `output` names what of the answer is compared (answer.h).
// Where `how` is not plain, the loss takes the model's output layer over (output_layer.h): UsageError where it cannot.
program::Program with_loss(program::Program model, Loss loss, const std::string& target, const std::string& output = "",
                           const config::LossImplementation& how = {});

}  // namespace memtune::frontend
