#include "core/model/frontend/transformers/chunks.h"

#include "core/base/error.h"
#include "core/model/frontend/pt2/host_functions.h"

namespace memtune::frontend {
namespace {

Value computed(Emitter& emit, const char* function, const Values& numbers) {
  const HostFunction* const known = find_host_function(function);
  if (!known) throw Error(std::string(function) + " is not known");
  return emit.call({function, nullptr, *known}, numbers, 1)[0];
}

}  // namespace

Value write_missing_tokens(DecoderBuilder& parts, int64_t chunk) {
  Emitter& emit = parts.emit();
  return computed(emit, "_operator.mod", {computed(emit, "_operator.neg", {parts.length()}), emit.constant(chunk)});
}

Value write_padding(DecoderBuilder& parts, Value x, const Values& sizes) {
  Emitter& emit = parts.emit();
  const Value list = emit.list(c10::ListType::ofInts(), sizes);
  return emit.op("aten::pad", "", {x, list, std::string("constant"), c10::IValue()});
}

}  // namespace memtune::frontend
