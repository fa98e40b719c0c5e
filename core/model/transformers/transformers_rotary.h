// Rotary embedding in a config.json of transformers: "rope_parameters" since 5.0, before that "rope_scaling" and
// further fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/transformers/config_field_reader.h"

namespace memtune::model {

enum class RotaryScalingKind { plain, linear, llama3, dynamic, yarn, longrope, proportional };

struct RotaryConfig {
  std::string name;  // layer type, if a model has two tables
  RotaryScalingKind kind = RotaryScalingKind::plain;
  double theta = 0;
  double factor = 1;                             // not for plain
  double low_frequency = 1, high_frequency = 1;  // llama3: factors
  double trained_positions = 0;                  // llama3, yarn, longrope
  double fast = 32, slow = 1;                    // yarn: beta_fast and beta_slow, in rotations
  bool whole_numbers = true;                     // yarn: rounds the bounds of its ramp
  std::vector<double> factors;                   // longrope: one per rotated pair
  double scale = 1;                              // factor of cosine and sine
  double score_scale = 1;                        // yarn: latent attention multiplies its scores by the square
  int64_t width = 0;                             // rotated part of a head
  int64_t turned_pairs = 0;                      // proportional: the others have a frequency of 0
  int64_t longest = 0;                           // longest valid sequence; 0: unlimited
};

// One table, or one per layer type. Throws UsageError like parse_transformers_config().
// `full_width`: of heads in layers without a window.
std::vector<RotaryConfig> read_rotary(ConfigFieldReader& fields, int64_t head_width, int64_t full_width);

}  // namespace memtune::model
