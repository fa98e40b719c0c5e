#include "core/answer/report/oom_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/answer/report/memory_lines.h"
#include "core/answer/result/oom_cause.h"
#include "core/answer/result/oom_remedy.h"
#include "core/base/bytes.h"
#include "core/base/text.h"

namespace memtune::report {
namespace {

using result::OomCause;
using result::OutOfMemoryBreakdown;

std::string batch_text(const result::OomBatchRowsAndTokens& batch) {
  return std::to_string(result::amount(batch)) + (batch.positions > 0 ? " positions" : " rows");
}

std::string pieces_text(const OutOfMemoryBreakdown& oom) {
  return format_bytes(oom.reserved_bytes - oom.allocated_bytes);
}

// The largest one.
std::string untrained_model(const OutOfMemoryBreakdown& oom) {
  const auto found = std::ranges::find_if(
      oom.models, [](const result::OomLoadedModel& model) { return model.with_gradients && !model.trained; });
  return found == oom.models.end() ? "" : found->name;
}

std::string cause_text(OomCause cause, const OutOfMemoryBreakdown& oom) {
  switch (cause) {
    case OomCause::other_process:
      return "other processes hold " + format_bytes(oom.other_processes_bytes.value_or(0)) + " of the device";
    case OomCause::fragmentation: return pieces_text(oom) + " of what PyTorch reserved was free, in pieces";
    case OomCause::loaded_twice:
      return "two copies of the same model are on the device, and one of them is not trained";
    case OomCause::untrained_with_gradients:
      return "a model that is not trained (" + untrained_model(oom) + ") kept activations for a backward";
    case OomCause::evaluation_with_gradients:
      if (!oom.evaluating)
        return "the model ran " + std::to_string(oom.runs) +
               " times since the last backward, and kept activations each time";
      return "the model ran in evaluation mode, and kept activations for a backward that does not come";
    case OomCause::kept_outputs:
      return "after each batch of an evaluation more is held: " + format_bytes(oom.held_before_runs.front()) +
             " at first, " + format_bytes(oom.held_before_runs.back()) + " in the end";
    case OomCause::evaluation_batch: return "an evaluation or generation without gradients took more than the training";
    case OomCause::leak:
      return "after each step more is held: " + format_bytes(oom.held_after_steps.front()) + " at first, " +
             format_bytes(oom.held_after_steps.back()) + " after step " + std::to_string(oom.step - 1);
    case OomCause::first_update: return "the optimizer allocated its states in its first step";
    case OomCause::longer_batch:
      return "the batch of step " + std::to_string(oom.step) + " has " + batch_text(oom.batch) +
             ", the largest before it had " + batch_text(oom.largest_batch);
    case OomCause::loss: return "logits and the loss computed of them take " + format_bytes(result::loss_bytes(oom));
    case OomCause::attention:
      return "attention keeps the scores of every pair of positions: " + format_bytes(result::attention_bytes(oom));
    case OomCause::kept_tensors:
      return "tensors that belong to no model and no optimizer take " + format_bytes(result::kept_bytes(oom)) +
             ", and were there before the model ran";
    case OomCause::states: return "parameters, gradients and optimizer states leave too little for a step";
    case OomCause::activations: return "the activations of the batch do not fit beside the model";
  }
  return "";
}

std::string phase_text(const OutOfMemoryBreakdown& oom) {
  switch (oom.phase) {
    case result::PeakMemoryTrainingPhase::forward: return "forward";
    case result::PeakMemoryTrainingPhase::backward: return "backward";
    case result::PeakMemoryTrainingPhase::update: return "the update";
    case result::PeakMemoryTrainingPhase::no_gradients: return "a run without gradients";
    case result::PeakMemoryTrainingPhase::other: return "code beside the passes";
  }
  return "";
}

std::string request_text(const OutOfMemoryBreakdown& oom) {
  return "Step " + std::to_string(oom.step) + " asked for " + format_bytes(oom.requested_bytes) + " in " +
         phase_text(oom) + (oom.where.file.empty() ? "" : ", " + place_text(oom.where)) + ", with " +
         format_bytes(oom.allocated_bytes) + " allocated, " + format_bytes(oom.reserved_bytes) + " reserved, " +
         format_bytes(oom.free_bytes) + " free of " + format_bytes(oom.total_bytes) +
         (is_limited(oom) ? " and a limit of " + format_bytes(oom.limit_bytes) : "");
}

std::string holders_text(const OutOfMemoryBreakdown& oom) {
  const std::pair<const char*, int64_t> kinds[] = {{"parameters", oom.parameters_bytes},
                                                   {"gradients", oom.gradients_bytes},
                                                   {"optimizer states", oom.optimizer_bytes},
                                                   {"buffers", oom.buffers_bytes},
                                                   {"activations and others", oom.rest_bytes}};
  std::vector<std::string> parts;
  for (const auto& [kind, bytes] : kinds)
    if (bytes > 0) parts.push_back(std::string(kind) + " " + format_bytes(bytes));
  return join(parts, ", ");
}

}  // namespace

std::string oom_text(const OutOfMemoryBreakdown& oom) {
  const OomCause cause = cause_of(oom);
  const std::string holders = holders_text(oom), lines = oom.stacks ? lines_text(oom.lines) : "";
  return cause_text(cause, oom) + ". " + request_text(oom) + ". " +
         (holders.empty() ? "" : "Allocated: " + holders + ". ") + (lines.empty() ? "" : "Most by: " + lines + ". ") +
         "First remedy: " + join(remedies(cause, oom), "; then ") + ".";
}

}  // namespace memtune::report
