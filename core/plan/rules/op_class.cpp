#include "core/plan/rules/op_class.h"

namespace memtune::plan {

bool makes_values(const OpFacts& op) { return !op.name.starts_with("prim::") && !op.outputs.empty(); }
bool makes_memory(const OpFacts& op) { return makes_values(op) && !op.view && !op.in_place; }

bool is_cheap(const OpFacts& op) { return makes_values(op) && is_cheap(op.op_class) && op.flops == 0 && !op.random; }

bool is_matmul(const OpFacts& op) { return is_matmul(op.op_class); }
bool is_attention(const OpFacts& op) { return op.op_class == OpClass::attention; }
bool is_norm(const OpFacts& op) { return op.op_class == OpClass::norm; }

}  // namespace memtune::plan
