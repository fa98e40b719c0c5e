#include "core/program/op_class.h"

#include <algorithm>

namespace memtune::program {
namespace {

using config::OpClass;

bool holds_tensors(const c10::TypePtr& type) {
  if (type->isSubtypeOf(*c10::TensorType::get())) return true;
  const auto inner = type->containedTypes();
  return std::any_of(inner.begin(), inner.end(), holds_tensors);
}

bool makes_tensors(const c10::FunctionSchema& schema) {
  const auto& results = schema.returns();
  return schema.is_varret() || std::any_of(results.begin(), results.end(),
                                           [](const c10::Argument& result) { return holds_tensors(result.type()); });
}

bool only_views(const c10::FunctionSchema& schema) {
  const auto& results = schema.returns();
  return std::all_of(results.begin(), results.end(), [](const c10::Argument& result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  });
}

OpClass by_schema(const c10::FunctionSchema& schema, const std::optional<c10::OperatorHandle>& handle) {
  const auto has = [&](at::Tag tag) { return handle && handle->hasTag(tag); };
  if (has(at::Tag::pointwise)) return OpClass::elementwise;
  if (has(at::Tag::reduction)) return OpClass::reduction;
  if (has(at::Tag::view_copy)) return OpClass::copy;
  if (!makes_tensors(schema)) return OpClass::host;
  return only_views(schema) ? OpClass::view : OpClass::unknown;
}

}  // namespace

void classify(Op& op, const c10::FunctionSchema& schema) {
  const config::OpTraits& traits = config::traits_of(op.name);
  op.op_class = traits.op_class == OpClass::unknown ? by_schema(schema, op.handle) : traits.op_class;
  op.random = traits.random || (op.handle && op.handle->hasTag(at::Tag::nondeterministic_seeded));
  op.moves_statistics = traits.moves_statistics;
}

}  // namespace memtune::program
