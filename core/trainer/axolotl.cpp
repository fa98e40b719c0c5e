#include <algorithm>

#include "core/base/text.h"
#include "core/trainer/config.h"

namespace memtune::trainer {
namespace {

using config::Parameter;
using config::Strategy;
using config::StrategyKind;

// What axolotl has to keep for one name of memtune's list: it looks below autograd, where linear is mm or addmm.
std::vector<std::string> ops_for(const std::string& name) {
  const std::string bare = name.starts_with("aten::") ? name.substr(6) : name;
  if (bare == "attention" || bare == "scaled_dot_product_attention") return {"attention"};
  if (bare == "matmul" || bare == "matmul-all" || bare == "linear") return {"\"aten::mm\"", "\"aten::addmm\""};
  return {"\"aten::" + bare + "\""};
}

std::string save_list(const std::vector<std::string>& names) {
  std::vector<std::string> ops;
  for (const std::string& name : names)
    for (const std::string& op : ops_for(name))
      if (std::ranges::count(ops, op) == 0) ops.push_back(op);
  return "[" + join(ops, ", ") + "]";
}

Config keys(const std::string& offloading, const std::string& kwargs) {
  return {{"gradient_checkpointing: true", "gradient_checkpointing_kwargs:", "  use_reentrant: false" + kwargs,
           "activation_offloading: " + offloading, "selective_checkpointing: false"},
          {}};
}

Config checkpoint(const Wanted& wanted) {
  return keys(wanted.moves_inputs() ? "hidden_states" : "false",
              wanted.every_nth() ? "\n  every_n_layers: " + std::to_string(wanted.part.every()) : "");
}

Config selective(const Wanted& wanted) {
  const std::vector<std::string>& names = wanted.part.names(Parameter::save);
  const std::string list = save_list(names);
  Config config = checkpoint(wanted);
  config.keys.back() = "selective_checkpointing:";
  config.keys.push_back("  save: " + list);
  if (std::ranges::count(names, "matmul") > 0)
    config.notes.push_back("axolotl keeps every matmul where memtune recomputes each second one: expect a higher peak");
  if (list.find("aten::mm") != std::string::npos)
    config.notes.push_back("with a LoRA or QLoRA adapter axolotl refuses to keep matmuls: leave [attention]");
  return config;
}

// Lists of ops are the nearest to a choice by cost: what matmuls and attention made stays.
Config by_cost(const Wanted& wanted) {
  const Strategy op = Strategy(wanted.part)
                          .with(StrategyKind::checkpoint_cheap, StrategyKind::checkpoint_op)
                          .with(Parameter::save, "matmul-all+attention");
  const Wanted instead(op.parts().front(), wanted.joined);
  Config config = selective(instead);
  config.nearest = without_losses(instead);
  config.notes.push_back("axolotl chooses by the names of ops, not by their cost");
  return config;
}

Config offload(const Wanted& wanted) {
  const bool sync = wanted.is(StrategyKind::offload_sync);
  Config config = keys(sync ? "legacy" : "true", "");
  config.nearest = Strategy::parse("checkpoint:full,inputs=host");
  config.notes.push_back(
      "in a full fine-tune axolotl recomputes every block as well, so only what checkpointing keeps is moved");
  if (sync) config.notes.push_back("legacy is its engine without streams: no copy is hidden");
  note_fixed_settings(wanted, "axolotl moves values from 1 KiB on, holds five, fetches none ahead", config);
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

}  // namespace

const Trainer& axolotl() {
  static constexpr Trainer kTrainer = {"axolotl", "0.19.0", config, "micro_batch_size", "sequence_len", ""};
  return kTrainer;
}

}  // namespace memtune::trainer
