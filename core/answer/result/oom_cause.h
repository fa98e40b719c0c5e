// Why a training command ran out of device memory.
#pragma once

#include <string>

#include "core/record/measurement/out_of_memory_breakdown.h"

namespace memtune::result {

enum class OomCause {
  other_process,              // others hold what was asked for
  fragmentation,              // enough was free, in pieces
  loaded_twice,               // a second copy of the model, not trained
  untrained_with_gradients,   // a model that is not trained ran without torch.no_grad()
  evaluation_with_gradients,  // without torch.no_grad()
  leak,                       // more is held after each step
  kept_outputs,               // more is held after each batch of an evaluation
  evaluation_batch,           // without gradients, and still too large
  first_update,               // the optimizer allocated its states
  longer_batch,               // than any before
  loss,                       // logits and what the loss computes of them
  attention,                  // scores of every pair of positions
  kept_tensors,               // neither of a model nor of an optimizer, and there before the forward
  states,                     // parameters, gradients, optimizer states
  activations,                // anything else
};
std::string to_string(OomCause cause);

// The first in the order above whose rule holds.
OomCause cause_of(const OutOfMemoryBreakdown& oom);

// Of no known kind, and there before the model began to run: so no activations.
int64_t kept_bytes(const OutOfMemoryBreakdown& oom);

// Bytes of the lines that compute logits or a loss, and of those of attention scores, with the failed request.
int64_t loss_bytes(const OutOfMemoryBreakdown& oom);
int64_t attention_bytes(const OutOfMemoryBreakdown& oom);

// PyTorch may not take the whole device, so other processes on it do not matter.
bool is_limited(const OutOfMemoryBreakdown& oom);

// What the batch is compared by: positions, or rows if positions are not known.
int64_t amount(const OomBatchRowsAndTokens& batch);

}  // namespace memtune::result
