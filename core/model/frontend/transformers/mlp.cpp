#include "core/model/frontend/transformers/mlp.h"

#include <optional>

namespace memtune::frontend {

using model::MlpKind;

Value write_mlp(DecoderBuilder& parts, Value x, const std::string& path, int64_t width) {
  const model::TransformersConfig& config = parts.config();
  const model::TransformersFamily& family = parts.family();
  Emitter& emit = parts.emit();
  std::optional<Emitter::InRegion> region;
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
  const Value gate = parts.activated(up(std::string(family.modules.gate), width));
  return down(parts.multiply(gate, up(std::string(family.modules.up), width)));
}

}  // namespace memtune::frontend
