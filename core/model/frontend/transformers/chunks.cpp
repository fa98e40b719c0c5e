#include "core/model/frontend/transformers/chunks.h"

namespace memtune::frontend {

Value write_missing_tokens(DecoderOpEmitter& parts, int64_t chunk) {
  return parts.computed("aten::remainder", parts.length(),
                        [chunk](int64_t length) { return (chunk - length % chunk) % chunk; });
}

Value write_padding(DecoderOpEmitter& parts, Value x, const Values& sizes) {
  ProgramEmitter& emit = parts.emit();
  const Value list = emit.list(c10::ListType::ofInts(), sizes);
  return emit.op("aten::pad", "", {x, list, std::string("constant"), c10::IValue()});
}

}  // namespace memtune::frontend
