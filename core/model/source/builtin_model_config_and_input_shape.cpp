#include "core/model/source/builtin_model_config_and_input_shape.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_object_reader.h"

namespace memtune::model {

BuiltinModelConfigAndInputShape parse_model_profile(const std::string& name, std::string_view text) {
  constexpr int64_t kMax = int64_t{1} << 24;
  const nlohmann::json json = parse_json_object(name, text);
  BuiltinModelConfigAndInputShape profile;
  JsonObjectReader object(json, name);
  object.require({"description", "batch", "sequence", "config"});
  object.read("description", profile.description);
  object.read("batch", profile.batch, 1, kMax);
  object.read("sequence", profile.sequence, 2, kMax);
  profile.model = parse_transformers_config(object.path("config"), object.find("config")->dump());
  object.finish();
  return profile;
}

plan::InputSpec tokens_of(const BuiltinModelConfigAndInputShape& profile) {
  return {"input_ids", "int64", {profile.batch, profile.sequence}, profile.model.vocabulary};
}

}  // namespace memtune::model
