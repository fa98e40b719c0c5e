#include "core/plan/rules/op_class.h"

namespace memtune::plan {

bool makes_values(const ProgramOpFacts& op) { return !op.name.starts_with("prim::") && !op.outputs.empty(); }
bool makes_memory(const ProgramOpFacts& op) { return makes_values(op) && !op.view && !op.in_place; }

bool is_cheap(const ProgramOpFacts& op) {
  return makes_values(op) && is_cheap(op.op_class) && op.flops == 0 && !op.random;
}

bool is_matmul(const ProgramOpFacts& op) { return is_matmul(op.op_class); }
bool is_attention(const ProgramOpFacts& op) { return op.op_class == OpClass::attention; }
bool is_norm(const ProgramOpFacts& op) { return op.op_class == OpClass::norm; }

}  // namespace memtune::plan
