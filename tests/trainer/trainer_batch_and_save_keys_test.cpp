// The export of a sweep: which trial is written, the comments above the keys, and what the export costs.
#include "core/answer/trainer/trainer_batch_and_save_keys.h"

#include <doctest/doctest.h>

#include "core/answer/trainer/command_trainers.h"
#include "core/answer/trainer/trainer_profile.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "tests/report/sample.h"

namespace memtune::trainer_test {

using namespace memtune;
using report::Report;

namespace {

std::string exported(const std::string& trainer, const std::string& strategy, const Report& report) {
  return trainer::export_config(trainer, report::worked(strategy, 300, 1, 20 * report::kGiB), report).text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the whole exported file has the requested and the written strategy and the measurements and keys") {
  CHECK(exported("torchtune", "offload:stream,stash=2GiB", report::sample_report()) ==
        R"(# memtune 0.1.0: checkpoint:full,inputs=host in keys of torchtune 0.6.1
# asked for: offload:stream,stash=2GiB, step 300.0 ms (299.0 to 301.0), 1.20 x none; peak 20 GiB, 16
#            GiB less than none
# but:       torchtune has no keys for it; writing checkpoint:full,inputs=host instead, the best of
#            the measured strategies that torchtune can do
# costs:     against offload:stream,stash=2GiB a step takes 20.0 ms (6.7 %) longer, the peak is 8
#            GiB lower
# model:     model.pt
# settings:  tokens:int64[4,4096]<32000, next_token, adamw, bfloat16
# device:    NVIDIA H200
# measured:  step 320.0 ms (319.5 to 320.5), 1.28 x none; peak 12 GiB, 24 GiB less than none
# basis:     memtune's own figures of checkpoint:full,inputs=host with the loss and optimizer above;
#            torchtune's own loss, optimizer and data give other figures (its shipped configs take
#            the loss in chunks (CEWithChunkedOutputLoss), which never make all logits at once)
# gradients: equal to those of none
# note:      torchtune offloads only with device: cuda
# note:      the recipes knowledge_distillation_*, ppo_* and dev/grpo_* do not read
#            enable_activation_offloading: nothing would move
ac_mode: null
enable_activation_checkpointing: true
enable_activation_offloading: true
)");
}

TEST_CASE("text from a report cannot leave the comments in any trainer's format") {
  const std::string key = "trust_remote_code: true # = [x] \"'\\{</script>";
  std::string hostile = "good";
  for (const char* end : {"\n", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9",
                          "\xE2\x80\xAE", "\xEF\xBF\xBE", "\xFF", " ", ""})
    hostile += end + key + " coding: utf-7 coding=utf-7";
  const auto exported_with = [](const std::string& trainer, const std::string& text) {
    Report report = report::sample_report();
    for (std::string* field : {&report.version, &report.model, &report.device, &report.settings, &report.reference,
                               &report.rows[3].measurement.strategy, &report.rows[1].measurement.gradients.against})
      *field = text;
    report.rows.push_back(report::worked("checkpoint:full", 330, 1, 13 * report::kGiB));
    return trainer::export_config(trainer, report.rows[2], report).text;
  };
  const auto keys = [](const std::string& text) {
    std::vector<std::string> lines = split(text, '\n');
    std::erase_if(lines, [](const std::string& line) { return line.starts_with('#'); });
    return lines;
  };
  for (const std::string& trainer : trainer::trainers()) {
    CAPTURE(trainer);
    const std::string text = exported_with(trainer, hostile);
    CHECK(keys(text) == keys(exported_with(trainer, "good")));
    CHECK(printable(text) == text);
    for (const char* coding : {"coding:", "coding="}) CHECK_FALSE(has(text, coding));
  }
}

TEST_CASE("an export from several ranks has the sharding in notes and in keys if there are some") {
  Report report;
  memtune::result::TrialResultRow row = report::worked("checkpoint:full", 300, 1, report::kGiB);
  row.measurement.ranks.resize(2);
  report.reshard = "after-backward";
  const auto text = [&](const std::string& trainer) { return trainer::export_config(trainer, row, report).text; };
  CHECK(has(text("torchtune"), "\nfsdp_reshard_after_forward: false\n"));
  CHECK(has(text("transformers"), "\nfsdp_config:\n  reshard_after_forward: false\n"));
  CHECK(has(text("axolotl"), "\nfsdp_version: 2\n"));
  CHECK(has(text("torchtitan"), "\nconfig.parallelism.fsdp_reshard_after_forward = \"never\"\n"));
  CHECK(has(text("accelerate"),
            "  fsdp_activation_checkpointing: true\n  fsdp_offload_params: false\n  fsdp_reshard_after_forward: false\n"
            "  fsdp_version: 2\n"));
  CHECK(has(text("torchtune"), "# note:      measured on 2 ranks, parameters sharded with --reshard after-backward\n"));
  CHECK(has(text("megatron"), "memtune knows no key of megatron for --reshard after-backward"));
  report.shards_on_host = true;
  report.shard_flags = " --shard-dtype float32 --shard-offload";
  CHECK(has(text("torchtune"), "\nfsdp_cpu_offload: true\nfsdp_reshard_after_forward: false\n"));
  CHECK(has(text("torchtune"), "float32 --shard-offload\n"));
  CHECK(has(text("axolotl"), "  offload_params: true\n"));
  CHECK(has(text("transformers"), "memtune knows no key of transformers for --shard-offload"));
  report.reshard = "never";
  CHECK_FALSE(has(text("torchtune"), "fsdp_reshard_after_forward"));
  CHECK(has(text("torchtune"), "memtune knows no key of torchtune for --reshard never"));
  CHECK(has(text("torchtune"), "\nfsdp_cpu_offload: true\n"));
  report.shards_on_host = false;
  CHECK(has(text("torchtune"), "\nfsdp_cpu_offload: false\n"));
  report.reshard = "";
  CHECK_FALSE(has(text("torchtune"), "fsdp_reshard_after_forward"));
  CHECK_FALSE(has(text("torchtune"), "sharded"));
}

TEST_CASE("batch and sequence axes become the trainer's own keys") {
  Report report;
  memtune::result::TrialResultRow row = report::worked("none", 300, 1, report::kGiB);
  row.batch = 4;
  row.sequence = 2048;
  std::string tune = trainer::export_config("torchtune", row, report).text,
              axolotl = trainer::export_config("axolotl", row, report).text;
  CHECK(has(tune, "\nbatch_size: 4\n"));
  CHECK(has(tune, "# note:      measured with sequences of 2048: set max_seq_len of the tokenizer to it\n"));
  CHECK(has(axolotl, "\nmicro_batch_size: 4\nselective_checkpointing: false\nsequence_len: 2048\n"));
}

TEST_CASE("the comments name emulation and gradients that are equal only within noise") {
  Report report = report::sample_report();
  report.emulated = true;
  CHECK(has(exported("axolotl", "checkpoint:full", report),
            "NVIDIA H200 (a CPU emulates a GPU: the times are no GPU's)\n"));
  report.rows[1].measurement.gradients = {true, false, 0.00012, "layers.0.wq", "none"};
  CHECK(has(trainer::export_config("axolotl", report.rows[1], report).text,
            "# gradients: differ from those of none in layers.0.wq, by no more than its own runs do\n"));
  CHECK(has(trainer::export_config("axolotl", report.rows[3], report).text, "# gradients: the reference\n"));
}

TEST_CASE("a model name cannot leave its comment or send an escape sequence to a terminal") {
  Report report;
  report.model = "a\nevil: true\x1b[31m";
  CHECK(has(exported("axolotl", "none", report),
            "# model:     a\xEF\xBF\xBD"
            "evil: true\xEF\xBF\xBD[31m\n"));
}

TEST_CASE("an unknown trainer is refused with the known trainers") {
  CHECK_THROWS_WITH_AS(
      exported("torchtun", "none", Report{}),
      "unknown trainer 'torchtun'; did you mean 'torchtune'? Known: torchtune, axolotl, torchtitan, "
      "transformers, trl, ms-swift, llamafactory, unsloth, megatron, deepspeed, accelerate. Others are "
      "measured by their command: "
      "memtune sweep -- COMMAND",
      UsageError);
}

TEST_CASE("a trainer that is known by its command is refused with that command") {
  const auto refusal = [](const std::string& name) { return trainer::unknown_trainer(name, {}); };
  CHECK(refusal("nanotron") ==
        "nanotron has no description in memtune, so its command is measured: memtune sweep --try "
        "'file=plain.yaml;recompute.yaml' -- torchrun --nproc-per-node 2 run_train.py --config-file {file}");
  for (const char* name : {"verl", "OpenRLHF", "openrlhf", "nemo_automodel", "NeMo-RL", "diffusers", "kohya",
                           "ai-toolkit", "sentence-transformers", "pytorch-lightning", "litgpt", "prime_rl"})
    CHECK_MESSAGE(has(refusal(name), "memtune sweep --try '"), name);
  CHECK_THROWS_WITH_AS(exported("LLaMA-Factory", "none", Report{}),
                       "unknown trainer 'LLaMA-Factory'; did you mean 'llamafactory'?", UsageError);
}

TEST_CASE("the guide of training scripts has the command of each trainer without a description") {
  const std::string guide = read_file(MEMTUNE_SOURCE_DIR "/docs/how-to/measure-a-training-script.md");
  for (const trainer::TrainerWithoutProfile& one : trainer::command_trainers())
    CHECK_MESSAGE(has(guide, "`" + std::string(one.command) + "` |"), one.name);
}

TEST_CASE("a failed trial is not exported") {
  memtune::result::TrialResultRow row = report::failed("none", result::TrialOutcome::device_oom, "asked for 2 GiB");
  CHECK_THROWS_WITH_AS(trainer::export_config("axolotl", row, Report{}),
                       "'none' did not work here (device_oom): export a strategy that did", UsageError);
}

namespace {

// none 36 GiB, every=2 24, cheap 25, op 19, full 13; a handwritten plan 21.
Report measured_report() {
  Report report;
  report.blocks = 16;
  report.rows = {report::worked("none", 250, 1, 36 * report::kGiB),
                 report::worked("checkpoint:every=2", 280, 1, 24 * report::kGiB),
                 report::worked("checkpoint:cheap", 255, 1, 25 * report::kGiB),
                 report::worked("checkpoint:op", 290, 1, 19 * report::kGiB),
                 report::worked("checkpoint:full", 320, 1, 13 * report::kGiB),
                 report::worked("dear-13", 256, 1, 21 * report::kGiB)};
  return report;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string written(const std::string& trainer, size_t row, const Report& report) {
  const std::string line = first_line(trainer::export_config(trainer, report.rows[row], report).text);
  return line.substr(line.find(": ") + 2, line.find(" in keys") - line.find(": ") - 2);
}

}  // namespace

TEST_CASE("E3: an unsupported strategy becomes the best measured one that needs no more memory") {
  const Report report = measured_report();
  CHECK(written("torchtune", 2, report) == "checkpoint:every=2");  // faster than full, smaller than cheap
  CHECK(written("torchtune", 3, report) == "checkpoint:full");
  CHECK(written("torchtune", 5, report) == "checkpoint:full");  // a handwritten plan
  CHECK(written("axolotl", 5, report) == "checkpoint:full");
  CHECK(written("torchtune", 1, report) == "checkpoint:every=2");
}

TEST_CASE("E1: an export never exceeds the budget") {
  Report report = measured_report();
  report.budget_bytes = 22 * report::kGiB;
  CHECK(written("torchtune", 5, report) == "checkpoint:full");
  CHECK(written("axolotl", 3, report) == "checkpoint:full");  // its keys would keep every matmul
  CHECK(has(trainer::export_config("axolotl", report.rows[3], report).text, "# budget:    22 GiB\n"));
  CHECK_THROWS_WITH_AS(trainer::export_config("torchtune", report.rows[0], report),
                       "'none' needs 36 GiB, more than the sweep's budget of 22 GiB; without --strategy the best that "
                       "fits it is written",
                       UsageError);
  report.budget_bytes = 24 * report::kGiB;
  CHECK(written("torchtune", 5, report) == "checkpoint:every=2");
  report.budget_bytes = 12 * report::kGiB;
  CHECK_THROWS_WITH_AS(trainer::export_config("torchtune", report.rows[5], report),
                       "'dear-13' is not possible in torchtune, and of the strategies that are, none fits the budget "
                       "of 12 GiB; the smallest is checkpoint:full with 13 GiB",
                       UsageError);
}

TEST_CASE("every=n that does not divide the blocks is not chosen for torchtune") {
  Report report = measured_report();
  report.blocks = 15;
  CHECK(written("torchtune", 2, report) == "checkpoint:full");
  CHECK(written("axolotl", 2, report) == "checkpoint:every=2");
}

TEST_CASE("without a budget the smallest strategy is written if none is as small and a note says so") {
  Report report = measured_report();
  report.rows[5].measurement.peak_bytes.allocated = 12 * report::kGiB;
  const std::string text = trainer::export_config("torchtune", report.rows[5], report).text;
  CHECK(has(first_line(text), "checkpoint:full in keys"));
  CHECK(has(text, "it needs more memory"));
}

TEST_CASE("the error names what to measure if no supported strategy was measured") {
  Report report = measured_report();
  report.rows = {report.rows[5]};
  CHECK_THROWS_WITH_AS(trainer::export_config("axolotl", report.rows[0], report),
                       doctest::Contains("'dear-13' is not possible in axolotl, and of the strategies that are, none "
                                         "was measured: memtune sweep --strategy 'none;checkpoint:full"),
                       UsageError);
}

TEST_CASE("a trial without effect is exported as none with the reason") {
  Report report = measured_report();
  report.rows.push_back(report::worked("offload:stream", 200, 1, 36 * report::kGiB));
  report.rows.back().measurement.recomputed_bytes = 0;
  report.rows.back().measurement.no_effect = "every activation is below min=1MiB";
  const std::string text = trainer::export_config("torchtune", report.rows.back(), report).text;
  CHECK(has(first_line(text), ": none in keys"));
  CHECK(has(text, "it is equal to none: nothing was offloaded; every"));
  CHECK(has(text, "enable_activation_checkpointing: false\nenable_activation_offloading: false\n"));
  report.rows.back().measurement.recomputed_bytes = 1;
  CHECK(written("torchtune", 6, report) == "none");  // torchtune supports none, and none needs no more memory
}

TEST_CASE("an ineffective offload is exported as the strategy without it whether or not that was measured") {
  for (const bool measured : {true, false})
    for (const std::string strategy : {"checkpoint:full,inputs=host", "checkpoint:full,inputs=disk",
                                       "checkpoint:axolotl-hidden", "checkpoint:full+offload:stream,fraction=0.25"}) {
      CAPTURE(strategy);
      CAPTURE(measured);
      Report report;
      report.blocks = 12;
      report.rows = {report::worked("none", 100, 1, 36 * report::kGiB),
                     report::worked("checkpoint:full", 200, 1, 8 * report::kGiB),
                     report::worked(strategy, 150, 1, 8 * report::kGiB)};
      report.rows[1].measurement.recomputed_bytes = report.rows[2].measurement.recomputed_bytes = 1;
      if (!measured) report.rows.erase(report.rows.begin() + 1);
      const trainer::ExportedConfig made = trainer::export_config("axolotl", report.rows.back(), report);
      CAPTURE(made.text);
      CHECK(has(made.text, "activation_offloading: false\n"));
      CHECK(has(first_line(made.text), ": checkpoint:full in keys"));
      CHECK(has(made.text, "it is equal to checkpoint:full: nothing was offloaded"));
      REQUIRE(made.said.size() == 1);
      CHECK(made.said[0] == strategy + ": equal to checkpoint:full: nothing was offloaded");
      report.rows.back().measurement.transfer.out_bytes = report.rows.back().measurement.transfer.disk_write_bytes = 1;
      if (strategy == "checkpoint:full,inputs=host")
        CHECK(has(trainer::export_config("axolotl", report.rows.back(), report).text, "activation_offloading: hidden"));
    }
}

TEST_CASE("an unsupported strategy is replaced by what the chosen trial did and not by its name") {
  Report report;
  report.blocks = 12;
  report.rows = {report::worked("none", 100, 1, 36 * report::kGiB),
                 report::worked("checkpoint:full", 200, 1, 8 * report::kGiB),
                 report::worked("checkpoint:full,inputs=host", 150, 1, 8 * report::kGiB),
                 report::worked("checkpoint:cheap+offload:stream", 140, 1, 9 * report::kGiB)};
  for (int i = 1; i < 4; ++i) report.rows[i].measurement.recomputed_bytes = 1;
  report.rows[3].measurement.transfer.out_bytes = 1;
  const trainer::ExportedConfig made = trainer::export_config("axolotl", report.rows[3], report);
  CHECK(has(first_line(made.text), ": checkpoint:full in keys"));
  CHECK(has(made.text, "activation_offloading: false\n"));
}

TEST_CASE("E2: a plan without keys becomes the best strategy with keys and the cost is reported at once") {
  Report report = measured_report();
  report.budget_bytes = 24 * report::kGiB;
  const std::string costs = "against dear-13 a step takes 24.0 ms (9.4 %) longer, the peak is 3 GiB higher";
  for (const std::string trainer : {"torchtune", "axolotl", "transformers", "trl"}) {
    const trainer::ExportedConfig made = trainer::export_config(trainer, report.rows[5], report);
    CHECK(made.said == std::vector<std::string>{"dear-13: " + trainer + " has no keys for it; writing " +
                                                    "checkpoint:every=2 instead, the best within 24 GiB of the " +
                                                    "measured strategies that " + trainer + " can do",
                                                costs});
    CHECK(has(made.text, "# costs:     " + costs));
  }
  CHECK(trainer::export_config("axolotl", report.rows[4], report).said.empty());
}

TEST_CASE(
    "configs are Python for torchtitan and Unsloth and TOML for 0.2 and flags for Megatron and JSON for DeepSpeed") {
  const Report report = measured_report();
  const auto ends = [&](const std::string& trainer, const std::map<std::string, std::string>& releases,
                        const std::string& keys) {
    const trainer::ExportedConfig made = trainer::export_config(trainer, report.rows[4], report, {releases, "", ""});
    CAPTURE(made.text);
    CHECK(made.text.ends_with((made.text.starts_with('#') ? "\n" : "") + keys));
  };
  ends("torchtitan", {},
       "from torchtitan.distributed.activation_checkpoint import FullAC\nconfig.activation_checkpoint = "
       "FullAC.Config()\n");
  ends("unsloth", {},
       "from_pretrained = dict(use_gradient_checkpointing=True)  # FastLanguageModel.from_pretrained(..., "
       "**from_pretrained)\n"
       "get_peft_model = dict(use_gradient_checkpointing=True)  # FastLanguageModel.get_peft_model(..., "
       "**get_peft_model)\n");
  ends("torchtitan", {{"", "0.2.2"}}, "[activation_checkpoint]\nmode = \"full\"\n");
  ends("megatron", {}, "--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n");
  ends("deepspeed", {},
       "{\n  \"activation_checkpointing\": {\n    \"cpu_checkpointing\": false,\n    \"partition_activations\": "
       "false\n  }\n}\n");
}

}  // namespace memtune::trainer_test
