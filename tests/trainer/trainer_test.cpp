// Trainers accept keys that do nothing, or that switch each other off. Every strategy's keys are compared whole, with
// the comments that say what was lost.
#include "core/trainer/trainer.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/config/strategy.h"
#include "core/trainer/config.h"
#include "tests/report/sample.h"

using namespace memtune;
using report::Report;
using result::Row;

namespace {

std::string exported(const std::string& trainer, const std::string& strategy, const Report& report) {
  return trainer::export_config(trainer, report::worked(strategy, 300, 1, 20 * report::kGiB), report);
}

trainer::Config config_of(const std::string& trainer, const std::string& strategy, int blocks = 0) {
  const trainer::Trainer& of = trainer == "torchtune" ? trainer::torchtune() : trainer::axolotl();
  return of.config(trainer::Wanted(config::Strategy::parse(strategy), blocks));
}

std::string keys(const std::string& trainer, const std::string& strategy) {
  return join(config_of(trainer, strategy).keys, "\n") + "\n";
}

// The notes, and what the keys amount to where that is another strategy.
std::string comments(const std::string& trainer, const std::string& strategy, int blocks = 0) {
  const trainer::Config config = config_of(trainer, strategy, blocks);
  return (config.nearest ? "rounded: to " + to_string(*config.nearest) + ", the nearest; " : "") +
         join(config.notes, "; ");
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string torchtune(const std::string& checkpointing, const std::string& offloading, const std::string& ac_mode) {
  return "enable_activation_checkpointing: " + checkpointing + "\nenable_activation_offloading: " + offloading +
         "\nac_mode: " + ac_mode + "\n";
}

std::string axolotl(const std::string& offloading, const std::string& every, const std::string& selective) {
  return "gradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  use_reentrant: false\n" + every +
         "activation_offloading: " + offloading + "\nselective_checkpointing:" + selective + "\n";
}

}  // namespace

TEST_CASE("the whole file: what was asked for, what is written instead, whose figures these are, the keys") {
  CHECK(exported("torchtune", "offload:stream,stash=2GiB", report::sample_report()) ==
        R"(# memtune 0.1.0: checkpoint:full,inputs=host in keys of torchtune 0.6.1
# asked for: offload:stream,stash=2GiB, step 300.0 ms (299.0 to 301.0), 1.20 x none; peak 20 GiB, 16
#            GiB less than none
# but:       torchtune has no keys for it; written is checkpoint:full,inputs=host, of what torchtune
#            can do and was measured the best
#            torchtune offloads only together with checkpointing: the inputs of blocks are moved,
#            the rest is recomputed
#            stash=2GiB: there are no keys for it; torchtune moves values from 1 KiB on, holds five,
#            fetches none ahead
# model:     model.pt
# settings:  tokens:int64[4,4096]<32000, next_token, adamw, bfloat16
# device:    NVIDIA H200
# measured:  step 320.0 ms (319.5 to 320.5), 1.28 x none; peak 12 GiB, 24 GiB less than none
# whose:     memtune's own figures of checkpoint:full,inputs=host with the loss and optimizer above;
#            torchtune's own loss, optimizer and data give others
# gradients: equal to those of none
# note:      ac_mode has to stay null: with it set, torchtune would checkpoint nothing
# note:      offloading needs device: cuda; the recipes knowledge_distillation_*, ppo_* and
#            dev/grpo_* do not read its key
enable_activation_checkpointing: True
enable_activation_offloading: True
ac_mode: null
)");
}

TEST_CASE("torchtune: none and full checkpointing, with and without their inputs moved") {
  CHECK(keys("torchtune", "none") == torchtune("False", "False", "null"));
  CHECK(keys("torchtune", "checkpoint:full") == torchtune("True", "False", "null"));
  CHECK(keys("torchtune", "checkpoint:full,inputs=keep") == torchtune("True", "False", "null"));
  CHECK(keys("torchtune", "checkpoint:full,inputs=host") == torchtune("True", "True", "null"));
  CHECK(has(comments("torchtune", "checkpoint:full"), "ac_mode has to stay null"));
  CHECK(has(comments("torchtune", "checkpoint:full,inputs=host"), "offloading needs device: cuda"));
  CHECK(has(comments("torchtune", "checkpoint:full,inputs=host"), "knowledge_distillation_*, ppo_* and dev/grpo_*"));
  CHECK_FALSE(has(comments("torchtune", "checkpoint:full"), "grpo"));
  CHECK_FALSE(has(comments("torchtune", "checkpoint:full,inputs=host"), "rounded:"));
}

TEST_CASE("torchtune: every n-th block takes ac_mode, which acts only with the other switch off") {
  CHECK(keys("torchtune", "checkpoint:every=3") == torchtune("False", "False", "selective\nac_option: 3"));
  std::string said = comments("torchtune", "checkpoint:every=3");
  CHECK(has(said,
            "ac_mode acts in the recipes full_finetune_distributed, qat_distributed and "
            "dev/early_exit_finetune_distributed only"));
  CHECK(has(said, "torchtune checkpoints blocks 3, 6, ... where memtune took 1, 4, ...;"));
  CHECK(has(said, "with dropout the gradients are wrong"));
  CHECK(keys("torchtune", "checkpoint:every=1") == keys("torchtune", "checkpoint:full"));
}

TEST_CASE("torchtune: every n-th of a number of blocks that n does not divide is one block less than measured") {
  const std::string said = comments("torchtune", "checkpoint:every=3", 16);
  CHECK(has(said, "rounded: to checkpoint:every=3"));
  CHECK(has(said, "of 16 blocks torchtune checkpoints 5 where memtune measured 6: its peak is higher"));
  CHECK_FALSE(has(comments("torchtune", "checkpoint:every=4", 16), "rounded:"));
}

TEST_CASE("torchtune: what it cannot do becomes the nearest, and that is said") {
  CHECK(keys("torchtune", "checkpoint:every=2,inputs=host") == torchtune("True", "True", "null"));
  CHECK(has(comments("torchtune", "checkpoint:every=2,inputs=host"), "rounded: to checkpoint:full,inputs=host"));
  CHECK(keys("torchtune", "checkpoint:op") == torchtune("True", "False", "null"));
  CHECK(has(comments("torchtune", "checkpoint:op"), "rounded: to checkpoint:full, the nearest"));
  CHECK(has(comments("torchtune", "checkpoint:op"), "names ac_option: op but fails on it"));
  CHECK(keys("torchtune", "checkpoint:op,inputs=host") == torchtune("True", "True", "null"));
  CHECK(keys("torchtune", "offload:sync") == torchtune("True", "True", "null"));
  CHECK(has(comments("torchtune", "offload:sync"), "always copies on a stream of its own"));
  CHECK(keys("torchtune", "offload:stream") == torchtune("True", "True", "null"));
}

TEST_CASE("axolotl: none switches all three off") {
  CHECK(keys("axolotl", "none") ==
        "gradient_checkpointing: false\nactivation_offloading: false\nselective_checkpointing: false\n");
}

TEST_CASE("axolotl: checkpointing, never reentrant, with its inputs moved as hidden_states") {
  CHECK(keys("axolotl", "checkpoint:full") == axolotl("false", "", " false"));
  CHECK(keys("axolotl", "checkpoint:full,inputs=host") == axolotl("hidden_states", "", " false"));
  CHECK(keys("axolotl", "checkpoint:every=2") == axolotl("false", "  every_n_layers: 2\n", " false"));
  CHECK(keys("axolotl", "checkpoint:every=2,inputs=host") ==
        axolotl("hidden_states", "  every_n_layers: 2\n", " false"));
  CHECK(keys("axolotl", "checkpoint:every=1") == keys("axolotl", "checkpoint:full"));
}

TEST_CASE("axolotl: op is selective checkpointing, whose list names what linear becomes") {
  CHECK(keys("axolotl", "checkpoint:op") ==
        axolotl("false", "", "\n  save: [\"aten::mm\", \"aten::addmm\", attention]"));
  CHECK(keys("axolotl", "checkpoint:op,save=attention") == axolotl("false", "", "\n  save: [attention]"));
  CHECK(keys("axolotl", "checkpoint:op,save=attention,inputs=host") ==
        axolotl("hidden_states", "", "\n  save: [attention]"));
  CHECK(keys("axolotl", "checkpoint:op, save = attention + matmul-all + linear + aten::gelu") ==
        axolotl("false", "", "\n  save: [\"aten::mm\", \"aten::addmm\", attention, \"aten::gelu\"]"));
  CHECK(has(comments("axolotl", "checkpoint:op,inputs=host"),
            "rounded: to checkpoint:op,save=matmul-all+attention,inputs=host,"));
  CHECK(has(comments("axolotl", "checkpoint:op,save=linear"), "rounded: to checkpoint:op,save=matmul-all,"));
  CHECK_FALSE(has(comments("axolotl", "checkpoint:op,save=matmul-all+attention"), "rounded:"));
  std::string said = comments("axolotl", "checkpoint:op");
  CHECK(has(said, "axolotl keeps every matmul where memtune recomputes each second one: expect a higher peak"));
  CHECK(has(said, "with a LoRA or QLoRA adapter axolotl refuses to keep matmuls"));
  CHECK_FALSE(has(comments("axolotl", "checkpoint:op,save=matmul-all"), "expect a higher peak"));
  CHECK_FALSE(has(comments("axolotl", "checkpoint:op,save=attention"), "adapter"));
}

TEST_CASE("axolotl: names by which it would keep nothing, or too much, are not written") {
  CHECK(keys("axolotl", "checkpoint:op,save=rms_norm") == axolotl("false", "", " false"));
  CHECK(has(comments("axolotl", "checkpoint:op,save=rms_norm"),
            "rounded: to checkpoint:full, the nearest; rms_norm: no"));
  CHECK(keys("axolotl", "checkpoint:op,save=attention+add") == axolotl("false", "", "\n  save: [attention]"));
  CHECK(has(comments("axolotl", "checkpoint:op,save=attention+add"), "rounded: to checkpoint:op,save=attention, the"));
  CHECK_FALSE(has(comments("axolotl", "checkpoint:op,save=attention+silu"), "rounded:"));
}

TEST_CASE("axolotl: offload alone has the keys of what it is rounded to") {
  for (const char* strategy : {"offload:stream", "offload:sync", "offload:group"}) {
    CHECK(keys("axolotl", strategy) == keys("axolotl", "checkpoint:full,inputs=host"));
    CHECK(has(comments("axolotl", strategy), "rounded: to checkpoint:full,inputs=host"));
    CHECK(has(comments("axolotl", strategy), "axolotl offloads only while it recomputes every block"));
  }
  CHECK(has(comments("axolotl", "offload:stream,head=move,min=2MiB"), "min=2MiB, head=move: there are no keys for it"));
}

TEST_CASE("a choice by cost becomes whole blocks in torchtune and a list of ops in axolotl") {
  CHECK(keys("torchtune", "checkpoint:cheap") == torchtune("True", "False", "null"));
  CHECK(has(comments("torchtune", "checkpoint:cheap"), "rounded: to checkpoint:full, the nearest"));
  CHECK(keys("torchtune", "checkpoint:cheap,inputs=host") == torchtune("True", "True", "null"));
  CHECK(keys("axolotl", "checkpoint:cheap") ==
        axolotl("false", "", "\n  save: [\"aten::mm\", \"aten::addmm\", attention]"));
  CHECK(has(comments("axolotl", "checkpoint:cheap,inputs=host"),
            "rounded: to checkpoint:op,save=matmul-all+attention,inputs=host, the nearest"));
  CHECK(has(comments("axolotl", "checkpoint:cheap"), "axolotl chooses by the names of ops, not by their cost"));
}

TEST_CASE("offload:group is offload to trainers") {
  CHECK(keys("torchtune", "offload:group") == keys("torchtune", "offload:stream"));
  CHECK(keys("axolotl", "offload:group") == keys("axolotl", "offload:stream"));
  CHECK(has(comments("axolotl", "offload:group,keep_last=2"), "keep_last=2: there are no keys for it"));
}

TEST_CASE("an offload part beside a checkpoint comes down to moving the inputs of blocks") {
  for (const std::string spec : {"checkpoint:full+offload:stream,fraction=0.4", "offload:sync+checkpoint:full"}) {
    CHECK(keys("torchtune", spec) == torchtune("True", "True", "null"));
    CHECK(keys("axolotl", spec) == axolotl("hidden_states", "", " false"));
    CHECK(has(comments("axolotl", spec), "rounded: to checkpoint:full,inputs=host, the nearest"));
  }
  CHECK(
      has(comments("axolotl", "checkpoint:full+offload:stream,fraction=0.4"),
          "offload:stream,fraction=0.4: there are no keys for it beside checkpoint:full; only the inputs of blocks are "
          "moved"));
  CHECK(keys("axolotl", "checkpoint:op,save=attention+add+offload:stream") ==
        axolotl("hidden_states", "", "\n  save: [attention]"));
}

TEST_CASE("blocks that differ, and a disk, get lost and that is said") {
  CHECK(keys("axolotl", "checkpoint:full,blocks=0-9") == axolotl("false", "", " false"));
  for (const std::string trainer : {"torchtune", "axolotl"}) {
    const std::string said = comments(trainer, "checkpoint:every=2,blocks=0-9");
    CHECK(has(said, "rounded: to checkpoint:every=2, the nearest"));
    CHECK(has(said, "blocks=0-9: there are no keys for it; " + trainer + " treats all blocks alike"));
    CHECK_FALSE(has(comments(trainer, "checkpoint:full,blocks=all"), "rounded:"));
    CHECK(keys(trainer, "checkpoint:full,inputs=disk") == keys(trainer, "checkpoint:full,inputs=host"));
    CHECK(has(comments(trainer, "checkpoint:full,inputs=disk"),
              "inputs=disk: " + trainer + " has no disk that works, so they wait in host memory"));
  }
  CHECK(has(comments("torchtune", "checkpoint:full,blocks=0-3+checkpoint:op,blocks=4-"),
            "checkpoint:op,blocks=4-: there are no keys for it beside checkpoint:full"));
}

TEST_CASE("batch and sequence, where they are axes, go into each trainer's own keys") {
  Report report;
  memtune::result::Row row = report::worked("none", 300, 1, report::kGiB);
  row.batch = 4;
  row.sequence = 2048;
  std::string tune = trainer::export_config("torchtune", row, report),
              axolotl = trainer::export_config("axolotl", row, report);
  CHECK(has(tune, "\nbatch_size: 4\n"));
  CHECK(has(tune, "# note:      measured with sequences of 2048: set max_seq_len of the tokenizer to it\n"));
  CHECK(has(axolotl, "\nmicro_batch_size: 4\nsequence_len: 2048\n"));
}

TEST_CASE("the comments say when the CPU played the device, and when gradients are equal only within noise") {
  Report report = report::sample_report();
  report.emulated = true;
  CHECK(has(exported("axolotl", "checkpoint:full", report),
            "NVIDIA H200 (a CPU emulates a GPU: the times are no GPU's)\n"));
  report.rows[1].measurement.gradients = {true, false, 0.00012, "layers.0.wq", "none"};
  CHECK(has(trainer::export_config("axolotl", report.rows[1], report),
            "# gradients: differ from those of none in layers.0.wq, by no more than its own runs do\n"));
  CHECK(has(trainer::export_config("axolotl", report.rows[3], report), "# gradients: the reference\n"));
}

TEST_CASE("a line feed in a model's name cannot leave its comment, nor an escape sequence reach a terminal") {
  Report report;
  report.model = "a\nevil: true\x1b[31m";
  CHECK(has(exported("axolotl", "none", report), "# model:     a evil: true\xEF\xBF\xBD[31m\n"));
}

TEST_CASE("an unknown trainer is named, with those that exist") {
  CHECK_THROWS_WITH_AS(exported("torchtun", "none", Report{}),
                       "unknown trainer 'torchtun'; did you mean 'torchtune'? Known: torchtune, axolotl, torchtitan, "
                       "transformers, trl, ms-swift, megatron, python",
                       UsageError);
}

TEST_CASE("a trial that failed is not exported") {
  memtune::result::Row row = report::failed("none", result::Outcome::device_oom, "asked for 2 GiB");
  CHECK_THROWS_WITH_AS(trainer::export_config("axolotl", row, Report{}),
                       "'none' did not work here (device_oom): export a strategy that did", UsageError);
}

TEST_CASE("what is rounded to is a strategy, in its canonical form, that the trainer has without rounding") {
  const std::string specs[] = {"checkpoint:every=2,inputs=disk",
                               "checkpoint:op,save=silu+attention,blocks=0-3",
                               "checkpoint:cheap,inputs=host",
                               "checkpoint:full,segment=4+offload:stream",
                               "offload:stream,blocks=0-3,fraction=0.5+offload:stream,blocks=4-",
                               "offload:group",
                               "offload:sync,tier=disk",
                               "offload:stream+checkpoint:every=3"};
  for (const std::string trainer : {"torchtune", "axolotl"}) {
    for (const std::string& spec : specs) {
      const std::string said = comments(trainer, spec);
      CAPTURE(said);
      const size_t begin = said.find("rounded: to ");
      if (begin == std::string::npos) continue;
      const std::string nearest = said.substr(begin + 12, said.find(", the nearest", begin) - begin - 12);
      CHECK(to_string(config::Strategy::parse(nearest)) == nearest);
      if (spec.starts_with("checkpoint:")) CHECK(keys(trainer, nearest) == keys(trainer, spec));
      CHECK_FALSE(has(comments(trainer, nearest), "rounded: "));
    }
  }
}

namespace {

// none 36 GiB, every=2 25, cheap 24.7, op 19.5, full 13; a plan by hand 21.
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
  const std::string line = first_line(trainer::export_config(trainer, report.rows[row], report));
  return line.substr(line.find(": ") + 2, line.find(" in keys") - line.find(": ") - 2);
}

}  // namespace

