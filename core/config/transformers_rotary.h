// The rotary embedding as a config.json of transformers describes it: "rope_parameters", as it is written since 5.0, or
// "rope_scaling" and fields of the config.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/transformers_fields.h"

namespace memtune::config {

enum class RotaryKind { plain, linear, llama3, dynamic, yarn, longrope };

struct Rotary {
  std::string name;  // of the table where a model has two: the type of its layers
  RotaryKind kind = RotaryKind::plain;
  double theta = 0;
  double factor = 1;                             // but for plain
  double low_frequency = 1, high_frequency = 1;  // llama3: factors
  double trained_positions = 0;                  // llama3, yarn, longrope
  double fast = 32, slow = 1;                    // yarn: turns
  bool whole_numbers = true;                     // yarn: rounds where its ramp begins and ends
  std::vector<double> factors;                   // longrope: one for each pair that turns
  double scale = 1;                              // of cosine and sine
  int64_t width = 0;                             // of a head, that turns
  int64_t longest = 0;                           // sequence that this is right for; 0: any
};

// One table, or one for each type of layers. UsageError as parse_transformers_config().
std::vector<Rotary> read_rotary(TransformersFields& fields, int64_t head_width);

}  // namespace memtune::config
