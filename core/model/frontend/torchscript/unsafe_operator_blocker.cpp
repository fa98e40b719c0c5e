#include "core/model/frontend/torchscript/unsafe_operator_blocker.h"

#include "core/model/source/outside_ops.h"

namespace memtune::frontend {

namespace jit = torch::jit;

UnsafeOperatorBlocker::UnsafeOperatorBlocker() {
  for (const auto& op : jit::getAllOperators())
    if (model::reaches_outside(op->schema().name())) operators_.push_back(*op);
  for (const jit::Operator& op : operators_) jit::deregisterOperator(op.schema());
}

UnsafeOperatorBlocker::~UnsafeOperatorBlocker() {
  for (jit::Operator& op : operators_) jit::registerOperator(std::move(op));
}

std::string UnsafeOperatorBlocker::named_in(const std::string& message) {
  const std::string key = "Unknown builtin op: ";
  const size_t found = message.find(key);
  if (found == std::string::npos) return "";
  const size_t begin = found + key.size();
  std::string op = message.substr(begin, message.find_first_of(". \n", begin) - begin);
  return model::reaches_outside(op) ? op : "";
}

}  // namespace memtune::frontend
