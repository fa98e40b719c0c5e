// Chooses the part of the model's output that the loss uses: the one named by --output ("logits", "1", "1.scores"),
// else a default. If the model returns the loss: the entry "loss", the sum of a dict of numbers, or the first single
// number. For other losses: "logits", "out", "output", "last_hidden_state", or the first float tensor that is not a
// single number.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "core/model/frontend/loss.h"
#include "core/model/frontend/program_emitter.h"
#include "core/model/program/program.h"

namespace memtune::frontend {

// Emits the choice after the model. In a tuple with known elements the part is chosen now, and unused elements die when
// they are made. In any other output it is chosen at run time. Throws UsageError, now or at run time, for a name that
// the output does not have. Notes a choice among several candidates in `program.answer_note`.
Value chosen(ProgramEmitter& emit, program::Program& program, LossKind loss, const std::string& output);

// The same for an existing output. Throws UsageError, which describes the output, if no part fits.
at::Tensor choose(const c10::IValue& answer, LossKind loss, const std::string& output);

}  // namespace memtune::frontend
