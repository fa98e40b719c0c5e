// Which keys each query sees, as transformers' masking_utils makes it: those before it, in its window, in
// its document, no padding.
#pragma once

#include <map>
#include <optional>

#include "core/frontend/transformers/parts.h"

namespace memtune::frontend {

class AttentionMasks {
 public:
  // `documents`: positions [1, length] that begin anew with each document of a packed row; nothing where none is.
  // `padding`: attention_mask [batch, length], 0 where nothing is; the same.
  AttentionMasks(Parts& parts, const std::optional<Value>& documents, const std::optional<Value>& padding);

  // Of layers with that window (0: none), made when it is first asked for: true where a query sees a key, or for eager
  // attention 0 there and the dtype's least number elsewhere. Nothing where sdpa's own causal mask is all.
  std::optional<Value> of(int64_t window);

 private:
  Value seen(int64_t window);
  Value same_document();
  Value no_padding();

  Parts& parts_;
  Emitter& emit_;
  std::optional<Value> documents_, padding_;
  std::map<int64_t, std::optional<Value>> masks_;
};

}  // namespace memtune::frontend
