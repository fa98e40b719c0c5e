// Which part of a model's answer the loss takes: the one that --output names ("logits", "1", "1.scores"), else the one
// that goes with the loss. For a loss that the model returns that is the entry "loss", else the first single number, or
// the sum where a dict holds nothing but numbers; for the others "logits", "out", "output" or "last_hidden_state", else
// the first tensor of floats that is no single number.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "core/frontend/emitter.h"
#include "core/frontend/loss.h"
#include "core/program/program.h"

namespace memtune::frontend {

// Written behind the model: of a tuple whose elements are known one by one the others die when they are made, of
// anything else the part is chosen when it is there. UsageError for a name that the answer does not have, at once or
// when it runs. A choice among several is noted in `program.answer_note`.
Value chosen(Emitter& emit, program::Program& program, Loss loss, const std::string& output);

// The same of an answer that is there. UsageError that tells what the answer is.
at::Tensor choose(const c10::IValue& answer, Loss loss, const std::string& output);

}  // namespace memtune::frontend
