#include "core/model/transformers/transformers_rotary.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace memtune::model {
namespace {

using nlohmann::json;

class RotaryReader {
 public:
  RotaryReader(ConfigFieldReader& fields, const json& scaling, const std::string& path, int64_t head_width)
      : fields_(fields), scaling_(scaling, path), head_width_(head_width) {}

  RotaryConfig read(const char* theta_field, double theta) {
    std::string kind = "default";
    scaling_.read("type", kind);
    scaling_.read("rope_type", kind);
    read_theta(theta_field, theta);
    if (kind == "proportional" && fields_.family().global_heads)
      read_proportional();
    else
      read_turned_part();
    if (kind == "mrope" && fields_.family().positions_per_row) kind = "default";  // text has one position per token
    read_kind(kind == "su" ? "longrope" : kind);
    return std::move(rotary_);
  }

 private:
  void read_theta(const char* field, double theta) {
    rotary_.theta = theta;
    fields_.object().read(field, rotary_.theta);
    const double outside = rotary_.theta;
    scaling_.read("rope_theta", rotary_.theta);
    if (fields_.has(field) && rotary_.theta != outside)
      fields_.refuse(field, "contradicts " + scaling_.path("rope_theta"));
    if (!(rotary_.theta > 0)) fields_.refuse(field, "must be more than 0");
  }

  void read_proportional() {
    double part = 1;
    scaling_.read("partial_rotary_factor", part);
    if (!(part > 0 && part <= 1))
      throw UsageError(scaling_.path("partial_rotary_factor") + " must be more than 0, up to 1");
    rotary_.kind = RotaryScalingKind::proportional;
    rotary_.width = head_width_;
    if (rotary_.width % 2 != 0) fields_.refuse("head_dim", "must be even, not " + std::to_string(rotary_.width));
    rotary_.turned_pairs = static_cast<int64_t>(part * static_cast<double>(head_width_) / 2);
    scaling_.read("factor", rotary_.factor);
    if (!(rotary_.factor > 0)) throw UsageError(scaling_.path("factor") + " must be more than 0");
  }

  void read_turned_part() {
    const TransformersFamilyConventions& family = fields_.family();
    const char* const field = family.fields.rotary_part;
    double part = family.rotary_part;
    fields_.object().read(field, part);
    scaling_.read("partial_rotary_factor", part);
    if (!(part > 0 && part <= 1)) fields_.refuse(field, "must be more than 0 and at most 1");
    if (part != 1 && !family.partial_rotary)
      fields_.refuse(field,
                     "rotary embeddings on a part of a head are not supported for " + std::string(family.model_type));
    rotary_.width = static_cast<int64_t>(static_cast<double>(head_width_) * part);
    if (rotary_.width < 2 || rotary_.width % 2 != 0)
      fields_.refuse("head_dim", "the rotary part of a head must be even, not " + std::to_string(rotary_.width));
  }

  void read_kind(const std::string& kind) {
    if (kind == "default" || rotary_.kind == RotaryScalingKind::proportional) return;
    if (fields_.family().mscales && kind != "longrope")
      throw UsageError(scaling_.path("rope_type") + ": '" + kind + "' is not supported; default and longrope are");
    if (kind == "linear") return read_linear();
    if (kind == "llama3") return read_llama3();
    if (kind == "dynamic") return read_dynamic();
    if (kind == "yarn") return read_yarn();
    if (kind == "longrope") return read_longrope();
    throw UsageError(scaling_.path("rope_type") + ": '" + kind +
                     "' is not supported; default, linear, llama3, dynamic, yarn and longrope are");
  }

  void read_factor(RotaryScalingKind kind) {
    rotary_.kind = kind;
    scaling_.require({"factor"});
    scaling_.read("factor", rotary_.factor);
    if (!(rotary_.factor >= 1)) throw UsageError(scaling_.path("factor") + " must be 1 or more");
  }

  void read_linear() { read_factor(RotaryScalingKind::linear); }

