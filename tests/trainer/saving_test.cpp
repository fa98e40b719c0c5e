// Keys of saving are acted on for weeks: each trainer's are compared whole, for every way that it has, with what it has
// none for.
#include "core/trainer/saving.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/vocabulary.h"
#include "core/trainer/trainer.h"
#include "tests/report/sample.h"

using namespace memtune;
using report::Report;

namespace {

const std::string& first = config::kSaveModes.at(0);
const std::string& async = config::kSaveModes.at(1);

std::string keys(const trainer::Trainer& trainer, size_t mode, int64_t keep_last = 3) {
  trainer::Config config;
  trainer.save({mode, 120, keep_last}, config);
  return join(config.keys, "\n");
}

std::string notes(const trainer::Trainer& trainer, size_t mode, int64_t keep_last = 3) {
  trainer::Config config;
  trainer.save({mode, 120, keep_last}, config);
  return join(config.notes, "\n");
}

result::SaveMeasurement save(const std::string& mode, double blocked_ms) {
  result::SaveMeasurement save;
  save.mode = mode;
  save.blocked_ms = blocked_ms;
  save.durable_ms = 4000;
  return save;
}

// Of the sample's recommended row, 320 ms a step: sync costs 4 s, async 0.25 s.
Report with_saves(double mtbf_s) {
  Report report = report::sample_report();
  report.mtbf_s = mtbf_s;
  report.keep_last = 2;
  report.rows[1].saves = {save(first, 4000), save(async, 250)};
  return report;
}

std::string exported(const std::string& trainer, const Report& report) {
  return trainer::export_config(trainer, report.rows.at(1), report);
}

std::string behind_comments(const std::string& text) {
  const size_t last = text.rfind("\n#");
  return text.substr(text.find('\n', last + 1) + 1);
}

// On one line, without the marks of comments.
std::string prose(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string& line : split(text, '\n'))
    if (line.starts_with("# ")) words.push_back(trim(line.substr(1)));
  return join(words, " ");
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("torchtune can be told whether saves are asynchronous, and nothing of steps or how many are kept") {
  CHECK(keys(trainer::torchtune(), 0) == "enable_async_checkpointing: False");
  CHECK(keys(trainer::torchtune(), 1) == "enable_async_checkpointing: True");
  CHECK(has(notes(trainer::torchtune(), 1), "acts in the recipe full_finetune_distributed only"));
  CHECK(has(notes(trainer::torchtune(), 1), "never after steps: max_steps_per_epoch: 120 would save every 120 steps"));
}

TEST_CASE("torchtitan has a word for every way, and keeps two states at least") {
  const auto table = [](const std::string& mode, const std::string& kept) {
    return "[checkpoint]\nenable = true\ninterval = 120\nasync_mode = \"" + mode + "\"\nkeep_latest_k = " + kept;
  };
  CHECK(trainer::torchtitan().save_modes >= config::kSaveModes.size());
  CHECK(keys(trainer::torchtitan(), 0) == table("disabled", "3"));
  CHECK(keys(trainer::torchtitan(), 1) == table("async", "3"));
  CHECK(keys(trainer::torchtitan(), 2) == table("async_with_pinned_mem", "3"));
  CHECK(keys(trainer::torchtitan(), 0, 0) == table("disabled", "0"));  // all
  CHECK(keys(trainer::torchtitan(), 0, 1) == table("disabled", "2"));
  CHECK(has(notes(trainer::torchtitan(), 0, 1), "torchtitan refuses 1"));
  CHECK_FALSE(has(notes(trainer::torchtitan(), 0, 2), "refuses"));
}

TEST_CASE("transformers and what is built on it save by steps, while training waits") {
  for (const trainer::Trainer* each :
       {&trainer::transformers(), &trainer::trl(), &trainer::ms_swift(), &trainer::axolotl()}) {
    CAPTURE(each->name);
    CHECK(each->save_modes == 1);
    CHECK(keys(*each, 0) == "save_strategy: steps\nsave_steps: 120\nsave_total_limit: 3");
    CHECK(keys(*each, 0, 0) == "save_strategy: steps\nsave_steps: 120");
  }
  CHECK(has(notes(trainer::transformers(), 0, 0), "without save_total_limit all saves are kept"));
  CHECK(has(notes(trainer::axolotl(), 0, 0), "axolotl keeps 4 saves"));
  CHECK(has(notes(trainer::axolotl(), 0), "saves_per_epoch has to go"));
}

TEST_CASE("Megatron's are flags, and it cannot be told how many to keep") {
  CHECK(keys(trainer::megatron(), 0) == "--save-interval 120");
  CHECK(keys(trainer::megatron(), 1) == "--save-interval 120\n--async-save\n--ckpt-format torch_dist");
  CHECK(has(notes(trainer::megatron(), 0), "keeping the last 3 has no flag"));
  CHECK(notes(trainer::megatron(), 0, 0) == "");
}

TEST_CASE("a trainer whose strategies memtune does not write gets a file of saving alone") {
  CHECK(exported("torchtitan", with_saves(43200)) ==
        R"(# memtune 0.1.0: saving in keys of torchtitan 0.2.2, with steps as under
# checkpoint:full,inputs=host, of which there are no keys here
# model:     model.pt
# settings:  tokens:int64[4,4096]<32000, next_token, adamw, bfloat16
# device:    NVIDIA H200
# measured:  step 320.0 ms (319.5 to 320.5), 1.28 x none; peak 12 GiB, 24 GiB less than none
# saving:    with a failure every 12 h: async every 459 steps (2.4 min), 0.35 % of the time;
#            measured with memtune's own saves, torchtitan's cost another
# note:      a step is memtune's, one batch and one update: where torchtitan accumulates gradients
#            over several batches, divide by their number
# note:      torchtitan 0.3.0 has no TOML: these are fields of its CheckpointManager.Config, by the
#            same names
# note:      the last save of a run is synchronous, and of the model alone unless
#            last_save_model_only = false
[checkpoint]
enable = true
interval = 459
async_mode = "async"
keep_latest_k = 2
)");
}

TEST_CASE("keys of saving follow those of the strategy") {
  CHECK(behind_comments(exported("torchtune", with_saves(43200))) ==
        "enable_activation_checkpointing: True\nenable_activation_offloading: True\nac_mode: null\n"
        "enable_async_checkpointing: True\n");
}

TEST_CASE("a trainer without the best way gets its nearest, with that one's own interval, and it is said") {
  const std::string text = exported("axolotl", with_saves(43200));
  CHECK(has(behind_comments(text), "save_strategy: steps\nsave_steps: 1829\nsave_total_limit: 2\n"));
  CHECK(has(prose(text), "axolotl has no " + async + ", which would be best (with a failure every 12 h: " + async +
                             " every 459 steps (2.4 min), 0.35 % of the time); written is " + first));
  Report report = with_saves(43200);
  report.rows[1].saves[0].outcome = result::Outcome::crash;
  const std::string without = exported("axolotl", report);
  CHECK_FALSE(has(without, "save_steps:"));
  CHECK(has(prose(without), "no keys of saving: axolotl has " + first + ", which was not measured or failed"));
  CHECK_THROWS_WITH_AS(exported("trl", report), doctest::Contains("and there are none: no keys of saving"), UsageError);
}

TEST_CASE("without saves there are no such keys, and without a rate of failures the way to them") {
  const Report none = report::sample_report();
  CHECK_FALSE(has(exported("torchtune", none), "saving"));
  CHECK_THROWS_WITH_AS(exported("torchtitan", none),
                       "of torchtitan memtune writes the keys of saving alone, and there are none: memtune sweep "
                       "--saves --mtbf TIME measures it",
                       UsageError);
  const std::string text = exported("torchtune", with_saves(0));
  CHECK_FALSE(has(text, "enable_async_checkpointing: "));
  CHECK(has(prose(text), "saving was measured; the same sweep with --mtbf TIME says how often"));
  CHECK_THROWS_WITH_AS(exported("megatron", with_saves(0)), doctest::Contains("--mtbf TIME says how often"),
                       UsageError);
}

TEST_CASE("a way that this memtune does not know is no trainer's") {
  Report report = with_saves(43200);
  report.rows[1].saves.push_back(save("someday", 0));
  CHECK(has(exported("torchtitan", report), "async_mode = \"async\""));
  CHECK(has(prose(exported("torchtitan", report)), "torchtitan has no someday"));
}

TEST_CASE("what is no YAML says so") {
  CHECK(trainer::is_yaml("trl"));
  CHECK_FALSE(trainer::is_yaml("torchtitan"));
  CHECK_FALSE(trainer::is_yaml("megatron"));
}
