// Flags of trainers and of other tools, and what does that in memtune.
#pragma once

#include <map>
#include <string>

namespace memtune::cli {

// Names of transformers' TrainingArguments, TRL, axolotl, torchtune, LLaMA-Factory, ms-swift, Lightning, DeepSpeed,
// Megatron, torchtitan and nanoGPT, with dashes and without those in front.
const std::map<std::string, std::string>& foreign_flags();

// For "--micro-batch-size" or "--per_device_train_batch_size": "--batch". "": none is known. With a value where the
// other flag has none: for "--gradient-checkpointing" "--strategy checkpoint:full".
std::string flag_for(const std::string& foreign);

}  // namespace memtune::cli