  void read_llama3() {
    read_factor(RotaryScalingKind::llama3);
    scaling_.require({"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
    scaling_.read("low_freq_factor", rotary_.low_frequency);
    scaling_.read("high_freq_factor", rotary_.high_frequency);
    scaling_.read("original_max_position_embeddings", rotary_.trained_positions);
    if (!(rotary_.low_frequency > 0 && rotary_.high_frequency > rotary_.low_frequency && rotary_.trained_positions > 0))
      throw UsageError(scaling_.path("high_freq_factor") + " must be more than low_freq_factor, and all more than 0");
  }

  // Beyond max_position_embeddings, frequencies depend on the sequence length, which is not supported.
  void read_dynamic() {
    if (fields_.family().rotary_alpha && read_alpha()) return;
    read_factor(RotaryScalingKind::dynamic);
    rotary_.longest = fields_.size("max_position_embeddings", int64_t{1} << 40);
  }

  // Returns false without one. It widens theta, whatever the length.
  bool read_alpha() {
    double alpha = 0;
    scaling_.read("alpha", alpha);
    if (alpha == 0) return false;
    if (!(alpha > 0) || rotary_.width < 4) throw UsageError(scaling_.path("alpha") + " must be more than 0");
    const auto width = static_cast<double>(rotary_.width);
    rotary_.theta *= std::pow(alpha, width / (width - 2));
    rotary_.longest = fields_.size("max_position_embeddings", int64_t{1} << 40);
    return true;
  }

  void read_yarn() {
    read_factor(RotaryScalingKind::yarn);
    read_trained_positions();
    scaling_.read("beta_fast", rotary_.fast);
    scaling_.read("beta_slow", rotary_.slow);
    scaling_.read("truncate", rotary_.whole_numbers);
    double whole = 0, all = 0;
    scaling_.read("mscale", whole);
    scaling_.read("mscale_all_dim", all);
    const auto grown = [&](double by) { return rotary_.factor <= 1 ? 1.0 : 0.1 * by * std::log(rotary_.factor) + 1.0; };
    if (all != 0) rotary_.score_scale = grown(all);
    read_scale(whole != 0 && all != 0 ? grown(whole) / grown(all) : grown(1));
    if (!(rotary_.fast > 0 && rotary_.slow > 0)) throw UsageError(scaling_.path("beta_fast") + " must be more than 0");
    if (!(rotary_.theta > 1)) throw UsageError(scaling_.path("rope_theta") + " must be more than 1");
  }

  void read_longrope() {
    rotary_.kind = RotaryScalingKind::longrope;
    read_trained_positions();
    const auto most = static_cast<double>(fields_.size("max_position_embeddings", int64_t{1} << 40));
    rotary_.factor = most / rotary_.trained_positions;
    scaling_.read("factor", rotary_.factor);
    const double factor = rotary_.factor;
    read_scale(factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(rotary_.trained_positions)));
    if (fields_.family().mscales) {
      scaling_.require({"short_mscale"});
      scaling_.read("short_mscale", rotary_.scale);
    }
    rotary_.longest = static_cast<int64_t>(rotary_.trained_positions);
    rotary_.factors = read_factors("short_factor");
  }

  void read_trained_positions() {
    const char* const field = "original_max_position_embeddings";
    int64_t positions = 0;
    fields_.object().read(field, positions, 2, int64_t{1} << 40);
    scaling_.read(field, positions, 2, int64_t{1} << 40);
    if (positions == 0) positions = fields_.size("max_position_embeddings", int64_t{1} << 40);
    rotary_.trained_positions = static_cast<double>(positions);
  }

  void read_scale(double otherwise) {
    rotary_.scale = otherwise;
    scaling_.read("attention_factor", rotary_.scale);
    if (!(rotary_.scale > 0)) throw UsageError(scaling_.path("attention_factor") + " must be more than 0");
  }

  std::vector<double> read_factors(const char* field) {
    std::vector<double> factors;
    for (const json& factor : scaling_.array(field)) {
      if (!factor.is_number() || !(factor.get<double>() >= kMinNumber && factor.get<double>() <= kMaxNumber))
        throw UsageError(scaling_.path(field) + " must be numbers of more than 0, up to 1e60");
      factors.push_back(factor.get<double>());
    }
    if (factors.size() != static_cast<size_t>(rotary_.width / 2))
      throw UsageError(scaling_.path(field) + " must have " + std::to_string(rotary_.width / 2) + " numbers, not " +
                       std::to_string(factors.size()));
    return factors;
  }

  ConfigFieldReader& fields_;
  JsonObjectReader scaling_;
  int64_t head_width_;
  RotaryConfig rotary_;
};

const json& object_or_none(const json& objects, const char* field) {
  static const json none = json::object();
  return objects.contains(field) ? objects[field] : none;
}

// Older configs have one field for layers with windows (rope_local_base_freq). For the other layers they have the
// fields of all families.
std::vector<RotaryConfig> read_by_layer_type(ConfigFieldReader& fields, int64_t head_width, int64_t full_width) {
  constexpr const char* kWindows = "sliding_attention";
  constexpr const char* kFull = "full_attention";
  const bool now = fields.has("rope_parameters");
  const json none = json::object();
  const json& tables = now ? fields["rope_parameters"] : none;
  const JsonObjectReader whole(tables, fields.name() + "." + (now ? "rope_parameters" : "rope_scaling"));
  const json& old = fields.has("rope_scaling") ? fields["rope_scaling"] : none;
  const std::string in_full = now ? whole.path(kFull) : fields.name() + ".rope_scaling";
  std::vector<RotaryConfig> result;
  result.push_back(RotaryReader(fields, now ? object_or_none(tables, kFull) : old, in_full, full_width)
                       .read(fields.family().fields.rope_theta, fields.family().rope_theta));
  result.push_back(RotaryReader(fields, object_or_none(tables, kWindows), whole.path(kWindows), head_width)
                       .read(fields.family().fields.rope_theta_in_windows, fields.family().rope_theta_in_windows));
  result[0].name = kFull;
  result[1].name = kWindows;
  return result;
}

}  // namespace

std::vector<RotaryConfig> read_rotary(ConfigFieldReader& fields, int64_t head_width, int64_t full_width) {
  if (fields.family().rotary_by_layer_type) return read_by_layer_type(fields, head_width, full_width);
  const char* const field = fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const json none = json::object();
  const json& scaling = fields.has(field) ? fields[field] : none;
  return {RotaryReader(fields, scaling, fields.name() + "." + field, head_width)
              .read(fields.family().fields.rope_theta, fields.family().rope_theta)};
}

}  // namespace memtune::model
