#include "core/trainer/config.h"

namespace memtune::trainer {
namespace {

using config::Strategy;
using config::StrategyKind;

Config keys(bool checkpointing, bool offloading, const std::string& ac_mode = "null") {
  const auto word = [](bool value) { return value ? "True" : "False"; };
  Config config;
  config.keys = {std::string("enable_activation_checkpointing: ") + word(checkpointing),
                 std::string("enable_activation_offloading: ") + word(offloading), "ac_mode: " + ac_mode};
  if (checkpointing)
    config.notes.push_back("ac_mode has to stay null: with it set, torchtune would checkpoint nothing");
  if (offloading)
    config.notes.push_back(
        "offloading needs device: cuda; the recipes knowledge_distillation_*, ppo_* and dev/grpo_* do not read its "
        "key");
  return config;
}

Config every_nth(const Wanted& wanted) {
  const int64_t n = wanted.part.every();
  Config config = keys(false, false, "selective");
  const std::string count = std::to_string(n);
  config.keys.push_back("ac_option: " + count);
  config.notes = {
      "ac_mode acts in the recipes full_finetune_distributed, qat_distributed and dev/early_exit_finetune_distributed "
      "only, and only while enable_activation_checkpointing is False; elsewhere nothing would be checkpointed",
      "torchtune checkpoints blocks " + count + ", " + std::to_string(2 * n) + ", ... where memtune took 1, " +
          std::to_string(n + 1) + ", ...; it does not restore the random state: with dropout the gradients are wrong"};
  if (wanted.blocks % n == 0) return config;
  config.nearest = Strategy(wanted.part);
  config.notes.push_back("of " + std::to_string(wanted.blocks) + " blocks torchtune checkpoints " +
                         std::to_string(wanted.blocks / n) + " where memtune measured " +
                         std::to_string(wanted.blocks / n + 1) + ": its peak is higher");
  return config;
}

// Why whole blocks are recomputed instead.
std::string why_rounded(const Wanted& wanted) {
  switch (wanted.part.kind()) {
    case StrategyKind::checkpoint_every: return "torchtune offloads only where it checkpoints every block";
    case StrategyKind::checkpoint_op:
      return "torchtune 0.6.1 names ac_option: op but fails on it, so whole blocks are recomputed";
    case StrategyKind::checkpoint_cheap:
      return "torchtune cannot choose what of a block is recomputed, so whole blocks are";
    default:
      return "torchtune offloads only together with checkpointing: the inputs of blocks are moved, the rest is "
             "recomputed";
  }
}

Config rounded(const Wanted& wanted) {
  const bool offloading = wanted.part.is_offload() || wanted.moves_inputs();
  Config config = keys(true, offloading);
  if (wanted.is(StrategyKind::checkpoint_full)) return config;
  if (wanted.is(StrategyKind::checkpoint_every) && !wanted.every_nth()) return config;
  config.nearest = Strategy::parse(offloading ? "checkpoint:full,inputs=host" : "checkpoint:full");
  config.notes.push_back(why_rounded(wanted));
  if (wanted.is(StrategyKind::offload_sync))
    config.notes.push_back("torchtune 0.6.1 always copies on a stream of its own");
  note_fixed_settings(wanted, "torchtune moves values from 1 KiB on, holds five, fetches none ahead", config);
  return config;
}

Config config(const Wanted& wanted) {
  Config config = wanted.is(StrategyKind::none)                  ? keys(false, false)
                  : wanted.every_nth() && !wanted.moves_inputs() ? every_nth(wanted)
                                                                 : rounded(wanted);
  note_losses(wanted, "torchtune", config);
  return config;
}

// It saves when an epoch ends, and keeps what it saved.
void save(const Saving& saving, Config& to) {
  const std::string steps = std::to_string(saving.every_steps);
  to.keys.push_back(std::string("enable_async_checkpointing: ") + (saving.mode > 0 ? "True" : "False"));
  to.notes.push_back("enable_async_checkpointing acts in the recipe full_finetune_distributed only");
  to.notes.push_back("torchtune saves at the end of an epoch, never after steps: max_steps_per_epoch: " + steps +
                     " would save every " + steps +
                     " steps, but ends each epoch there, whatever data is left; it has " +
                     "no key for how many are kept");
}

}  // namespace

const Trainer& torchtune() {
  static constexpr Trainer kTrainer = {"torchtune",
                                       "0.6.1",
                                       config,
                                       "batch_size",
                                       "gradient_accumulation_steps",
                                       "",
                                       "set max_seq_len of the tokenizer to it",
                                       2,
                                       save};
  return kTrainer;
}

}  // namespace memtune::trainer
