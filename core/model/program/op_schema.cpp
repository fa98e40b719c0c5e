#include "core/model/program/op_schema.h"

#include <algorithm>

namespace memtune::program {
namespace {

using plan::OpClass;

bool holds_tensors(const c10::TypePtr& type) {
  if (type->isSubtypeOf(*c10::TensorType::get())) return true;
  const auto inner = type->containedTypes();
  return std::any_of(inner.begin(), inner.end(), holds_tensors);
}

// True if the op neither returns nor writes tensors: "aten::mul" of two numbers, say.
bool knows_no_tensors(const c10::FunctionSchema& schema) {
  const auto tensor = [](const c10::Argument& argument) { return holds_tensors(argument.type()); };
  const auto written = [&](const c10::Argument& argument) {
    return argument.alias_info() && argument.alias_info()->isWrite() && tensor(argument);
  };
  const auto &arguments = schema.arguments(), &results = schema.returns();
  return !schema.is_varret() && std::none_of(results.begin(), results.end(), tensor) &&
         std::none_of(arguments.begin(), arguments.end(), written);
}

bool only_views(const c10::FunctionSchema& schema) {
  const auto& results = schema.returns();
  return !results.empty() && std::all_of(results.begin(), results.end(), [](const c10::Argument& result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  });
}

OpClass by_schema(const c10::FunctionSchema& schema, const std::optional<c10::OperatorHandle>& handle) {
  const auto has = [&](at::Tag tag) { return handle && handle->hasTag(tag); };
  if (has(at::Tag::pointwise)) return OpClass::elementwise;
  if (has(at::Tag::reduction)) return OpClass::reduction;
  if (has(at::Tag::view_copy)) return OpClass::copy;
  return only_views(schema) ? OpClass::view : OpClass::unknown;
}

void describe_aliases(Op& op, const c10::FunctionSchema& schema) {
  const auto& results = schema.returns();
  op.returns_alias =
      std::any_of(results.begin(), results.end(), [](const c10::Argument& result) { return result.alias_info(); });
  for (const c10::Argument& argument : schema.arguments())
    op.writes.push_back(argument.alias_info() && argument.alias_info()->isWrite());
  const bool in_place = std::find(op.writes.begin(), op.writes.end(), true) != op.writes.end();
  for (size_t i = 0; i < op.writes.size(); ++i)  // in-place op: the written argument; view: the viewed one
    op.may_alias_outputs.push_back(op.returns_alias && schema.arguments()[i].alias_info() &&
                                   (!in_place || op.writes[i]));
}

}  // namespace

void describe(Op& op, const c10::FunctionSchema& schema) {
  op.vararg = schema.is_vararg();
  describe_aliases(op, schema);
  const plan::OperatorClassAndArgumentRoles& traits = plan::traits_of(op.name);
  op.op_class = traits.op_class == OpClass::unknown ? by_schema(schema, op.handle) : traits.op_class;
  if (knows_no_tensors(schema) && traits.op_class != OpClass::collective) op.op_class = OpClass::host;
  op.random = traits.random || (op.handle && op.handle->hasTag(at::Tag::nondeterministic_seeded));
  op.updates_statistics = traits.updates_statistics;
}

}  // namespace memtune::program
