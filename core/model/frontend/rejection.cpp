#include "core/model/frontend/rejection.h"

#include <c10/util/Exception.h>

#include <new>

#include "core/base/text.h"
#include "core/model/program/first_line.h"
#include "core/model/program/interpreter.h"

namespace memtune::frontend {
namespace {

// True for errors of kernels that received tensors of two dtypes.
bool is_about_dtype(const std::string& why) {
  for (const char* word : {"dtype", "scalar type", "BFloat16", "Half", "MKLDNN"})
    if (why.find(word) != std::string::npos) return true;
  return false;
}

std::string short_dtype(const std::string& dtype) { return dtype == "bfloat16" ? "bf16" : "fp16"; }

std::string baked_in(const plan::TrainingSettings& training) {
  if (!training.dtype.empty())
    return "; the trace keeps the dtypes and casts it was recorded with: record the model in " + training.dtype +
           " (model.to(torch." + training.dtype + ") before torch.jit.trace) and leave --dtype out" +
           (training.dtype == "float32" ? "" : ", or train it under --autocast " + short_dtype(training.dtype));
  return "; the trace keeps the numbers of the dtype it was recorded in: record it under torch.autocast, or in " +
         training.autocast;
}

}  // namespace

UsageError rejection(const plan::TrainingSettings& training, const std::string& kind, const TrainingBatch& batch,
                     const std::exception& error, const std::string& where) {
  std::vector<std::string> specs;
  for (const auto& spec : batch.specs) specs.push_back(plan::to_string(spec));
  const std::string why = program::first_line(error);
  std::string text = "the model rejects " + join(specs, " ") + ": " + why + (where.empty() ? "" : " (" + where + ")");
  const bool cast = !training.dtype.empty() || !training.autocast.empty();
  if (kind == "traced" && cast && is_about_dtype(why)) text += baked_in(training);
  if (kind == "traced" && (training.batch > 0 || training.sequence > 0))
    text += "; a trace may keep the sizes it was recorded with: record it at this batch and sequence length";
  for (const std::string& guess : batch.guessed)
    text += "; " + guess + " is a guess: say what it is with --input '" + guess + "'";
  return UsageError(text);
}

void rethrow_as_rejection(const plan::TrainingSettings& training, const std::string& kind, const TrainingBatch& batch,
                          const std::string& where) try {
  throw;
} catch (const c10::OutOfMemoryError&) {
  throw;
} catch (const program::ModelRaisedError& error) {
  throw rejection(training, kind, batch, error, "");
} catch (const Error&) {
  throw;
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::exception& error) {  // LibTorch's errors, and its std::runtime_error for a number out of range
  throw rejection(training, kind, batch, error, where);
}

}  // namespace memtune::frontend
