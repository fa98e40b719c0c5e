// Emits the attention of one layer: projections, norms of queries and keys, rotary embedding, attention (sdpa, eager or
// flash-varlen) and the output projection.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

// The keys that queries see.
struct AttentionMaskWindowAndBias {
  std::optional<Value> mask;  // attention_mask.h; nullopt: all keys before the query
  std::optional<Value> ends;  // flash-varlen: int32 [documents + 1], start of each document over all rows, and the end
  int64_t window = 0;         // flash-varlen: window size; 0: none
  std::optional<Value> bias;  // linear biases of scores
  int64_t layer = 0;          // its index
};

// Where the tokens stand.
struct TokenPositionsAndRotary {
  Value positions;                              // [1 or batch, length]
  std::optional<std::pair<Value, Value>> turn;  // cosine and sine; nullopt for layers without rotary embedding
};

// Of families with `shared_keys`: keys and values of the last layer that computed them, [batch, heads, length, width].
using KeysAndValues = std::optional<std::pair<Value, Value>>;

// `shared`: read by layers that reuse keys, set by the others; null for other families.
Value write_attention(DecoderOpEmitter& parts, Value x, const std::string& path, const TokenPositionsAndRotary& at,
                      const AttentionMaskWindowAndBias& seen, const model::PerLayerConfigOverrides* layer = nullptr,
                      KeysAndValues* shared = nullptr);

}  // namespace memtune::frontend
