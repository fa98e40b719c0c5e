// Trainers act on these save keys for weeks. Each trainer's keys are compared whole for every save mode, with the notes
// about unsupported settings.
#include "core/answer/trainer/recommended_state_save_schedule.h"

#include <doctest/doctest.h>

#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "tests/report/sample.h"

namespace memtune::save_policy_test {

using namespace memtune;
using report::Report;

namespace {

const std::string& first = kSaveModes.at(0);
const std::string& async = kSaveModes.at(1);

// Joins "key=value" pairs.
std::string keys(const std::string& trainer, size_t mode, int64_t keep_last = 3) {
  trainer::ConfigChanges config;
  trainer::find_trainer(trainer).save({mode, 120, keep_last}, config);
  std::vector<std::string> lines;
  for (const auto& [key, value] : config.changes) lines.push_back(key + "=" + *value);
  return join(lines, " ");
}

std::string notes(const std::string& trainer, size_t mode, int64_t keep_last = 3) {
  trainer::ConfigChanges config;
  trainer::find_trainer(trainer).save({mode, 120, keep_last}, config);
  return join(config.notes, "\n");
}

result::StateSaveModeMeasurement save(const std::string& mode, double blocked_ms) {
  result::StateSaveModeMeasurement save;
  save.mode = mode;
  save.blocked_ms = blocked_ms;
  save.durable_ms = 4000;
  return save;
}

// Saves for the sample's recommended row, 320 ms a step: sync costs 4 s, async 0.25 s.
Report with_saves(double mtbf_s) {
  Report report = report::sample_report();
  report.mtbf_s = mtbf_s;
  report.keep_last = 2;
  report.rows[1].saves = {save(first, 4000), save(async, 250)};
  return report;
}

std::string exported(const std::string& trainer, const Report& report) {
  return trainer::export_config(trainer, report.rows.at(1), report).text;
}

std::string behind_comments(const std::string& text) {
  const size_t last = text.rfind("\n#");
  return text.substr(text.find('\n', last + 1) + 1);
}

// Comments as one line without their marks.
std::string prose(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string& line : split(text, '\n'))
    if (line.starts_with("# ")) words.push_back(trim(line.substr(1)));
  return join(words, " ");
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("torchtune supports async saves but no save interval in steps and no limit of saves") {
  CHECK(keys("torchtune", 0) == "enable_async_checkpointing=false");
  CHECK(keys("torchtune", 1) == "enable_async_checkpointing=true");
  CHECK(has(notes("torchtune", 1), "acts in the recipe full_finetune_distributed only"));
  CHECK(has(notes("torchtune", 1), "never after steps: max_steps_per_epoch: 120 would save every 120 steps"));
}

TEST_CASE("torchtitan has a key for every save mode and keeps at least two states") {
  const auto table = [](const std::string& mode, const std::string& kept) {
    return "checkpoint.async_mode=\"" + mode + "\" checkpoint.enable=true checkpoint.interval=120 " +
           "checkpoint.keep_latest_k=" + kept;
  };
  CHECK(trainer::find_trainer("torchtitan").save_modes >= kSaveModes.size());
  CHECK(keys("torchtitan", 0) == table("disabled", "3"));
  CHECK(keys("torchtitan", 1) == table("async", "3"));
  CHECK(keys("torchtitan", 2) == table("async_with_pinned_mem", "3"));
  CHECK(keys("torchtitan", 0, 0) == table("disabled", "0"));  // all are kept
  CHECK(keys("torchtitan", 0, 1) == table("disabled", "2"));
  CHECK(has(notes("torchtitan", 0, 1), "torchtitan refuses 1"));
  CHECK_FALSE(has(notes("torchtitan", 0, 2), "refuses"));
}

TEST_CASE("transformers and its derivatives save by steps and block training") {
  for (const char* each : {"transformers", "trl", "ms-swift", "axolotl"}) {
    CAPTURE(each);
    CHECK(trainer::find_trainer(each).save_modes == 1);
    CHECK(keys(each, 0) == "save_steps=120 save_strategy=\"steps\" save_total_limit=3");
    CHECK(keys(each, 0, 0) == "save_steps=120 save_strategy=\"steps\"");
  }
  CHECK(has(notes("transformers", 0, 0), "without save_total_limit all saves are kept"));
  CHECK(has(notes("axolotl", 0, 0), "axolotl keeps 4 saves"));
  CHECK(has(notes("axolotl", 0), "remove saves_per_epoch"));
}

TEST_CASE("Megatron has save flags and none for the number of saves to keep") {
  CHECK(keys("megatron", 0) == "save_interval=120");
  CHECK(keys("megatron", 1) == "async_save=true ckpt_format=\"torch_dist\" save_interval=120");
  CHECK(has(notes("megatron", 0), "keeping the last 3 has no flag"));
  CHECK(notes("megatron", 0, 0) == "");
}

TEST_CASE("only save keys are written and a note says so if the trainer supports no measured strategy") {
  Report report = with_saves(43200);
  report.rows = {report.rows[0], report.rows[1]};
  report.rows[1].measurement.strategy = "dear-13";
  const trainer::ExportedConfig made =
      trainer::export_config("torchtitan", report.rows[1], report, {{{"", "0.2.2"}}, "", ""});
  CHECK(made.said.size() == 1);
  CHECK(has(made.said[0], "'dear-13' is not possible in torchtitan"));
  CHECK(made.text.starts_with("# memtune 0.1.0: saving in keys of torchtitan 0.2.2, with steps as under dear-13"));
  CHECK(has(prose(made.text), "with a failure every 12 h: async every 459 steps"));
  CHECK(behind_comments(made.text) ==
        "[checkpoint]\nasync_mode = \"async\"\nenable = true\ninterval = 459\nkeep_latest_k = 2\n");
  CHECK(has(trainer::export_config("torchtitan", report.rows[1], report).text, "\nconfig.checkpoint.interval = 459\n"));
  CHECK(has(trainer::export_config("megatron", report.rows[1], report).text, "\n--async-save\n"));
}

TEST_CASE("save keys follow the keys of the strategy") {
  CHECK(behind_comments(exported("torchtune", with_saves(43200))) ==
        "ac_mode: null\nenable_activation_checkpointing: true\nenable_activation_offloading: true\n"
        "enable_async_checkpointing: true\n");
}

TEST_CASE("a trainer without the best save mode gets the nearest mode with its own interval and a note") {
  const std::string text = exported("axolotl", with_saves(43200));
  CHECK(has(behind_comments(text), "save_steps: 1829\nsave_strategy: steps\nsave_total_limit: 2\n"));
  CHECK(has(prose(text), "axolotl has no " + async + ", which would be best (with a failure every 12 h: " + async +
                             " every 459 steps (2.4 min), 0.35 % of the time); writing " + first));
  Report report = with_saves(43200);
  report.rows[1].saves[0].outcome = result::TrialOutcome::crash;
  const std::string without = exported("axolotl", report);
  CHECK_FALSE(has(without, "save_steps:"));
  CHECK(has(prose(without), "no keys for saving: axolotl has " + first + ", which was not measured or failed"));
}

TEST_CASE("without measured saves there are no save keys and without --mtbf a hint") {
  const Report none = report::sample_report();
  CHECK_FALSE(has(exported("torchtune", none), "saving"));
  const std::string text = exported("torchtune", with_saves(0));
  CHECK_FALSE(has(text, "enable_async_checkpointing: "));
  CHECK(has(prose(text), "saving was measured; the same sweep with --mtbf TIME advises how often"));
}

TEST_CASE("an unknown save mode is supported by no trainer") {
  Report report = with_saves(43200);
  report.rows[1].saves.push_back(save("someday", 0));
  CHECK(has(exported("torchtitan", report), "config.checkpoint.async_mode = \"async\""));
  CHECK(has(prose(exported("torchtitan", report)), "torchtitan has no someday"));
}

}  // namespace memtune::save_policy_test
