// The loss of a training step, emitted after the model of any front end.
#pragma once

#include <string>

#include "core/base/loss_implementation.h"
#include "core/model/program/program.h"

namespace memtune::frontend {

enum class LossKind { none, next_token, causal_lm, cross_entropy, mse, returned };
LossKind parse_loss(const std::string& text);  // throws UsageError with the valid names
std::string to_string(LossKind loss);
inline bool is_of_tokens(LossKind loss) { return loss == LossKind::next_token || loss == LossKind::causal_lm; }

// Returns the model followed by the loss (none: by its whole output), with numbered ops and known last uses: ready to
// run. `target`: the input that the loss compares with, one of the model's or a new last input. `output`: the part of
// the output to compare (answer.h). Unless `how` is plain, the loss replaces the model's output layer (output_layer.h);
// throws UsageError if it cannot.
program::Program with_loss(program::Program model, LossKind loss, const std::string& target,
                           const std::string& output = "", const LossImplementation& how = {});

}  // namespace memtune::frontend
