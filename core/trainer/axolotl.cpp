#include <algorithm>
#include <optional>

#include "core/base/text.h"
#include "core/trainer/config.h"
#include "core/trainer/saving.h"

namespace memtune::trainer {
namespace {

using config::Parameter;
using config::Strategy;
using config::StrategyKind;

// What axolotl keeps for a name of memtune's list: it looks below autograd, where linear is mm or addmm. `same`: it
// keeps what memtune does, no more and no less.
struct Kept {
  std::string name;  // in memtune's words: what axolotl's list amounts to
  std::vector<std::string> ops;
  bool same = false;
};

// Names that models of Hugging Face dispatch; any other would be accepted and keep nothing, or, since axolotl looks for
// parts of names, too much ("aten::add" is in "aten::addmm").
std::optional<Kept> kept_for(const std::string& name) {
  const std::string bare = name.starts_with("aten::") ? name.substr(6) : name;
  if (bare == "attention" || bare == "scaled_dot_product_attention") return Kept{"attention", {"attention"}, true};
  if (bare == "matmul" || bare == "matmul-all" || bare == "linear" || bare == "mm" || bare == "addmm")
    return Kept{"matmul-all", {"\"aten::mm\"", "\"aten::addmm\""}, bare == "matmul-all"};
  if (bare == "silu" || bare == "gelu" || bare == "bmm") return Kept{bare, {"\"aten::" + bare + "\""}, true};
  return {};
}

// A list of names as axolotl's, and what that amounts to.
struct SaveList {
  explicit SaveList(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const std::optional<Kept> kept = kept_for(name);
      if (!kept) unknown.push_back(name);
      same = same && kept && kept->same;
      if (!kept || std::ranges::count(amounts_to, kept->name) > 0) continue;
      amounts_to.push_back(kept->name);
      ops.insert(ops.end(), kept->ops.begin(), kept->ops.end());
    }
  }
  std::vector<std::string> ops, amounts_to, unknown;
  bool same = true;
};

Config keys(const std::string& offloading, const std::string& kwargs) {
  return {{"gradient_checkpointing: true", "gradient_checkpointing_kwargs:", "  use_reentrant: false" + kwargs,
           "activation_offloading: " + offloading, "selective_checkpointing: false"},
          {}};
}

Config checkpoint(const Wanted& wanted) {
  return keys(wanted.moves_inputs() ? "hidden_states" : "false",
              wanted.every_nth() ? "\n  every_n_layers: " + std::to_string(wanted.part.every()) : "");
}

std::string inputs_of(const Wanted& wanted) { return wanted.moves_inputs() ? ",inputs=host" : ""; }

Config selective(const Wanted& wanted) {
  const std::vector<std::string>& names = wanted.part.names(Parameter::save);
  const SaveList list(names);
  Config config = checkpoint(wanted);
  if (!list.ops.empty()) {
    config.keys.back() = "selective_checkpointing:";
    config.keys.push_back("  save: [" + join(list.ops, ", ") + "]");
  }
  if (!list.same)
    config.nearest = list.ops.empty() ? Strategy::parse("checkpoint:full" + inputs_of(wanted))
                                      : without_losses(wanted).with(Parameter::save, join(list.amounts_to, "+"));
  if (std::ranges::count(names, "matmul") > 0)
    config.notes.push_back("axolotl keeps every matmul where memtune recomputes each second one: expect a higher peak");
  if (!list.unknown.empty())
    config.notes.push_back(join(list.unknown, ", ") + ": no name by which axolotl finds it, so it is not kept");
  if (std::ranges::count(list.ops, "\"aten::mm\"") > 0)
    config.notes.push_back("with a LoRA or QLoRA adapter axolotl refuses to keep matmuls: leave [attention]");
  return config;
}

// Lists of ops are the nearest to a choice by cost: what matmuls and attention made stays.
Config by_cost(const Wanted& wanted) {
  const Strategy op = Strategy(wanted.part)
                          .with(StrategyKind::checkpoint_cheap, StrategyKind::checkpoint_op)
                          .with(Parameter::save, "matmul-all+attention");
  const Wanted instead(op.parts().front(), wanted.joined, wanted.blocks);
  Config config = selective(instead);
  config.nearest = without_losses(instead);
  config.notes.push_back("axolotl chooses by the names of ops, not by their cost");
  return config;
}

// Its engines are tied to checkpointing: what is left to move are the inputs of blocks.
Config offload(const Wanted& wanted) {
  const Strategy nearest = Strategy::parse("checkpoint:full,inputs=host");
  Config config = checkpoint(Wanted(nearest));
  config.nearest = nearest;
  config.notes.push_back(
      "axolotl offloads only while it recomputes every block, so only what checkpointing keeps is moved");
  note_fixed_settings(wanted, "axolotl has no settings for what it moves", config);
  return config;
}

Config lossless(const Wanted& wanted) {
  switch (wanted.part.kind()) {
    case StrategyKind::none:
      return {{"gradient_checkpointing: false", "activation_offloading: false", "selective_checkpointing: false"}, {}};
    case StrategyKind::checkpoint_full:
    case StrategyKind::checkpoint_every: return checkpoint(wanted);
    case StrategyKind::checkpoint_op: return selective(wanted);
    case StrategyKind::checkpoint_cheap: return by_cost(wanted);
    case StrategyKind::offload_sync:
    case StrategyKind::offload_stream:
    case StrategyKind::offload_group: return offload(wanted);
  }
  return {};
}

Config config(const Wanted& wanted) {
  Config config = lossless(wanted);
  note_losses(wanted, "axolotl", config);
  return config;
}

void save(const Saving& saving, Config& to) {
  put_huggingface_saving(saving, to);
  to.notes.push_back("saves_per_epoch has to go: axolotl refuses it beside save_steps");
  if (saving.keep_last == 0)
    to.notes.push_back("axolotl keeps 4 saves where save_total_limit is missing or 0, and has no word for all");
}

}  // namespace

const Trainer& axolotl() {
  static constexpr Trainer kTrainer = {
      "axolotl", "0.19.0", config, "micro_batch_size", "gradient_accumulation_steps", "sequence_len", "", 1, save};
  return kTrainer;
}

}  // namespace memtune::trainer
