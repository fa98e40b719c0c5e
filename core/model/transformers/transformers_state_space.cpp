#include "core/model/transformers/transformers_state_space.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace memtune::model {
namespace {

double step_limit(ConfigFieldReader& fields, const nlohmann::json& limit) {
  if (limit.is_number()) return limit.get<double>();
  if (limit.is_object() && limit.value("__float__", nlohmann::json()) == "Infinity")
    return std::numeric_limits<double>::infinity();
  fields.refuse("time_step_limit", "must be two numbers, of which the second may be Infinity");
}

}  // namespace

StateSpaceConfig read_state_space(ConfigFieldReader& fields, const TransformersConfig& config) {
  StateSpaceConfig space;
  space.state = fields.size("state_size", 100000);
  space.groups = fields.size("n_groups", 100000);
  space.chunk = fields.size("chunk_size", 1 << 20);
  space.kernel = fields.size("conv_kernel", 1000);
  space.convolution_bias = fields.chosen({"use_conv_bias", true});
  space.residual_in_float = fields.chosen({"residual_in_fp32", true});
  if (config.heads % space.groups != 0)
    fields.refuse("n_groups",
                  std::to_string(space.groups) + " does not divide num_heads, " + std::to_string(config.heads));
  double expand = 2;
  fields.object().read("expand", expand);
  if (static_cast<double>(config.hidden) * expand != static_cast<double>(config.heads * config.head_width))
    fields.refuse("expand", "times hidden_size must be num_heads times head_dim, " +
                                std::to_string(config.heads * config.head_width));
  const nlohmann::json& limits = fields.object().array("time_step_limit");
  space.most_step = std::numeric_limits<double>::infinity();
  if (!limits.empty() && limits.size() != 2) fields.refuse("time_step_limit", "must be two numbers");
  if (limits.size() == 2) {
    space.least_step = step_limit(fields, limits[0]);
    space.most_step = step_limit(fields, limits[1]);
  }
  return space;
}

std::string with_infinity_as_object(std::string_view text) {
  constexpr std::string_view kWord = "Infinity";
  std::string result;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted && text[i] == '\\') result += text[i++];  // what it escapes is no quote
    if (i == text.size()) break;
    if (!quoted && text.substr(i).starts_with(kWord) && (i == 0 || text[i - 1] != '-')) {
      result += R"({"__float__": "Infinity"})";
      i += kWord.size() - 1;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace memtune::model
