// Error messages for a model that cannot run its inputs.
#pragma once

#include <exception>
#include <string>

#include "core/base/error.h"
#include "core/model/frontend/inputs.h"

namespace memtune::frontend {

// Returns "the model rejects x:float32[8,3]: WHY (aten::linear at model.py:12)" and other possible causes: a guessed
// input, or a dtype or sizes that a trace has fixed. `where` may be empty.
UsageError rejection(const plan::TrainingSettings& training, const std::string& kind, const TrainingBatch& batch,
                     const std::exception& error, const std::string& where);

// Call while handling an exception of a model's run. Throws a rejection for errors of the model. Rethrows others
// unchanged: out of memory, and memtune's own errors.
[[noreturn]] void rethrow_as_rejection(const plan::TrainingSettings& training, const std::string& kind,
                                       const TrainingBatch& batch, const std::string& where);

}  // namespace memtune::frontend
