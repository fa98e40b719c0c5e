// Other settings in the user's config decide which strategies can be written into it.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/answer/trainer/config_check.h"
#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "tests/report/sample.h"

namespace memtune::own_config_test {

using namespace memtune;
using report::Report;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Rows from the fastest and largest to the slowest.
Report ladder() {
  Report report;
  report.blocks = 16;
  report.rows = {report::worked("none", 250, 1, 36 * report::kGiB),
                 report::worked("checkpoint:op,save=matmul-all+attention", 270, 1, 26 * report::kGiB),
                 report::worked("checkpoint:every=4", 275, 1, 30 * report::kGiB),
                 report::worked("checkpoint:full,inputs=host", 300, 1, 12 * report::kGiB),
                 report::worked("checkpoint:full", 320, 1, 13 * report::kGiB)};
  return report;
}

trainer::ExportedConfig into(const std::string& trainer, const std::string& text, size_t row,
                             const std::string& name = "mine.yaml",
                             const std::map<std::string, std::string>& releases = {}) {
  const Report report = ladder();
  return trainer::export_config(trainer, report.rows.at(row), report, {releases, text, name});
}

// The notes as one line.
std::string notes(const trainer::ExportedConfig& written) {
  std::string text;
  for (const std::string& line : split(written.text, '\n'))
    if (line.starts_with("#")) text += " " + trim(line.substr(1));
  return text;
}

// The config without the comments above its keys.
std::string keys(const trainer::ExportedConfig& written) {
  std::vector<std::string> lines;
  for (const std::string& line : split(written.text, '\n'))
    if (!line.starts_with("#")) lines.push_back(line);
  return join(lines, "\n");
}

}  // namespace

TEST_CASE("keys are merged in place and other text stays and comments of an earlier export are replaced") {
  const std::string mine =
      "base_model: a/b  # of the hub\n# memory\ngradient_checkpointing: true\ngradient_checkpointing_kwargs:\n"
      "  # by hand\n  use_reentrant: true\n  early_stop: false\n# the end\n";
  const trainer::ExportedConfig first = into("axolotl", mine, 4);
  CHECK(keys(first) ==
        "base_model: a/b  # of the hub\ngradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  # by hand\n"
        "  use_reentrant: false\n  early_stop: false\nactivation_offloading: false\nselective_checkpointing: false\n");
  CHECK(has(first.text, "# memory\n# memtune"));
  CHECK(has(first.text, "\ngradient_checkpointing: true\n"));
  CHECK(into("axolotl", first.text, 4).text == first.text);
}

TEST_CASE("an export names the keys whose values it changes against the user's config") {
  const auto changed = [](const std::string& text, size_t row, const std::string& name = "mine.yaml") {
    std::string all;
    for (const trainer::ConfigKeyValueChange& change : into("axolotl", text, row, name).changed)
      all += change.key + ": " + change.before + " -> " + change.after + "\n";
    return all;
  };
  CHECK(changed("base_model: a/b\ngradient_checkpointing: true\n", 0) == "gradient_checkpointing: true -> false\n");
  CHECK(changed("base_model: a/b\n", 0) == "");
  CHECK(changed("base_model: a/b\nactivation_offloading: true\ngradient_checkpointing: true\n", 4) ==
        "activation_offloading: true -> false\ngradient_checkpointing_kwargs.use_reentrant: true -> false\n");
  CHECK(changed("", 0, "") == "");  // no config
}

TEST_CASE("E6: hidden_states is not written with rl because rl selects another engine") {
  const trainer::ExportedConfig written = into("axolotl", "rl: dpo\n", 3);
  CHECK(has(keys(written), "activation_offloading: false\n"));
  REQUIRE(written.said.size() == 2);
  CHECK(has(written.said[0], "trainers of rl take any activation_offloading for true; writing checkpoint:full"));
  CHECK(written.said[1] ==
        "against checkpoint:full,inputs=host a step takes 20.0 ms (6.7 %) longer, the peak is 1 GiB higher");
  CHECK(has(keys(into("axolotl", "seed: 1\n", 3)), "activation_offloading: hidden_states\n"));
}

TEST_CASE("E7: checkpointing by FSDP is switched in its own key") {
  const std::string mine = "fsdp_config:\n  activation_checkpointing: true\n";
  for (const std::string trainer : {"axolotl", "transformers", "trl"}) {
    const std::string full = keys(into(trainer, mine, 4)), none = keys(into(trainer, mine, 0));
    CHECK(has(full, "fsdp_config:\n  activation_checkpointing: true\n"));
    CHECK(has(full, "gradient_checkpointing: false\n"));
    CHECK(has(none, "fsdp_config:\n  activation_checkpointing: false\n"));
    CHECK(has(none, "gradient_checkpointing: false\n"));
    CHECK(trainer::check_config(trainer, full, "x.yaml", {}).meaning->strategy == "checkpoint:full");
    CHECK(trainer::check_config(trainer, none, "x.yaml", {}).meaning->strategy == "none");
    const std::string neither = into(trainer, mine, 2).text;  // every=4: FSDP has no keys for it
    CHECK(trainer::check_config(trainer, neither, "x.yaml", {}).meaning->strategy == "checkpoint:full");
  }
}

