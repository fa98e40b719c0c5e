// The profiles are in the program itself: found by name, complete, and each of them valid.
#include "core/config/profile.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/config/decoder_profile.h"

using namespace memtune;
using namespace memtune::config;

TEST_CASE("every profile is JSON with a description") {
  REQUIRE_FALSE(profiles().empty());
  for (const Profile& profile : profiles()) {
    CAPTURE(profile.name);
    CHECK_FALSE(nlohmann::json::parse(profile.json).at("description").get<std::string>().empty());
  }
}

TEST_CASE("every model profile is a valid decoder") {
  for (const Profile& profile : profiles()) {
    if (profile.kind != "models") continue;
    CAPTURE(profile.name);
    CHECK_NOTHROW(parse_decoder_profile(profile.name, profile.json));
  }
}

TEST_CASE("profiles are found by kind and name") {
  for (const char* name : {"tiny", "small", "llama-1b"}) CHECK(find_profile("models", name).name == name);
  for (const char* name : {"default", "quick"}) CHECK(find_profile("sweeps", name).kind == "sweeps");
}

TEST_CASE("an unknown profile gets the nearest and the known ones of its kind") {
  CHECK_THROWS_WITH_AS(find_profile("models", "smal"),
                       "unknown model profile 'smal'; did you mean 'small'? Known: llama-1b, small, tiny", UsageError);
  CHECK_THROWS_WITH_AS(find_profile("sweeps", ""), doctest::Contains("unknown sweep profile ''"), UsageError);
}
