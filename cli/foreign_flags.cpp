#include "cli/foreign_flags.h"

#include <algorithm>

namespace memtune::cli {

const std::map<std::string, std::string>& foreign_flags() {
  static const std::map<std::string, std::string> all = {
      {"accumulate-grad-batches", "--accumulate"},
      {"accumulation-steps", "--accumulate"},
      {"activation-checkpoint", "--strategy checkpoint:full"},
      {"activation-checkpointing", "--strategy checkpoint:full"},
      {"activation-offloading", "--strategy offload:stream"},
      {"adapter", "--lora"},
      {"attn-impl", "--attention"},
      {"attn-implementation", "--attention"},
      {"batch-size", "--batch"},
      {"bf16", "--autocast bf16"},
      {"block-size", "--seq"},
      {"bs", "--batch"},
      {"checkpoint-activations", "--strategy checkpoint:full"},
      {"clip-grad", "--max-grad-norm"},
      {"clip-grad-norm", "--max-grad-norm"},
      {"context-length", "--seq"},
      {"cpu-offload", "--strategy offload:stream"},
      {"cutoff-len", "--seq"},
      {"enable-activation-checkpointing", "--strategy checkpoint:full"},
      {"enable-activation-offloading", "--strategy offload:stream"},
      {"flash-attn", "--attention sdpa"},
      {"fp16", "--autocast fp16"},
      {"gpus", "--ranks"},
      {"grad-accum", "--accumulate"},
      {"grad-accum-steps", "--accumulate"},
      {"grad-checkpointing", "--strategy checkpoint:full"},
      {"gradient-accumulation", "--accumulate"},
      {"gradient-accumulation-steps", "--accumulate"},
      {"gradient-checkpointing", "--strategy checkpoint:full"},
      {"gradient-clip-val", "--max-grad-norm"},
      {"gradient-clipping", "--max-grad-norm"},
      {"learning-rate", "--lr"},
      {"load-in-4bit", "--load-in 4bit"},
      {"load-in-8bit", "--load-in 8bit"},
      {"lora-alpha", "--lora"},
      {"lora-r", "--lora"},
      {"lora-rank", "--lora"},
      {"max-len", "--seq"},
      {"max-length", "--seq"},
      {"max-memory", "--budget"},
      {"max-seq-len", "--seq"},
      {"max-seq-length", "--seq"},
      {"mbs", "--batch"},
      {"micro-batch-size", "--batch"},
      {"model-name", "--model"},
      {"model-name-or-path", "--model"},
      {"model-path", "--model"},
      {"num-gpus", "--ranks"},
      {"num-processes", "--ranks"},
      {"optim", "--optimizer"},
      {"optimizer-name", "--optimizer"},
      {"per-device-batch-size", "--batch"},
      {"per-device-train-batch-size", "--batch"},
      {"per-gpu-train-batch-size", "--batch"},
      {"precision", "--autocast"},
      {"pretrained-model-name-or-path", "--model"},
      {"recompute", "--strategy checkpoint:full"},
      {"recompute-activations", "--strategy checkpoint:op"},
      {"recompute-granularity", "--strategy checkpoint:full"},
      {"sequence-len", "--seq"},
      {"sequence-length", "--seq"},
      {"seq-len", "--seq"},
      {"seq-length", "--seq"},
      {"torch-dtype", "--dtype"},
      {"train-batch-size", "--global-batch"},
      {"train-micro-batch-size-per-gpu", "--batch"},
      {"use-gradient-checkpointing", "--strategy checkpoint:full"},
      {"vram", "--budget"},
      {"world-size", "--ranks"}};
  return all;
}

std::string flag_for(const std::string& foreign) {
  std::string name = foreign.substr(std::min(foreign.find_first_not_of('-'), foreign.size()));
  std::ranges::replace(name, '_', '-');
  const auto known = foreign_flags().find(name);
  return known == foreign_flags().end() ? "" : known->second;
}

}  // namespace memtune::cli
