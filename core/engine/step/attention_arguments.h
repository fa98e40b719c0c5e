// The arguments of scaled_dot_product_attention on an interpreter's stack.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <utility>

#include "core/model/program/program.h"

namespace memtune::step {

struct AttentionArguments {
  at::Tensor q, k, v;
  std::optional<at::Tensor> mask;
  double dropout = 0;
  bool causal = false;
  std::optional<double> scale;
  bool grouped = false;

  static constexpr size_t kCount = 8;
  explicit AttentionArguments(const program::Stack& stack) {
    const size_t first = stack.size() - kCount;
    q = stack[first].toTensor();
    k = stack[first + 1].toTensor();
    v = stack[first + 2].toTensor();
    mask = stack[first + 3].toOptional<at::Tensor>();
    dropout = stack[first + 4].toDouble();
    causal = stack[first + 5].toBool();
    scale = stack[first + 6].toOptional<double>();
    grouped = stack[first + 7].toBool();
  }
};

// Makes all attention of the program call `kernel`. Where that returns nothing, the op runs as before.
inline void replace_attention(program::Program& program,
                              const std::function<std::optional<at::Tensor>(AttentionArguments)>& kernel) {
  for (program::Op& op : program.body.ops) {
    if (op.name != "aten::scaled_dot_product_attention" || op.inputs.size() != AttentionArguments::kCount) continue;
    op.run = [composite = op.run, kernel](program::Stack& stack) {
      const std::optional<at::Tensor> out = kernel(AttentionArguments(stack));
      if (!out) return composite(stack);
      stack.erase(stack.end() - AttentionArguments::kCount, stack.end());
      stack.emplace_back(*out);
    };
  }
}

}  // namespace memtune::step
