#include "core/plan/op_class.h"

namespace memtune::plan {

bool makes_values(const config::OpFacts& op) { return !op.name.starts_with("prim::") && !op.outputs.empty(); }
bool makes_memory(const config::OpFacts& op) { return makes_values(op) && !op.view && !op.in_place; }

bool is_cheap(const config::OpFacts& op) {
  return makes_values(op) && config::is_cheap(op.op_class) && op.flops == 0 && !op.random;
}

bool is_matmul(const config::OpFacts& op) { return config::is_matmul(op.op_class); }
bool is_attention(const config::OpFacts& op) { return op.op_class == config::OpClass::attention; }
bool is_norm(const config::OpFacts& op) { return op.op_class == config::OpClass::norm; }

std::string bare(const std::string& name) { return std::string(config::bare(name)); }

}  // namespace memtune::plan
