// A decoder-only transformer (Llama style: RMS norm, rotary attention with grouped heads, gated MLP) as a few numbers:
// the models of profiles/models, which need no file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/trial_request.h"

namespace memtune::config {

struct DecoderProfile {
  std::string description;
  int64_t vocabulary = 0;
  int64_t hidden = 0;  // width of the residual stream
  int64_t blocks = 0;
  int64_t heads = 0;     // of queries; hidden / heads is the width of a head, even for the rotary embedding
  int64_t kv_heads = 0;  // of keys and values; divides heads
  int64_t mlp = 0;       // inner width of the MLP
  int64_t sequence = 0;
  int64_t batch = 0;
  std::string dtype;  // canonical
  std::vector<InputSpec> inputs;
  std::string loss;
};

// UsageError that starts with `name` and names field, value and rule; also for text that is no JSON.
DecoderProfile parse_decoder_profile(std::string_view name, std::string_view json);

}  // namespace memtune::config
