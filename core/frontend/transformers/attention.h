// Attention of one layer: projections, norms of queries and keys, rotary embedding, sdpa or eager
// attention, the projection out.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/frontend/transformers/parts.h"

namespace memtune::frontend {

// `turn`: cosine and sine; none for layers that do not turn. `mask`: what queries see (attention_mask.h); nothing where
// that is all before them.
Value write_attention(Parts& parts, Value x, const std::string& path,
                      const std::optional<std::pair<Value, Value>>& turn, const std::optional<Value>& mask);

}  // namespace memtune::frontend
