// Attention of one layer: projections, norms of queries and keys, rotary embedding, sdpa, eager or flash-varlen
// attention, the projection out.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/frontend/transformers/parts.h"

namespace memtune::frontend {

// What queries see.
struct Seen {
  std::optional<Value> mask;  // attention_mask.h; nothing where that is all before them
  std::optional<Value> ends;  // int32 [documents + 1], where documents of all rows one behind the other begin, and the
                              // end: of flash-varlen, which takes no mask
  int64_t window = 0;         // of flash-varlen; 0: none
};

// `turn`: cosine and sine; none for layers that do not turn.
Value write_attention(Parts& parts, Value x, const std::string& path,
                      const std::optional<std::pair<Value, Value>>& turn, const Seen& seen);

}  // namespace memtune::frontend
