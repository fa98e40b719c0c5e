#include "core/model/frontend/torchscript/refused_ops_scope.h"

#include "core/model/source/outside_ops.h"

namespace memtune::frontend {

namespace jit = torch::jit;

RefusedOpsScope::RefusedOpsScope() {
  for (const auto& op : jit::getAllOperators())
    if (model::reaches_outside(op->schema().name())) operators_.push_back(*op);
  for (const jit::Operator& op : operators_) jit::deregisterOperator(op.schema());
}

RefusedOpsScope::~RefusedOpsScope() {
  for (jit::Operator& op : operators_) jit::registerOperator(std::move(op));
}

std::string RefusedOpsScope::named_in(const std::string& message) {
  const std::string key = "Unknown builtin op: ";
  const size_t found = message.find(key);
  if (found == std::string::npos) return "";
  const size_t begin = found + key.size();
  std::string op = message.substr(begin, message.find_first_of(". \n", begin) - begin);
  return model::reaches_outside(op) ? op : "";
}

}  // namespace memtune::frontend
