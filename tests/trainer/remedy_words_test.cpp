// The settings against out of memory, as each trainer's users write them.
#include "core/answer/trainer/remedy_words.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/answer/result/oom_remedy.h"
#include "core/answer/result/time_advice.h"
#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "tests/support/run_program.h"

namespace memtune::remedy_words_test {

using namespace memtune::trainer;
using result::OomCause;

namespace {

std::string text_of(const std::vector<result::SettingInTrainerSyntax>& words, const std::string& setting) {
  const auto found = std::ranges::find(words, setting, &result::SettingInTrainerSyntax::setting);
  return found == words.end() ? "?" : found->text;
}

std::string batch_of(const std::vector<std::string>& command) {
  return text_of(remedy_words({command, "", "", ""}), "batch");
}

}  // namespace

TEST_CASE("a script's own flag is named with half of its batch") {
  CHECK(batch_of({"python", "train.py", "--batch-size", "8"}) == "--batch-size 4");
  CHECK(batch_of({"python", "train.py", "--micro_batch_size=6"}) == "--micro_batch_size=3");
  CHECK(batch_of({"python", "train.py", "--batch-size", "1"}).empty());
  CHECK(batch_of({"python", "train.py", "--batch-size"}) == "?");
  CHECK(batch_of({"python", "train.py", "--batch-size", "many"}) == "?");
  CHECK(batch_of({"python", "train.py", "--eval-batch-size", "8"}) == "?");
  CHECK(batch_of({"python", "train.py", "batch", "8"}) == "?");
}

TEST_CASE("a trainer's keys have the values of its config") {
  const auto words = remedy_words({{"axolotl", "train", "{config}"},
                                   "axolotl",
                                   "micro_batch_size: 8\ngradient_accumulation_steps: 2\n",
                                   "mine.yaml"});
  CHECK(text_of(words, "checkpoint") == "gradient_checkpointing: true");
  CHECK(text_of(words, "batch") == "gradient_accumulation_steps: 4, micro_batch_size: 4");
  CHECK(text_of(words, "length") == "sequence_len");
}

TEST_CASE("a config that the command reads is found") {
  const test::ScratchFolder folder;
  const std::string file = (folder.path / "mine.yaml").string();
  write_file(file, "per_device_train_batch_size: 4\n");
  CHECK(text_of(remedy_words({{"trl", "sft", "--config", file}, "trl", "", ""}), "batch") ==
        "gradient_accumulation_steps: 2, per_device_train_batch_size: 2");
  CHECK(remedy_words({{"x", "y"}, "trl", "per_device: [", "mine.yaml"}).empty());
}

TEST_CASE("settings are flags if the command has some") {
  const auto words =
      remedy_words({{"python", "run_clm.py", "--per_device_train_batch_size", "8"}, "transformers", "", ""});
  CHECK(text_of(words, "checkpoint") == "--gradient_checkpointing True");
  CHECK(text_of(words, "batch") == "--gradient_accumulation_steps 2 --per_device_train_batch_size 4");
  CHECK(text_of(words, "evaluation_batch") == "per_device_eval_batch_size");
}

TEST_CASE("a batch of one row cannot be made smaller") {
  const auto words = remedy_words({{"tune"}, "torchtune", "batch_size: 1\n", "mine.yaml"});
  CHECK(text_of(words, "batch").empty());
  result::OutOfMemoryBreakdown oom;
  oom.words = words;
  const std::vector<std::string> found = remedies(OomCause::activations, oom);
  REQUIRE(found.size() == 1);
  CHECK(found[0] == "gradient checkpointing (enable_activation_checkpointing: true)");
}

TEST_CASE("every trainer has words, of settings that a remedy or an advice names") {
  result::OutOfMemoryBreakdown oom;
  // Both what evaluates and what does not.
  const auto time_advice = [](const result::SettingInTrainerSyntax& words, bool evaluates) {
    result::TrainingPhaseTimeShares shares{1, 1, 1, 1, 1, 1, 1, 1, 0, evaluates, true, "", {words}};
    return join(result::time_advice(shares), "\n");
  };
  for (const std::string& trainer : trainers()) {
    CAPTURE(trainer);
    for (const result::SettingInTrainerSyntax& words : remedy_words({{"x"}, trainer, "", ""})) {
      CAPTURE(words.setting);
      oom.words = {{words.setting, "MARK"}};
      const result::SettingInTrainerSyntax marked{words.setting, "MARK"};
      bool named = (time_advice(marked, true) + time_advice(marked, false)).find("MARK") != std::string::npos;
      for (int i = 0; i <= static_cast<int>(OomCause::activations); ++i)
        for (const std::string& each : remedies(static_cast<OomCause>(i), oom))
          named |= each.find("MARK") != std::string::npos;
      oom.optimizer_bytes = 1;
      for (const std::string& each : remedies(OomCause::states, oom)) named |= each.find("MARK") != std::string::npos;
      CHECK(named);
    }
  }
}

}  // namespace memtune::remedy_words_test