TEST_CASE("what a trainer cannot do is written as the best that was measured and needs no more memory") {
  const Report report = measured_report();
  CHECK(written("torchtune", 2, report) == "checkpoint:every=2");  // faster than full, smaller than cheap
  CHECK(written("torchtune", 3, report) == "checkpoint:full");
  CHECK(written("torchtune", 5, report) == "checkpoint:full");  // a plan by hand
  CHECK(written("axolotl", 5, report) == "checkpoint:full");
  CHECK(written("torchtune", 1, report) == "checkpoint:every=2");
}

TEST_CASE("an export never breaks the budget") {
  Report report = measured_report();
  report.budget_bytes = 22 * report::kGiB;
  CHECK(written("torchtune", 5, report) == "checkpoint:full");
  CHECK(written("axolotl", 3, report) == "checkpoint:full");  // its keys would keep every matmul
  CHECK(has(trainer::export_config("axolotl", report.rows[3], report), "# budget:    22 GiB\n"));
  CHECK_THROWS_WITH_AS(trainer::export_config("torchtune", report.rows[0], report),
                       "'none' needs 36 GiB, more than the sweep's budget of 22 GiB; without --strategy the best that "
                       "keeps it is written",
                       UsageError);
  report.budget_bytes = 24 * report::kGiB;
  CHECK(written("torchtune", 5, report) == "checkpoint:every=2");
  report.budget_bytes = 12 * report::kGiB;
  CHECK_THROWS_WITH_AS(trainer::export_config("torchtune", report.rows[5], report),
                       "'dear-13' is nothing that torchtune can do, and of what it can nothing keeps the budget of "
                       "12 GiB: the least is checkpoint:full with 13 GiB",
                       UsageError);
}

