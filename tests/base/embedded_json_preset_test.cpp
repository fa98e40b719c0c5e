// The program contains the profiles. They must be complete, valid and found by name.
#include "core/base/embedded_json_preset.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/model/source/builtin_model_config_and_input_shape.h"

namespace memtune::builtin_profile_test {

using namespace memtune;
using namespace memtune;

TEST_CASE("every profile is JSON with a description") {
  REQUIRE_FALSE(profiles().empty());
  for (const EmbeddedJsonPreset& profile : profiles()) {
    CAPTURE(profile.name);
    CHECK_FALSE(nlohmann::json::parse(profile.json).at("description").get<std::string>().empty());
  }
}

TEST_CASE("every model profile is a valid config with its batch") {
  for (const EmbeddedJsonPreset& profile : profiles()) {
    if (profile.kind != "models") continue;
    CAPTURE(profile.name);
    const plan::InputSpec tokens =
        model::tokens_of(model::parse_model_profile(std::string(profile.name), profile.json));
    CHECK(tokens.shape.at(0) >= 2);
    CHECK(tokens.below.value() >= 256);
  }
}

TEST_CASE("profiles are found by kind and name") {
  for (const char* name : {"tiny", "small", "llama-1b"}) CHECK(find_profile("models", name).name == name);
  for (const char* name : {"default", "quick"}) CHECK(find_profile("sweeps", name).kind == "sweeps");
}

TEST_CASE("the error for an unknown profile suggests the nearest one and lists those of its kind") {
  CHECK_THROWS_WITH_AS(find_profile("models", "smal"),
                       "unknown model profile 'smal'; did you mean 'small'? Known: llama-1b, small, tiny", UsageError);
  CHECK_THROWS_WITH_AS(find_profile("sweeps", ""), doctest::Contains("unknown sweep profile ''"), UsageError);
}

TEST_CASE("an inconsistent model profile is rejected with the field's name") {
  const auto with = [](const char* key, const nlohmann::json& value) {
    nlohmann::json json = nlohmann::json::parse(find_profile("models", "tiny").json);
    json[nlohmann::json::json_pointer(key)] = value;
    return json.dump();
  };
  CHECK_NOTHROW(model::parse_model_profile("mine", with("/batch", 1)));
  CHECK_THROWS_WITH_AS(model::parse_model_profile("mine", with("/batch", 0)), doctest::Contains("mine.batch"),
                       UsageError);
  CHECK_THROWS_WITH_AS(model::parse_model_profile("mine", with("/sequence", 1)), doctest::Contains("mine.sequence"),
                       UsageError);
  CHECK_THROWS_WITH_AS(model::parse_model_profile("mine", with("/config/num_key_value_heads", 3)),
                       doctest::Contains("mine.config"), UsageError);
  CHECK_THROWS_WITH_AS(model::parse_model_profile("mine", with("/config", "llama")), doctest::Contains("mine.config"),
                       UsageError);
  CHECK_THROWS_WITH_AS(model::parse_model_profile("mine", with("/heads", 3)), doctest::Contains("heads"), UsageError);
  CHECK_THROWS_AS(model::parse_model_profile("mine", "[]"), UsageError);
  CHECK_THROWS_AS(model::parse_model_profile("mine", "{"), UsageError);
}

}  // namespace memtune::builtin_profile_test
