// Words for training settings in flags and files. For dtypes see plan::canonical_dtype() in trial_request.h.
#pragma once

#include <string>
#include <vector>

namespace memtune {

// In the order of frontend::LossKind after none.
inline const std::vector<std::string> kLosses = {"next_token", "causal_lm", "cross_entropy", "mse",    "returned",
                                                 "dpo",        "kto",       "grpo",          "reward", "embedding"};
// Prefixes of the inputs of --loss embedding: anchor_input_ids.
inline const std::vector<std::string> kPairColumns = {"anchor", "positive"};
inline const std::vector<std::string> kOptimizers = {
    "adamw", "adamw_8bit", "adamw_32bit", "paged_adamw_32bit", "paged_adamw_8bit", "adafactor", "sgd"};
// Parts of training that the settings of a trainer change only if --allow names them.
inline const std::vector<std::string> kMayChange = {"optimizer"};
// In the order of frontend::Attention.
inline const std::vector<std::string> kAttentions = {"sdpa", "eager", "flash-varlen"};
inline const std::vector<std::string> kParameterDtypes = {"float32", "float64", "float16", "bfloat16"};
inline const std::vector<std::string> kSaveModes = {"sync", "async", "overlapped"};
inline const std::vector<std::string> kQuantizations = {"4bit", "4bit-single", "8bit"};
inline const std::vector<std::string> kReshard = {"always", "after-backward",
                                                  "never"};  // order of schedule::ReshardPolicy
inline const std::vector<std::string> kAutocastDtypes = {"bfloat16", "float16"};

}  // namespace memtune
