// Strategies in the words of trainers: which keys, and what gets lost on the way.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace memtune::report {

// The parts of a strategy that a trainer can have keys for.
struct Spec {
  std::string name;                               // "checkpoint:every", "offload:stream", "none"
  int64_t every = 1;                              // checkpoint:every=n
  std::map<std::string, std::string> parameters;  // "inputs" -> "host"

  bool is_offload() const { return name.starts_with("offload:"); }
  bool moves_inputs() const {
    auto found = parameters.find("inputs");
    return found != parameters.end() && found->second == "host";
  }
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

}  // namespace memtune::report
