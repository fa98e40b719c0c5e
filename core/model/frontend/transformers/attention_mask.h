// Attention masks as in transformers' masking_utils. A query sees the keys before it that are in its window and
// document and are not padding.
#pragma once

#include <map>
#include <optional>

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

double lowest_of(at::ScalarType dtype);  // the number of least value

class PerWindowAttentionMaskEmitter {
 public:
  // `documents`: positions [1, length] that restart with each document of a packed row; nullopt: not packed. `padding`:
  // attention_mask [batch, length], 0 for padding; nullopt: no padding.
  PerWindowAttentionMaskEmitter(DecoderOpEmitter& parts, const std::optional<Value>& documents,
                                const std::optional<Value>& padding);

  // Returns the mask of layers with this window (0: none); emits it at the first call. It is true where a query sees a
  // key. For eager attention it is 0 there and the dtype's lowest number elsewhere. Returns nullopt if sdpa's own
  // causal mask suffices.
  std::optional<Value> of(int64_t window);

 private:
  Value seen(int64_t window);
  Value same_document();
  Value no_padding();

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  std::optional<Value> documents_, padding_;
  std::map<int64_t, std::optional<Value>> masks_;
};

}  // namespace memtune::frontend