TEST_CASE("E8 and LoRA: matmuls that axolotl refuses to keep are not kept and adapter effects are noted") {
  const trainer::ExportedConfig written = into("axolotl", "adapter: lora\n", 1);
  CHECK(
      has(written.said.at(0), "with an adapter axolotl refuses to keep matmuls; writing checkpoint:full,inputs=host"));
  CHECK(has(keys(written), "selective_checkpointing: false\n"));
  CHECK(has(notes(written), "in 0.19 it does not, with an adapter it recomputes as well"));
  CHECK(has(keys(into("axolotl", "seed: 1\n", 1)), "aten::mm"));
}

TEST_CASE("E9: a note about reentrance appears with qlora and ZeRO-3") {
  const std::string both = into("axolotl", "adapter: qlora\ndeepspeed: zero3_bf16.json\n", 4).text;
  CHECK(has(both, "with qlora and ZeRO-3 axolotl warns"));
  CHECK_FALSE(has(into("axolotl", "adapter: qlora\n", 4).text, "ZeRO-3"));
}

TEST_CASE("E10: LoRA recipes ignore ac_mode so nothing that needs it is written") {
  const std::string lora = "model:\n  _component_: torchtune.models.llama3_2.lora_llama3_2_1b\n";
  const trainer::ExportedConfig written = into("torchtune", lora, 2);
  CHECK(has(written.said.at(0), "recipes of LoRA do not read ac_mode"));
  CHECK_FALSE(has(keys(written), "selective"));
  CHECK(has(keys(into("torchtune", "device: cuda\n", 2)), "ac_mode: selective\nac_option: 4\n"));
  const trainer::ExportedConfig moved = into("torchtune", "device: cpu\n", 3);
  CHECK(has(moved.said.at(0), "torchtune offloads only with device: cuda; writing checkpoint:full"));
}

TEST_CASE("E11: an unmeasured loss or optimizer or gradient accumulation is noted") {
  const std::string tune = into("torchtune",
                                "loss:\n  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss\noptimizer:\n"
                                "  _component_: bitsandbytes.optim.PagedAdamW8bit\ngradient_accumulation_steps: 8\n",
                                4)
                               .text;
  CHECK(has(tune, "# note:      the loss makes logits in chunks"));
  CHECK(has(tune, "# note:      an optimizer of 8 bits"));
  CHECK(has(tune, "# note:      gradients stay between the batches"));
  const std::string plain = into("torchtune", "optimizer:\n  _component_: torch.optim.AdamW\n", 4).text;
  for (const char* said : {"in chunks:", "of 8 bits", "gradients stay"}) CHECK_FALSE(has(plain, said));
}

TEST_CASE("notes for a JSON config are printed because JSON has no comments") {
  const trainer::ExportedConfig written = into("transformers", "{\"output_dir\": \"out\"}\n", 4, "mine.json");
  CHECK(written.text ==
        "{\"output_dir\": \"out\", \"gradient_checkpointing\":true, "
        "\"gradient_checkpointing_kwargs\":{\"use_reentrant\":false}}\n");
  CHECK(has(join(written.said, "\n"), "checkpoint:full in keys of transformers"));
}

TEST_CASE("TOML of torchtitan 0.2 keeps its text and a config that is a program is refused") {
  const std::string mine = "[job]\nname = \"x\"  # mine\n[activation_checkpoint]\nmode = \"none\"  # now\n";
  const trainer::ExportedConfig written = into("torchtitan", mine, 2, "mine.toml", {{"", "0.2.2"}});
  CHECK(keys(written) ==
        "[job]\nname = \"x\"  # mine\n[activation_checkpoint]\nmode = \"selective\"  # now\n"
        "selective_ac_option = \"4\"\n");
  CHECK_THROWS_WITH_AS(into("torchtitan", "x = 1\n", 4, "mine.py"),
                       "this trainer has no config file that memtune changes: its settings are arguments ({args} in a "
                       "command), or lines of a program",
                       UsageError);
}

TEST_CASE("keys use the names of the release or those already in the config") {
  for (const char* name : {"gradient_checkpointing", "activation_checkpointing"})
    CHECK(has(keys(into("transformers", name + std::string(": false\n"), 4, "x.yaml", {{"", "5.23"}})),
              name + std::string(": true\n")));
  CHECK(has(keys(into("transformers", "seed: 1\n", 4, "x.yaml")), "\ngradient_checkpointing: true\n"));
  CHECK(has(into("trl", "seed: 1\n", 4, "x.yaml", {{"", "1.17"}}).text, "these keys were looked up in trl 1.16.0"));
  CHECK_THROWS_AS(into("trl", "seed: 1\n", 4, "x.yaml", {{"torch", "2.0"}}), UsageError);
}

TEST_CASE("Windows line ends are kept and mixed line ends stay as they are") {
  const std::string text = into("axolotl", "seed: 1\r\ngradient_checkpointing: false # mine\r\n", 4).text;
  CHECK(std::ranges::count(text, '\r') == std::ranges::count(text, '\n'));
  CHECK(text.find("gradient_checkpointing: true # mine\r\n") != std::string::npos);
  CHECK(into("axolotl", text, 4).text == text);
  CHECK(std::ranges::count(into("axolotl", "seed: 1\r\nlr: 1\n", 4).text, '\r') == 1);
}

}  // namespace memtune::own_config_test
