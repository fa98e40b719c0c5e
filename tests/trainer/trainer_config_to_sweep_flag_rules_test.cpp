// The data of profiles/training: what a sweep does not depend on must not hide what it does depend on.
#include "core/answer/trainer/trainer_config_to_sweep_flag_rules.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "core/base/embedded_json_preset.h"
#include "core/base/error.h"

namespace memtune::training_profile_test {

using namespace memtune;
using namespace memtune::trainer;

TEST_CASE("a pattern covers a path and all below it") {
  CHECK(covers("dataset", "dataset"));
  CHECK(covers("dataset", "dataset.split.x"));
  CHECK(covers("logging_*", "logging_steps"));
  CHECK(covers("a.*", "a.b.c"));
  CHECK_FALSE(covers("dataset", "datasets"));
  CHECK_FALSE(covers("a.b", "a"));
  CHECK_FALSE(covers("logging_*", "log"));
}

TEST_CASE("no key that a row reads is listed as one without effect") {
  int rows = 0;
  for (const EmbeddedJsonPreset& builtin : profiles()) {
    if (builtin.kind != "training") continue;
    const TrainerConfigToSweepFlagRules profile = read_training_profile(std::string(builtin.name));
    const auto hidden = [&](const std::string& key) {
      return std::ranges::any_of(profile.no_effect, [&](const auto& pattern) { return covers(pattern, key); });
    };
    CHECK(!profile.no_effect.empty());
    CHECK(!profile.harmless.empty());
    for (const ConfigToSweepFlagRule& row : profile.rows) {
      ++rows;
      for (const auto& condition : row.when)
        CHECK_MESSAGE(!hidden(condition.first), builtin.name << ": " << condition.first);
      for (const std::string& key : row.any) CHECK_MESSAGE(!hidden(key), builtin.name << ": " << key);
      for (const std::string& form : {row.value, row.note, row.refusal})
        for (size_t at = form.find('{'); at != form.npos; at = form.find('{', at + 1)) {
          const std::string key = form.substr(at + 1, form.find_first_of("}|", at) - at - 1);
          CHECK_MESSAGE(!hidden(key), builtin.name << ": " << key);
        }
    }
    for (const auto& harmless : profile.harmless)
      CHECK_MESSAGE(!hidden(harmless.first), builtin.name << ": " << harmless.first);
  }
  CHECK(rows > 100);
}

TEST_CASE("a trainer without a training profile is refused with what to give instead") {
  CHECK_THROWS_WITH_AS(read_training_profile("deepspeed"),
                       "a config of deepspeed does not say which model it trains: give --model and its flags without "
                       "--trainer, or put the training command behind --",
                       UsageError);
}

}  // namespace memtune::training_profile_test
