// Attention of one layer: projections, norms of queries and keys, rotary embedding, sdpa, the projection out.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/frontend/transformers/parts.h"

namespace memtune::frontend {

// `turn`: cosine and sine; none for layers that do not turn.
Value write_attention(Parts& parts, Value x, const std::string& path,
                      const std::optional<std::pair<Value, Value>>& turn);

}  // namespace memtune::frontend
