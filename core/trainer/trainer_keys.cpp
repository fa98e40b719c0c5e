#include "core/trainer/trainer_keys.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/config/strategy_parts.h"

namespace memtune::trainer {
namespace {

// The settings of a copy engine, which the trainers fix.
void note_fixed_settings(const Spec& spec, const std::string& trainer_habit, Config& config) {
  std::vector<std::string> fixed;
  for (const auto& [name, value] : spec.parameters) fixed.push_back(name + "=" + value);
  if (spec.is_offload() && !fixed.empty()) {
    config.notes.push_back(join(fixed, ", ") + ": there are no keys for it; " + trainer_habit);
  }
}

Config torchtune_keys(bool checkpointing, bool offloading, const std::string& ac_mode = "null") {
  auto word = [](bool value) { return value ? "True" : "False"; };
  Config config;
  config.keys = {std::string("enable_activation_checkpointing: ") + word(checkpointing),
                 std::string("enable_activation_offloading: ") + word(offloading), "ac_mode: " + ac_mode};
  if (checkpointing)
    config.notes.push_back("ac_mode has to stay null: with it set, torchtune would checkpoint nothing");
  if (offloading) config.notes.push_back("offloading needs device: cuda");
  return config;
}

Config torchtune_every(int64_t n) {
  Config config = torchtune_keys(false, false, "selective");
  std::string count = std::to_string(n);
  config.keys.push_back("ac_option: " + count);
  config.notes = {
      "ac_mode acts in the recipes full_finetune_distributed and qat_distributed only, and only while "
      "enable_activation_checkpointing is False; elsewhere nothing would be checkpointed",
      "torchtune checkpoints blocks " + count + ", " + std::to_string(2 * n) + ", ... where memtune took 1, " +
          std::to_string(n + 1) + ", ...; it does not restore the random state: with dropout the gradients are wrong"};
  return config;
}

std::vector<std::string> save_list(const Spec& spec) {
  std::vector<std::string> names = split(spec.value("save").empty() ? "matmul+attention" : spec.value("save"), '+');
  for (std::string& name : names) name = trim(name);
  return names;
}

// What axolotl has to keep for one name of memtune's list: it looks below autograd, where linear is mm or addmm.
std::vector<std::string> axolotl_ops(const std::string& name) {
  std::string bare = name.starts_with("aten::") ? name.substr(6) : name;
  if (bare == "attention" || bare == "scaled_dot_product_attention") return {"attention"};
  if (bare == "matmul" || bare == "matmul-all" || bare == "linear") return {"\"aten::mm\"", "\"aten::addmm\""};
  return {"\"aten::" + bare + "\""};
}

std::string axolotl_save_list(const Spec& spec) {
  std::vector<std::string> ops;
  for (const std::string& name : save_list(spec)) {
    for (const std::string& op : axolotl_ops(name)) {
      if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
    }
  }
  return "[" + join(ops, ", ") + "]";
}

Config axolotl_op(const Spec& spec, Config config) {
  std::string list = axolotl_save_list(spec);
  std::vector<std::string> wanted = save_list(spec);
  config.keys.back() = "selective_checkpointing:";
  config.keys.push_back("  save: " + list);
  if (std::find(wanted.begin(), wanted.end(), "matmul") != wanted.end()) {
    config.notes.push_back("axolotl keeps every matmul where memtune recomputes each second one: expect a higher peak");
  }
  if (list.find("aten::mm") != std::string::npos) {
    config.notes.push_back("with a LoRA or QLoRA adapter axolotl refuses to keep matmuls: leave [attention]");
  }
  return config;
}

Config axolotl_keys(const std::string& offloading, const std::string& kwargs) {
  return {{"gradient_checkpointing: true", "gradient_checkpointing_kwargs:", "  use_reentrant: false" + kwargs,
           "activation_offloading: " + offloading, "selective_checkpointing: false"},
          {}};
}

Config axolotl_offload(const Spec& spec) {
  bool sync = spec.name == "offload:sync";
  Config config = axolotl_keys(sync ? "legacy" : "true", "");
  config.nearest = "checkpoint:full,inputs=host";
  config.notes.push_back(
      "in a full fine-tune axolotl recomputes every block as well, so only what checkpointing keeps is moved");
  if (sync) config.notes.push_back("legacy is its engine without streams: no copy is hidden");
  note_fixed_settings(spec, "axolotl moves values from 1 KiB on, holds five, fetches none ahead", config);
  return config;
}

// The strategy that checkpointing keys amount to.
std::string without_losses(const Spec& spec) {
  std::string text = spec.name == "checkpoint:every" ? spec.name + "=" + std::to_string(spec.every) : spec.name;
  if (!spec.value("save").empty()) text += ",save=" + spec.value("save");
  return text + (spec.moves_inputs() ? ",inputs=host" : "");
}

// What no trainer has keys for, in strategies that it otherwise has.
void put_losses(const Spec& spec, const std::string& trainer, Config& config) {
  const size_t before = config.notes.size();
  const std::string blocks = spec.value("blocks");
  if (!spec.is_offload() && !blocks.empty() && blocks != "all")
    config.notes.push_back("blocks=" + blocks + ": there are no keys for it; " + trainer + " treats all blocks alike");
  if (const std::string segment = spec.value("segment"); !segment.empty() && segment != "1")
    config.notes.push_back("segment=" + segment + ": " + trainer +
                           " has no nested checkpoints; every block's inputs stay");
  if (spec.value("inputs") == "disk")
    config.notes.push_back("inputs=disk: " + trainer + " has no disk that works, so they wait in host memory");
  for (const Spec& part : spec.joined)
    config.notes.push_back(part.text + ": there are no keys for it beside " + spec.name +
                           (part.is_offload() && !spec.is_offload() ? "; only the inputs of blocks are moved" : ""));
  if (config.notes.size() > before && config.nearest.empty()) config.nearest = without_losses(spec);
}

Spec parse_part(const std::string& text) {
  Spec spec;
  spec.text = trim(text);
  const std::vector<std::string> pieces = split(text, ',');
  spec.name = trim(pieces[0]);
  const std::vector<std::string> head = split(spec.name, '=');
  if (head.size() == 2 && trim(head[0]) == "checkpoint:every") {
    spec.name = "checkpoint:every";
    spec.every = parse_integer(trim(head[1]), spec.name);
  }
  for (size_t i = 1; i < pieces.size(); ++i) {
    const size_t equals = std::min(pieces[i].find('='), pieces[i].size());
    spec.parameters[trim(pieces[i].substr(0, equals))] = trim(pieces[i].substr(std::min(equals + 1, pieces[i].size())));
  }
  return spec;
}

Config torchtune_lossless(const Spec& spec) {
  if (spec.name == "none") return torchtune_keys(false, false);
  bool every = spec.name == "checkpoint:every" && spec.every > 1;
  if (every && !spec.moves_inputs()) return torchtune_every(spec.every);
  bool offloading = spec.is_offload() || spec.moves_inputs();
  Config config = torchtune_keys(true, offloading);
  if (spec.name == "checkpoint:full" || (spec.name == "checkpoint:every" && !every)) return config;
  config.nearest = offloading ? "checkpoint:full,inputs=host" : "checkpoint:full";
  if (every) {
    config.notes.push_back("torchtune offloads only where it checkpoints every block");
  } else if (spec.name == "checkpoint:op") {
    config.notes.push_back("torchtune 0.6.1 names ac_option: op but fails on it, so whole blocks are recomputed");
  } else if (spec.name == "checkpoint:cheap") {
    config.notes.push_back("torchtune cannot choose what of a block is recomputed, so whole blocks are");
  } else {
    config.notes.push_back(
        "torchtune offloads only together with checkpointing: the inputs of blocks are moved, the rest is recomputed");
  }
  if (spec.name == "offload:sync") config.notes.push_back("torchtune 0.6.1 always copies on a stream of its own");
  note_fixed_settings(spec, "torchtune moves values from 1 KiB on, holds five, fetches none ahead", config);
  return config;
}

// Lists of ops are the nearest to a choice by cost: what matmuls and attention made stays.
Config axolotl_cheap(Spec spec) {
  spec.name = "checkpoint:op";
  spec.parameters["save"] = "matmul-all+attention";
  Config config = axolotl_op(spec, axolotl_keys(spec.moves_inputs() ? "hidden_states" : "false", ""));
  config.nearest = without_losses(spec);
  config.notes.push_back("axolotl chooses by the names of ops, not by their cost");
  return config;
}

Config axolotl_lossless(const Spec& spec) {
  if (spec.name == "none") {
    return {{"gradient_checkpointing: false", "activation_offloading: false", "selective_checkpointing: false"}, {}};
  }
  if (spec.is_offload()) return axolotl_offload(spec);
  if (spec.name == "checkpoint:cheap") return axolotl_cheap(spec);
  bool every = spec.name == "checkpoint:every" && spec.every > 1;
  Config config = axolotl_keys(spec.moves_inputs() ? "hidden_states" : "false",
                               every ? "\n  every_n_layers: " + std::to_string(spec.every) : "");
  return spec.name == "checkpoint:op" ? axolotl_op(spec, config) : config;
}

}  // namespace

bool Spec::moves_inputs() const {
  const auto offloads = [](const Spec& part) { return part.is_offload(); };
  return value("inputs") == "host" || value("inputs") == "disk" ||
         (!is_offload() && std::any_of(joined.begin(), joined.end(), offloads));
}

const std::string& Spec::value(const std::string& parameter) const {
  static const std::string none;
  const auto found = parameters.find(parameter);
  return found == parameters.end() ? none : found->second;
}

Spec parse_spec(const std::string& text) {
  std::vector<Spec> parts;
  for (const std::string& part : config::split_parts(text)) parts.push_back(parse_part(part));
  const auto offloads = [](const Spec& part) { return part.is_offload(); };
  const auto chosen = std::find_if_not(parts.begin(), parts.end(), offloads);
  std::rotate(parts.begin(), chosen == parts.end() ? parts.begin() : chosen, parts.end());
  Spec spec = parts.front();
  spec.joined.assign(parts.begin() + 1, parts.end());
  return spec;
}

Config torchtune_config(const Spec& spec) {
  Config config = torchtune_lossless(spec);
  put_losses(spec, "torchtune", config);
  return config;
}

Config axolotl_config(const Spec& spec) {
  Config config = axolotl_lossless(spec);
  put_losses(spec, "axolotl", config);
  return config;
}

}  // namespace memtune::trainer
