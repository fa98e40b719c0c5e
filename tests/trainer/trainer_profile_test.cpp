// Trainer profiles name only settings that they describe and combine only options that they have.
#include "core/answer/trainer/trainer_profile.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/base/embedded_json_preset.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::trainer_profile_test {

using namespace memtune;
using namespace memtune::trainer;

TEST_CASE("options set described keys and combinations use known options and ranges use known packages") {
  int trainers = 0;
  for (const EmbeddedJsonPreset& file : profiles()) {
    if (file.kind != "trainers") continue;
    CAPTURE(file.name);
    ++trainers;
    const TrainerProfile profile = read_space_profile(std::string(file.name));
    CHECK((!profile.forms.empty() || !profile.argument.empty() || !profile.calls.empty()));
    std::set<std::string> names = {"own", "batch-x2", "batch-x4", "batch-half"};
    for (const SettingAxis& axis : profile.axes) {
      CHECK((axis.allow.empty() || axis.allow == "optimizer"));
      for (const SettingAxisOption& choice : axis.choices) {
        CAPTURE(choice.name);
        CHECK(names.insert(choice.name).second);
        for (const auto& change : choice.changes) CHECK_MESSAGE(profile.settings.contains(change.first), change.first);
        if (choice.range) CHECK(profile.releases.contains(choice.range->package));
      }
    }
    for (const StrategyToConfigKeysMapping& expression : profile.strategies) {
      CAPTURE(expression.strategy);
      CHECK_FALSE(expression.set.empty());
      if (expression.range) CHECK(profile.releases.contains(expression.range->package));
      if (expression.strategy.find('{') != std::string::npos) continue;
      CHECK(plan::canonical_name(expression.strategy) == expression.strategy);
      CHECK(plan::Strategy::of_name(expression.strategy).has_value());
    }
    for (const std::string& combination : profile.combinations)
      for (const std::string& part : split(combination, '+')) CHECK_MESSAGE(names.contains(part), combination);
    for (const ConfigRejectionRule& rule : profile.rules) {
      CHECK_FALSE(rule.when.empty());
      CHECK_FALSE(rule.reason.empty());
    }
    CHECK(profile.micro_batch.empty() == profile.accumulation.empty());
    for (const std::string& key : {profile.micro_batch, profile.accumulation})
      CHECK((key.empty() || profile.settings.contains(key)));
  }
  CHECK(trainers == 12);
}

TEST_CASE("releases are compared number by number") {
  const PackageReleaseRange range = {"x", "5.9", "5.23"};
  for (const char* inside : {"5.9", "5.9.0", "5.10", "5.22.2"}) CHECK(in_range(range, {{"x", inside}}));
  for (const char* outside : {"5.8.9", "4.57", "5.23", "5.23.0", "6"}) CHECK_FALSE(in_range(range, {{"x", outside}}));
}

TEST_CASE("an unknown trainer gets the nearest name as a suggestion") {
  CHECK_THROWS_WITH_AS(read_space_profile("axolotel"), doctest::Contains("did you mean 'axolotl'?"), UsageError);
}

}  // namespace memtune::trainer_profile_test
