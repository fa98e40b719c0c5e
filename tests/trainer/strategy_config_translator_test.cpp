// Trainers accept keys without effect and keys that disable each other. The keys of every strategy are compared whole.
#include "core/answer/trainer/strategy_config_translator.h"

#include <doctest/doctest.h>

#include "core/answer/trainer/editable_user_trainer_settings.h"
#include "core/answer/trainer/trainers.h"
#include "core/base/text.h"

namespace memtune::strategy_translator_test {

using namespace memtune;
using namespace memtune::trainer;

namespace {

using Releases = std::map<std::string, std::string>;

// "key=value key=value", sorted by key. A key without a value is removed. "-": there are no keys, with the reason.
std::string keys(const std::string& trainer, const std::string& strategy, int blocks = 0, const Releases& at = {}) {
  const TrainerProfileAndPackageVersions known = known_trainer(trainer, at);
  const EditableUserTrainerSettings own(known.profile, "", "", {}, known.releases,
                                        EditableUserTrainerSettings::Absent::allowed);
  std::string why;
  const auto keys = StrategyConfigTranslator(known.profile, own, known.releases, blocks)
                        .keys_of(plan::Strategy::parse(strategy), why);
  if (!keys) return "-" + why;
  std::vector<std::string> words;
  for (const auto& [key, value] : keys->changes) words.push_back(key + (value ? "=" + *value : ""));
  return join(words, " ");
}

std::string notes(const std::string& trainer, const std::string& strategy, int blocks = 0) {
  const TrainerProfileAndPackageVersions known = known_trainer(trainer, {});
  const EditableUserTrainerSettings own(known.profile, "", "", {}, known.releases,
                                        EditableUserTrainerSettings::Absent::allowed);
  std::string why;
  const auto keys = StrategyConfigTranslator(known.profile, own, known.releases, blocks)
                        .keys_of(plan::Strategy::parse(strategy), why);
  REQUIRE(keys);
  return join(keys->notes, "; ");
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string torchtune(const std::string& mode, const std::string& checkpointing, const std::string& offloading) {
  return mode + " enable_activation_checkpointing=" + checkpointing + " enable_activation_offloading=" + offloading;
}

std::string axolotl(const std::string& offloading, const std::string& every, const std::string& selective) {
  return "activation_offloading=" + offloading + " gradient_checkpointing=true " +
         "gradient_checkpointing_kwargs.every_n_layers" + every +
         " gradient_checkpointing_kwargs.use_reentrant=false selective_checkpointing=" + selective;
}

constexpr char kMatmuls[] = "\"aten::mm\",\"aten::addmm\"";

}  // namespace

TEST_CASE("torchtune has keys for none and full checkpointing with and without offloaded inputs and every n-th block") {
  CHECK(keys("torchtune", "none") == torchtune("ac_mode", "false", "false"));
  CHECK(keys("torchtune", "checkpoint:full") == torchtune("ac_mode", "true", "false"));
  CHECK(keys("torchtune", "checkpoint:every=1") == torchtune("ac_mode", "true", "false"));
  CHECK(keys("torchtune", "checkpoint:full,inputs=host") == torchtune("ac_mode", "true", "true"));
  CHECK(keys("torchtune", "checkpoint:every=3") == torchtune("ac_mode=\"selective\" ac_option=3", "false", "false"));
  for (const char* other : {"checkpoint:op", "checkpoint:cheap", "offload:stream", "checkpoint:every=2,inputs=host",
                            "checkpoint:full,segment=4", "checkpoint:full,blocks=0-3", "checkpoint:full,inputs=disk"})
    CHECK_MESSAGE(keys("torchtune", other) == "-", other);
}

TEST_CASE("torchtune (E10): every=n is refused if it does not divide the blocks because torchtune takes one fewer") {
  CHECK(keys("torchtune", "checkpoint:every=3", 16) ==
        "-of 16 blocks it takes 5 where memtune takes 6: its peak is higher");
  CHECK(keys("torchtune", "checkpoint:every=4", 16) != "-");
}

TEST_CASE("torchtune (E10): recipes that ignore a key are noted") {
  const std::string every = notes("torchtune", "checkpoint:every=4", 16),
                    moved = notes("torchtune", "checkpoint:full,inputs=host");
  CHECK(has(every,
            "only the recipes full_finetune_distributed, qat_distributed and dev/early_exit_finetune_distributed "
            "read ac_mode"));
  CHECK(has(every, "with dropout the gradients are wrong"));
  CHECK(has(moved, "knowledge_distillation_*, ppo_* and dev/grpo_* do not read enable_activation_offloading"));
  CHECK(has(moved, "torchtune offloads only with device: cuda"));
  CHECK(notes("torchtune", "checkpoint:full") == "");
}

TEST_CASE("axolotl: none switches off all three features and checkpointing is never reentrant") {
  CHECK(keys("axolotl", "none") ==
        "activation_offloading=false gradient_checkpointing=false gradient_checkpointing_kwargs.every_n_layers "
        "selective_checkpointing=false");
  CHECK(keys("axolotl", "checkpoint:full") == axolotl("false", "", "false"));
  CHECK(keys("axolotl", "checkpoint:every=2") == axolotl("false", "=2", "false"));
}

TEST_CASE("axolotl (E1): only lists of names that keep exactly what memtune keeps are written") {
  CHECK(keys("axolotl", "checkpoint:op") == "-");  // keeps every second matmul
  CHECK(keys("axolotl", "checkpoint:cheap") == "-");
  CHECK(keys("axolotl", "checkpoint:op,save=matmul-all+attention") ==
        axolotl("false", "", std::string("{\"save\":[") + kMatmuls + ",\"attention\"]}"));
  CHECK(keys("axolotl", "checkpoint:op,save=attention,inputs=host") ==
        axolotl("\"hidden_states\"", "", "{\"save\":[\"attention\"]}"));
}

TEST_CASE("axolotl (E4): names that would keep nothing or too much are not written") {
  for (const char* name : {"rms_norm", "linear", "attention+add", "mm", "size"})
    CHECK_MESSAGE(keys("axolotl", std::string("checkpoint:op,save=") + name) == "-", name);
}

TEST_CASE("axolotl (E5): offloaded inputs become hidden_states and an offload alone has no keys") {
  CHECK(keys("axolotl", "checkpoint:full,inputs=host") == axolotl("\"hidden_states\"", "", "false"));
  CHECK(keys("axolotl", "checkpoint:every=2,inputs=host") == axolotl("\"hidden_states\"", "=2", "false"));
  for (const char* other : {"offload:stream", "offload:sync", "offload:group", "checkpoint:full+offload:stream"})
    CHECK_MESSAGE(keys("axolotl", other) == "-", other);
}

TEST_CASE("without a config the notes name keys that would interfere (E6 and E7 and E9)") {
  CHECK(has(notes("axolotl", "checkpoint:full,inputs=host"), "trainers of rl take any activation_offloading for true"));
  CHECK(has(notes("axolotl", "checkpoint:op,save=matmul-all"), "with an adapter axolotl refuses to keep matmuls"));
  CHECK_FALSE(has(notes("axolotl", "checkpoint:op,save=attention"), "adapter axolotl refuses"));
  CHECK(has(notes("axolotl", "checkpoint:full"), "with qlora and ZeRO-3 axolotl warns"));
  for (const char* trainer : {"axolotl", "transformers", "trl"}) {
    CHECK(has(notes(trainer, "checkpoint:full"), "refuses gradient_checkpointing beside fsdp_config.activation_check"));
    CHECK(has(notes(trainer, "none"), "fsdp_config.activation_checkpointing checkpoints every layer, whatever"));
  }
}

TEST_CASE("transformers has keys by release and names by release if the config has no key") {
  const std::string every = "checkpoint:every=2", moved = "checkpoint:full,inputs=host";
  CHECK(has(keys("transformers", every), "gradient_checkpointing_kwargs.every_n_layers=2"));
  CHECK(has(keys("transformers", moved), "gradient_checkpointing_kwargs.offload=true"));
  CHECK(keys("transformers", every, 0, {{"", "5.15"}}) == "-only transformers from 5.16 on has keys for it");
  CHECK(keys("transformers", moved, 0, {{"", "5.16.1"}}) == "-only transformers from 5.17 on has keys for it");
  CHECK(keys("transformers", every, 0, {{"", "5.16.1"}}) != "-");
  CHECK(keys("trl", every, 0, {{"transformers", "5.15"}}) == "-only transformers from 5.16 on has keys for it");
}

TEST_CASE("trl: kept attention becomes selective and inputs use the offload engine nearest to memtune's") {
  CHECK(has(keys("trl", "checkpoint:op,save=attention"), "gradient_checkpointing_kwargs.selective=true"));
  CHECK(has(keys("trl", "checkpoint:full,inputs=host"), "activation_offloading=true"));
  CHECK(has(keys("trl", "checkpoint:every=2,inputs=host"), "gradient_checkpointing_kwargs.offload=true"));
  CHECK(keys("trl", "checkpoint:op") == "-");
  CHECK(keys("trl", "offload:stream") == "-");  // TRL keeps five sources in flight, memtune measured other numbers
}

TEST_CASE("ms-swift only switches checkpointing on and off because it ignores every_n_layers") {
  CHECK(has(keys("ms-swift", "checkpoint:full"), "gradient_checkpointing=true"));
  for (const char* other : {"checkpoint:every=2", "checkpoint:full,inputs=host", "checkpoint:op"})
    CHECK_MESSAGE(keys("ms-swift", other) == "-", other);
}

TEST_CASE("LLaMA-Factory checkpoints unless switched off and moves inputs by use_unsloth_gc") {
  CHECK(keys("llamafactory", "none") == "disable_gradient_checkpointing=true use_reentrant_gc use_unsloth_gc");
  CHECK(keys("llamafactory", "checkpoint:full") ==
        "disable_gradient_checkpointing=false use_reentrant_gc=false use_unsloth_gc=false");
  CHECK(keys("llamafactory", "checkpoint:full,inputs=host") ==
        "disable_gradient_checkpointing=false use_reentrant_gc use_unsloth_gc=true");
  CHECK(has(notes("llamafactory", "checkpoint:full,inputs=host"), "copies run on the stream of compute"));
  for (const char* other : {"checkpoint:every=2", "checkpoint:op", "checkpoint:full,inputs=disk", "offload:stream"})
    CHECK_MESSAGE(keys("llamafactory", other) == "-", other);
}

TEST_CASE("torchtitan: selective equals memtune's op and only 0.2 has every n-th block as text") {
  CHECK(keys("torchtitan", "none") == "activation_checkpoint=\"none\"");
  CHECK(keys("torchtitan", "checkpoint:op") == "activation_checkpoint=\"selective\"");
  CHECK(keys("torchtitan", "checkpoint:every=2") == "-");
  const Releases old = {{"", "0.2.2"}};
  CHECK(keys("torchtitan", "checkpoint:op", 0, old) ==
        "activation_checkpoint.mode=\"selective\" activation_checkpoint.selective_ac_option=\"op\"");
  CHECK(keys("torchtitan", "checkpoint:every=2", 16, old) ==
        "activation_checkpoint.mode=\"selective\" activation_checkpoint.selective_ac_option=\"2\"");
  CHECK(has(keys("torchtitan", "checkpoint:every=3", 16, old), "-of 16 blocks it takes 5"));
}

TEST_CASE("Megatron recomputes all blocks or the first ones") {
  CHECK(keys("megatron", "checkpoint:full") ==
        "cpu_offloading_num_layers recompute_granularity=\"full\" recompute_method=\"uniform\" recompute_num_layers=1");
  CHECK(keys("megatron", "checkpoint:full,blocks=0-3") ==
        "cpu_offloading_num_layers recompute_granularity=\"full\" recompute_method=\"block\" recompute_num_layers=4");
  CHECK(keys("megatron", "checkpoint:full,segment=4") == "-");
  CHECK(keys("megatron", "checkpoint:full,blocks=1-3") == "-");
}

TEST_CASE("notes of DeepSpeed and accelerate say what their keys require") {
  CHECK(keys("deepspeed", "none") == "-");
  CHECK(has(notes("deepspeed", "checkpoint:full,inputs=host"), "act only on models that call deepspeed.checkpointing"));
  CHECK(has(notes("accelerate", "checkpoint:full"), "fsdp_config acts with distributed_type: FSDP only"));
}

}  // namespace memtune::strategy_translator_test
