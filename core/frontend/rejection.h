// How a model that cannot run its inputs is told.
#pragma once

#include <exception>
#include <string>

#include "core/base/error.h"
#include "core/frontend/inputs.h"

namespace memtune::frontend {

// "the model rejects x:float32[8,3]: WHY (aten::linear at model.py:12)", then what may be at fault besides: an input
// that was guessed, a dtype or sizes that a trace has baked in. `where` may be empty.
UsageError rejection(const config::TrainingSettings& training, const std::string& kind, const Batch& batch,
                     const std::exception& error, const std::string& where);

// Called while an exception of a model's run is handled: throws what it tells of the model, and lets pass what is none
// of the model's doing (memory that ran out, our own errors).
[[noreturn]] void rethrow_as_rejection(const config::TrainingSettings& training, const std::string& kind,
                                       const Batch& batch, const std::string& where);

}  // namespace memtune::frontend
