// The loss of a training step, emitted after the model of any front end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/loss_implementation.h"
#include "core/model/program/program.h"

namespace memtune::frontend {

enum class LossKind { none, next_token, causal_lm, cross_entropy, mse, returned, dpo, kto, grpo, reward, embedding };
LossKind parse_loss(const std::string& text);  // throws UsageError with the valid names
std::string to_string(LossKind loss);
inline bool is_of_tokens(LossKind loss) { return loss == LossKind::next_token || loss == LossKind::causal_lm; }
inline bool is_of_completions(LossKind loss) {
  return loss == LossKind::dpo || loss == LossKind::kto || loss == LossKind::grpo;
}

// Whether the loss's trainer trains without the model's dropout, by default.
inline bool disables_dropout(LossKind loss) {
  return loss == LossKind::dpo || loss == LossKind::kto || loss == LossKind::reward;
}

// Rows of the batch that make one sample: for dpo and reward a chosen and a rejected one. All chosen rows come first.
inline int64_t rows_of_sample(LossKind loss) { return loss == LossKind::dpo || loss == LossKind::reward ? 2 : 1; }

// Inputs that the loss reads beside the target, in order. For dpo, with TRL's names:
//   completion_mask int64 [rows, length]: 1 for tokens of the completion
//   ref_chosen_logps, ref_rejected_logps float32 [rows / 2]: log probabilities of the reference model, summed
// For kto:
//   completion_mask; label bool [rows]: whether the completion is desirable
//   KL_input_ids, KL_attention_mask (optional), KL_completion_mask int64 [rows, any length]: the same prompts with
//   completions of other rows
//   ref_logps, ref_KL_logps float32 [rows]: log probabilities of the reference model, summed
// For grpo, where completions are the last tokens of each row:
//   completion_mask int64 [rows, longest completion]: 0 for padding
//   advantages float32 [rows]; num_items_in_batch int64 []: tokens of completions in a step
//   old_per_token_logps (optional) float32, shape of completion_mask: log probabilities when they were generated
// For reward, with TRL's name:
//   margin float32 [rows / 2], may be missing: by how much the chosen row's score is to exceed that of the rejected one
std::vector<std::string> other_inputs(LossKind loss);
inline constexpr char kTokensOfKl[] = "KL_input_ids";
inline constexpr char kPaddingOfKl[] = "KL_attention_mask", kOldLogProbs[] = "old_per_token_logps";  // optional

// Returns the model followed by the loss (none: by its whole output), with numbered ops and known last uses: ready to
// run. `target`: the input that the loss compares with, one of the model's or a new last input. `output`: the part of
// the output to compare (answer.h). For embedding the model runs in columns (columns.h) and has no target. Unless `how`
// is plain, the loss replaces the model's output layer (extracted_output_layer.h); throws UsageError if it cannot. dpo,
// kto and grpo always replace it, and their target is the input of tokens.
program::Program with_loss(program::Program model, LossKind loss, const std::string& target,
                           const std::string& output = "", const LossImplementation& how = {});

}  // namespace memtune::frontend
