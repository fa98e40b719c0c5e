// Strategies in the words of trainers: which keys, and what gets lost on the way.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace memtune::trainer {

// What of a strategy a trainer can have keys for: one part, of joined ones the first that checkpoints.
struct Spec {
  std::string name;                               // "checkpoint:every", "offload:stream", "none"
  int64_t every = 1;                              // checkpoint:every=n
  std::map<std::string, std::string> parameters;  // "inputs" -> "host"
  std::vector<Spec> joined = {};                  // the other parts
  std::string text = {};                          // of this part, as written

  bool is_offload() const { return name.starts_with("offload:"); }
  // An offload part beside a checkpoint comes nearest to moving the inputs.
  bool moves_inputs() const;
  const std::string& value(const std::string& parameter) const;  // "" when it is not given
};

Spec parse_spec(const std::string& text);  // UsageError when a number is none

struct Config {
  std::vector<std::string> keys;   // lines of YAML
  std::vector<std::string> notes;  // what was rounded, and what the person must see to
  std::string nearest = {};        // the strategy that the keys amount to, when it is another one
};

// Keys that torchtune 0.6.1's recipes and axolotl 0.19.0's loaders really act on, for the strategies of core/plan.
Config torchtune_config(const Spec& spec);
Config axolotl_config(const Spec& spec);

}  // namespace memtune::trainer