TEST_CASE("every=n of blocks that n does not divide is not what torchtune would do, and not chosen") {
  Report report = measured_report();
  report.blocks = 15;
  CHECK(written("torchtune", 2, report) == "checkpoint:full");
  CHECK(written("axolotl", 2, report) == "checkpoint:every=2");
}

TEST_CASE("without a budget and with nothing as small, the least is written, and that it needs more is said") {
  Report report = measured_report();
  report.rows[5].measurement.peak_bytes.allocated = 12 * report::kGiB;
  const std::string text = trainer::export_config("torchtune", report.rows[5], report);
  CHECK(has(first_line(text), "checkpoint:full in keys"));
  CHECK(has(text, "the least, which needs"));
}

TEST_CASE("where nothing that a trainer can do was measured, what to measure is told") {
  Report report = measured_report();
  report.rows = {report.rows[5]};
  CHECK_THROWS_WITH_AS(trainer::export_config("axolotl", report.rows[0], report),
                       doctest::Contains("'dear-13' is nothing that axolotl can do, and of what it can nothing was "
                                         "measured: memtune sweep --strategy 'none;checkpoint:full"),
                       UsageError);
}

TEST_CASE("a trial that did nothing is exported as none, with the reason") {
  Report report = measured_report();
  report.rows.push_back(report::worked("offload:stream", 200, 1, 36 * report::kGiB));
  report.rows.back().measurement.recomputed_bytes = 0;
  report.rows.back().measurement.no_effect = "every value is below min=1MiB";
  const std::string text = trainer::export_config("torchtune", report.rows.back(), report);
  CHECK(has(first_line(text), ": none in keys"));
  CHECK(has(text, "so it is none: every"));
  CHECK(has(text, "enable_activation_checkpointing: False\nenable_activation_offloading: False\n"));
  report.rows.back().measurement.recomputed_bytes = 1;
  CHECK(written("torchtune", 6, report) == "none");  // needs no more, and is what torchtune can do
}
