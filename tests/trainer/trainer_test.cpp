// Trainers accept keys that do nothing, or that switch each other off. Every strategy's keys are compared whole, with
// the comments that say what was lost.
#include "core/trainer/trainer.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/config/strategy.h"
#include "tests/report/sample.h"

using namespace memtune;
using report::Report;
using result::Row;

namespace {

std::string exported(const std::string& trainer, const std::string& strategy, const Report& report) {
  return trainer::export_config(trainer, report::worked(strategy, 300, 1, 20 * report::kGiB), report);
}

// Lines that are no comments.
std::string keys(const std::string& trainer, const std::string& strategy) {
  std::string result;
  for (const std::string& line : split(exported(trainer, strategy, report::sample_report()), '\n')) {
    if (!line.starts_with("#") && !line.empty()) result += line + "\n";
  }
  return result;
}

// Comments as one line with single blanks.
std::string comments(const std::string& trainer, const std::string& strategy) {
  std::string result;
  for (const std::string& line : split(exported(trainer, strategy, report::sample_report()), '\n')) {
    if (line.starts_with("#")) result += line.substr(1) + " ";
  }
  return wrap(result, 100000).front();
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

TEST_CASE("the whole file: what was measured, what was rounded, the keys") {
  CHECK(exported("torchtune", "offload:stream,stash=2GiB", report::sample_report()) ==
        R"(# memtune 0.1.0: offload:stream,stash=2GiB in keys of torchtune 0.6.1
# model:     model.pt
# settings:  tokens:int64[4,4096]<32000, next_token, adamw, bfloat16
# device:    NVIDIA H200
# measured:  step 300.0 ms (299.0 to 301.0), 1.20 x none; peak 20 GiB, 16 GiB less than none
# gradients: equal to those of none
# rounded:   to checkpoint:full,inputs=host, the nearest that torchtune can do
# nearest:   step 320.0 ms (319.5 to 320.5), 1.28 x none; peak 12 GiB, 24 GiB less than none
# note:      ac_mode has to stay null: with it set, torchtune would checkpoint nothing
# note:      offloading needs device: cuda
# note:      torchtune offloads only together with checkpointing: the inputs of blocks are moved,
#            the rest is recomputed
# note:      stash=2GiB: there are no keys for it; torchtune moves values from 1 KiB on, holds five,
#            fetches none ahead
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
  CHECK(has(comments("torchtune", "checkpoint:full"), "note: ac_mode has to stay null"));
  CHECK(has(comments("torchtune", "checkpoint:full,inputs=host"), "note: offloading needs device: cuda"));
  CHECK_FALSE(has(comments("torchtune", "checkpoint:full,inputs=host"), "rounded:"));
}

TEST_CASE("torchtune: every n-th block takes ac_mode, which acts only with the other switch off") {
  CHECK(keys("torchtune", "checkpoint:every=3") == torchtune("False", "False", "selective\nac_option: 3"));
  std::string said = comments("torchtune", "checkpoint:every=3");
  CHECK(has(said, "ac_mode acts in the recipes full_finetune_distributed and qat_distributed only"));
  CHECK(has(said, "torchtune checkpoints blocks 3, 6, ... where memtune took 1, 4, ...;"));
  CHECK(has(said, "with dropout the gradients are wrong"));
  CHECK(keys("torchtune", "checkpoint:every=1") == keys("torchtune", "checkpoint:full"));
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

TEST_CASE("the nearest strategy comes with its own measurement, or with how to get one") {
  CHECK(has(comments("torchtune", "offload:sync"), "nearest: step 320.0 ms (319.5 to 320.5), 1.28 x none"));
  CHECK(has(comments("torchtune", "checkpoint:op"),
            "nearest: not measured yet; memtune sweep --strategy checkpoint:full"));
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
  std::string said = comments("axolotl", "checkpoint:op");
  CHECK(has(said, "axolotl keeps every matmul where memtune recomputes each second one: expect a higher peak"));
  CHECK(has(said, "with a LoRA or QLoRA adapter axolotl refuses to keep matmuls"));
  CHECK_FALSE(has(comments("axolotl", "checkpoint:op,save=matmul-all"), "expect a higher peak"));
  CHECK_FALSE(has(comments("axolotl", "checkpoint:op,save=attention"), "adapter"));
}

TEST_CASE("axolotl: offload alone is offload with recompute, and that is said") {
  CHECK(keys("axolotl", "offload:stream") == axolotl("true", "", " false"));
  CHECK(keys("axolotl", "offload:sync") == axolotl("legacy", "", " false"));
  CHECK(has(comments("axolotl", "offload:stream"), "in a full fine-tune axolotl recomputes every block as well"));
  CHECK(has(comments("axolotl", "offload:stream"), "rounded: to checkpoint:full,inputs=host"));
  CHECK(has(comments("axolotl", "offload:sync"), "legacy is its engine without streams"));
  CHECK(has(comments("axolotl", "offload:stream,head=move,min=2MiB"),
            "min=2MiB, head=move: there are no keys for it; axolotl moves values from 1 KiB on"));
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
  CHECK(has(comments("axolotl", "offload:group,keep_last=2"), "keep_last=2: there are no keys for it; axolotl moves"));
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
        axolotl("hidden_states", "", "\n  save: [attention, \"aten::add\"]"));
}

TEST_CASE("blocks that differ, and a disk, get lost and that is said") {
  CHECK(keys("axolotl", "checkpoint:full,blocks=0-9") == axolotl("false", "", " false"));
  for (const std::string trainer : {"torchtune", "axolotl"}) {
    const std::string said = comments(trainer, "checkpoint:every=2,blocks=0-9");
    CHECK(has(said, "rounded: to checkpoint:every=2, the nearest that " + trainer + " can do"));
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
  CHECK(has(exported("axolotl", "checkpoint:full", report), "NVIDIA H200 (played by the CPU: no times of a GPU)\n"));
  CHECK(has(trainer::export_config("axolotl", report.rows[2], report),
            "# gradients: differ from those of none in layers.0.wq, by no more than its own runs do\n"));
  CHECK(has(trainer::export_config("axolotl", report.rows[3], report), "# gradients: the reference\n"));
}

TEST_CASE("a line feed in a model's name cannot leave its comment") {
  Report report;
  report.model = "a\nevil: true";
  CHECK(has(exported("axolotl", "none", report), "# model:     a evil: true\n"));
}

TEST_CASE("an unknown trainer is named, with those that exist") {
  CHECK_THROWS_WITH_AS(exported("torchtun", "none", Report{}),
                       "unknown trainer 'torchtun'; did you mean 'torchtune'? Known: torchtune, axolotl", UsageError);
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

TEST_CASE("a strategy that trainers have nothing like is refused") {
  CHECK_THROWS_WITH_AS(
      exported("axolotl", "planner:best", Report{}),
      "'planner:best' has no counterpart in trainers; these have: none, checkpoint:full, "
      "checkpoint:every=n, checkpoint:op, checkpoint:cheap, offload:sync, offload:stream, offload:group",
      UsageError);
  CHECK_THROWS_WITH_AS(exported("torchtune", "half=mine, a plan", Report{}),
                       doctest::Contains("'half=mine, a plan' has no counterpart in trainers"), UsageError);
}
