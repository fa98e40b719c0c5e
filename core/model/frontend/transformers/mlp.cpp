#include "core/model/frontend/transformers/mlp.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

namespace memtune::frontend {

using model::MlpKind;

namespace {

// Cuts off all but the largest numbers of each token, as if they were normally distributed.
Value sparse(DecoderOpEmitter& parts, Value x, double part) {
  ProgramEmitter& emit = parts.emit();
  const at::Tensor share = at::scalar_tensor(part, at::kFloat);
  const at::Tensor deviations = at::erfinv(2 * share - 1) * std::sqrt(2.0);
  const at::ScalarType type = parts.setting().autocast.value_or(parts.dtype());
  const Value limit = emit.constant(deviations.to(type).to(parts.device()));
  const Value mean = emit.op("aten::mean", "dim", {x, std::vector<int64_t>{-1}, true});
  const Value deviation = emit.op("aten::std", "dim", {x, std::vector<int64_t>{-1}, false, true});
  const Value least = parts.plus(mean, parts.multiply(deviation, limit));
  return emit.op("aten::relu", "", {emit.op("aten::sub", "Tensor", {x, least})});
}

}  // namespace

Value write_mlp(DecoderOpEmitter& parts, Value x, const std::string& path, int64_t width) {
  const model::TransformersConfig& config = parts.config();
  const model::TransformersFamilyConventions& family = parts.family();
  ProgramEmitter& emit = parts.emit();
  std::optional<ProgramEmitter::InRegion> region;
  if (!family.modules.mlp.empty()) region.emplace(emit, path, parts.type("MLP"));
  const auto up = [&](const std::string& name, int64_t out) {
    return parts.linear(x, path + "." + name, config.hidden, out, config.mlp_bias);
  };
  const auto down = [&](Value y) {
    const std::string name = path + "." + std::string(family.modules.down);
    return parts.dropped(parts.linear(y, name, width, config.hidden, config.mlp_bias), config.mlp_output_dropout);
  };
  if (family.mlp == MlpKind::plain) {
    const Value wide = up(std::string(family.modules.up), width);
    return down(parts.activated(wide, path + ".act_fn"));
  }
  if (family.mlp == MlpKind::gated_joined) {
    const Value both = up(std::string(family.modules.gate_and_up), 2 * width);
    const Values two = emit.unpack_list(emit.op("aten::chunk", "", {both, 2, -1}), 2);
    return down(parts.multiply(two[1], parts.activated(two[0])));
  }
  Value gate = up(std::string(family.modules.gate), width);
  if (config.sparsity > 0) gate = sparse(parts, gate, config.sparsity);
  gate = parts.activated(gate);
  return down(parts.multiply(gate, up(std::string(family.modules.up), width)));
}

}  // namespace memtune::frontend
