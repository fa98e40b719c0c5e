// Makes a sweep's configs from the user's config: which ones, in which order, and why others are skipped.
#include "core/answer/trainer/trainer_config_variants.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace memtune::config_space_test {

using namespace memtune;
using namespace memtune::trainer;

namespace {

constexpr char kTrl[] =
    "output_dir: out  # mine\nper_device_train_batch_size: 4\ngradient_accumulation_steps: 2\n"
    "gradient_checkpointing_kwargs: {use_reentrant: false}\n";

TrainerConfigVariants of(const std::string& trainer, const std::string& text,
                         const TrainerConfigVariantGenerationOptions& settings = {}) {
  return make_space(trainer, text, text.starts_with('{') ? "x.json" : "x.yaml", settings);
}

const TrainerConfigVariant* find(const TrainerConfigVariants& space, const std::string& name) {
  const auto found = std::ranges::find(space.variants, name, &TrainerConfigVariant::name);
  return found == space.variants.end() ? nullptr : &*found;
}

std::string config(const TrainerConfigVariants& space, const std::string& name) {
  const TrainerConfigVariant* variant = find(space, name);
  REQUIRE_MESSAGE(variant != nullptr, name);
  return variant->config;
}

std::string why_not(const TrainerConfigVariants& space, const std::string& name) {
  const auto found = std::ranges::find(space.skipped, name, &SkippedTrainerConfigVariant::name);
  return found == space.skipped.end() ? "" : found->reason;
}

}  // namespace

TEST_CASE("the user's own config comes first and unchanged before single changes and combinations") {
  const TrainerConfigVariants space = of("trl", kTrl);
  CHECK(space.file_name == "x.yaml");
  REQUIRE(space.variants.size() > 12);
  CHECK(space.variants.size() < 40);
  CHECK(space.variants.front().name == "own");
  CHECK(space.variants.front().config == kTrl);
  CHECK(space.variants.front().arguments.empty());
  const auto is_combined = [](const TrainerConfigVariant& variant) {
    return variant.name.find('+') != std::string::npos;
  };
  CHECK(
      std::ranges::is_partitioned(space.variants, [&](const TrainerConfigVariant& one) { return !is_combined(one); }));
  CHECK(is_combined(space.variants.back()));
}

TEST_CASE("a combination lists its parts and every variant has its memtune equivalent") {
  const TrainerConfigVariants space = of("trl", kTrl);  // TRL uses checkpointing by default
  CHECK(space.variants.front().like == "checkpoint:full");
  CHECK(find(space, "checkpoint-off")->like == "none");
  CHECK(find(space, "checkpoint-off")->parts.empty());
  CHECK(find(space, "compile")->like == "");
  CHECK(find(space, "checkpoint-off+compile")->parts == std::vector<std::string>{"checkpoint-off", "compile"});
  CHECK(find(space, "checkpoint-off+compile")->like == "none");
  CHECK(find(space, "checkpoint-off+offload")->like == "offload:stream");
  CHECK(find(space, "checkpoint-full+offload+compile")->parts == std::vector<std::string>{"offload", "compile"});
}

TEST_CASE("a setting without effect alone is still a part of combinations") {
  const TrainerConfigVariants space = of("transformers", "output_dir: out\n");
  REQUIRE(find(space, "inputs-on-host") == nullptr);
  CHECK(find(space, "checkpoint-full+inputs-on-host")->parts ==
        std::vector<std::string>{"checkpoint-full", "inputs-on-host"});
}

TEST_CASE("nested keys are merged and the rest of the text stays") {
  const TrainerConfigVariants space = of("trl", kTrl);
  CHECK(config(space, "checkpoint-every-2") ==
        "output_dir: out  # mine\nper_device_train_batch_size: 4\ngradient_accumulation_steps: 2\n"
        "gradient_checkpointing_kwargs: {use_reentrant: false, every_n_layers: 2}\ngradient_checkpointing: true\n");
  CHECK(find(space, "checkpoint-every-2")->arguments ==
        std::vector<std::string>{"--gradient_checkpointing", "True", "--gradient_checkpointing_kwargs",
                                 R"({"every_n_layers":2,"use_reentrant":false})"});
}

TEST_CASE("an option removes what another option of its axis had set") {
  const TrainerConfigVariants space =
      of("trl", "gradient_checkpointing_kwargs:\n  every_n_layers: 2\n  use_reentrant: false\n");
  CHECK(config(space, "checkpoint-full") ==
        "gradient_checkpointing_kwargs:\n  use_reentrant: false\ngradient_checkpointing: true\n");
  CHECK(why_not(space, "checkpoint-every-2") == "the same as own");
}

TEST_CASE("a config equal to another one is not run twice even if equal by defaults") {
  const TrainerConfigVariants space = of("trl", kTrl);
  CHECK(why_not(space, "checkpoint-full") == "the same as own");  // TRL's own default
  CHECK(why_not(space, "checkpoint-full+compile") == "the same as compile");
  CHECK(find(of("transformers", "output_dir: out\n"), "checkpoint-full") != nullptr);  // not the default here
}

TEST_CASE("batch sizes change at constant samples per step if they divide evenly") {
  const TrainerConfigVariants space = of("trl", kTrl);
  const auto has = [&](const char* name, const char* batch) {
    return config(space, name).find(batch) != std::string::npos;
  };
  CHECK(has("batch-x2", "per_device_train_batch_size: 8\ngradient_accumulation_steps: 1\n"));
  CHECK(has("batch-half", "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n"));
  CHECK(why_not(space, "batch-x4") == "4 x 2 samples per step cannot be split into such batches");
  CHECK(why_not(of("deepspeed", "{\"gradient_accumulation_steps\": \"auto\"}"), "batch-x2") ==
        "train_micro_batch_size_per_gpu and gradient_accumulation_steps are not both numbers here");
  CHECK(why_not(of("transformers", "auto_find_batch_size: true\n"), "batch-half") ==
        "auto_find_batch_size chooses the batch itself");
}

TEST_CASE("LLaMA-Factory's variants keep to what acts on its checkpoints") {
  const TrainerConfigVariants space = of("llamafactory", "stage: sft\n");
  CHECK(space.variants.front().like == "checkpoint:full");
  CHECK(config(space, "inputs-on-host") == "stage: sft\nuse_unsloth_gc: true\n");
  CHECK(find(space, "checkpoint-off")->arguments == std::vector<std::string>{"disable_gradient_checkpointing=True"});
  CHECK(why_not(space, "checkpoint-full") == "the same as own");
  CHECK(why_not(of("llamafactory", "disable_gradient_checkpointing: true\n"), "inputs-on-host") ==
        "use_unsloth_gc is about checkpoints: with disable_gradient_checkpointing it does nothing");
  CHECK(why_not(of("llamafactory", "model: m\n"), "liger") ==
        "a config of LLaMA-Factory v1 (USE_V1=1), which has other keys");
}

TEST_CASE("a trainer whose settings are in a script has no variants") {
  CHECK_THROWS_WITH_AS(require_variants("unsloth"), doctest::Contains("-- python train.py {gc}"), UsageError);
  CHECK_THROWS_WITH_AS(require_variants("verl"), doctest::Contains("-m verl.trainer.sft_trainer"), UsageError);
  require_variants("trl");
}

TEST_CASE("optimizers are tried only if allowed") {
  CHECK(why_not(of("trl", kTrl), "adafactor") == "it changes training: --allow optimizer tries it");
  const TrainerConfigVariants space = of("trl", kTrl, {.optimizer = true});
  CHECK(config(space, "adafactor") == std::string(kTrl) + "optim: adafactor\n");
  CHECK(why_not(space, "adamw-torch-fused") == "the same as own");
  CHECK(find(space, "checkpoint-full+paged-adamw-8bit") == nullptr);  // same as without checkpoint-full
  CHECK(find(space, "checkpoint-off+paged-adamw-8bit") != nullptr);
}

TEST_CASE("conflicting settings and settings without effect are skipped with a reason") {
  CHECK(why_not(of("transformers", "output_dir: out\n"), "inputs-on-host") ==
        "offload moves what checkpointed layers keep: without gradient_checkpointing it does nothing");
  CHECK(why_not(of("trl", "fsdp_config: {activation_checkpointing: true}\ngradient_checkpointing: false\n"),
                "checkpoint-full") ==
        "the Trainer refuses gradient_checkpointing beside fsdp_config.activation_checkpointing");
  CHECK(why_not(of("ms-swift", "gradient_checkpointing: true\n"), "checkpoint-every-2").find("every layer is") !=
        std::string::npos);
  const TrainerConfigVariants lora = of("axolotl", "adapter: lora\ngradient_checkpointing: true\n");
  CHECK(why_not(lora, "checkpoint-matmul") == "with an adapter axolotl refuses to keep matmuls");
  CHECK(why_not(lora, "offload-disk") == "axolotl 0.19 does with 'disk' what it does with true");
  CHECK(why_not(lora, "checkpoint-off") == "");
  CHECK(why_not(of("axolotl", "rl: dpo\ngradient_checkpointing: true\n"), "inputs-on-host") ==
        "trainers of rl take any activation_offloading for true");
  CHECK(why_not(of("deepspeed", "{}"), "inputs-on-host").find("deepspeed.checkpointing") != std::string::npos);
}

TEST_CASE("a setting that needs a plugin is skipped without it") {
  const std::string own = "gradient_checkpointing: true\nplugins:\n  - axolotl.integrations.liger.LigerPlugin\n";
  CHECK(find(of("axolotl", own), "liger-loss") != nullptr);
  CHECK(why_not(of("axolotl", "gradient_checkpointing: true\n"), "liger-loss").find("LigerPlugin among plugins") !=
        std::string::npos);
}

TEST_CASE("the command shows which recipes ignore a key") {
  const std::string own = "enable_activation_checkpointing: True\ndevice: cuda\n";
  const TrainerConfigVariantGenerationOptions lora = {
      .command = {"tune", "run", "lora_finetune_single_device", "--config", "{config}"}};
  CHECK(find(of("torchtune", own), "checkpoint-every-2") != nullptr);
  CHECK(why_not(of("torchtune", own, lora), "checkpoint-every-2") ==
        "only the recipes full_finetune_distributed, qat_distributed and dev/early_exit_finetune_distributed read "
        "ac_mode: "
        "elsewhere nothing would be checkpointed");
}

TEST_CASE("keys depend on the trainer's release") {
  const TrainerConfigVariants old = of("transformers", "output_dir: out\n", {.releases = {{"transformers", "5.16.1"}}});
  CHECK(why_not(old, "inputs-on-host") == "only in transformers from 5.17 on, here is 5.16.1");
  CHECK(why_not(old, "checkpoint-full+inputs-on-host") == "");
  CHECK(find(old, "checkpoint-full+inputs-on-host") == nullptr);
  const TrainerConfigVariantGenerationOptions now = {.releases = {{"transformers", "5.23.0"}}};
  // All releases take the old name
  CHECK(config(of("transformers", "a: 1\n", now), "checkpoint-full") == "a: 1\ngradient_checkpointing: true\n");
  CHECK(config(of("transformers", "activation_checkpointing: false\n", now), "checkpoint-full") ==
        "activation_checkpointing: true\n");
}

TEST_CASE("JSON keeps its formatting") {
  CHECK(
      config(of("deepspeed", "{\n  \"zero_optimization\": {\"stage\": 2},\n  \"b\": 1.50\n}\n"), "optimizer-on-host") ==
      "{\n  \"zero_optimization\": {\"stage\": 2, \"offload_optimizer\":{\"device\":\"cpu\", \"pin_memory\":true}},\n"
      "  \"b\": 1.50\n}\n");
}

TEST_CASE("without a config settings become arguments that extend those of the command") {
  const TrainerConfigVariants space =
      make_space("transformers", "", "",
                 {.command = {"python", "train.py", "--gradient-checkpointing", "--gradient_checkpointing_kwargs",
                              R"({"use_reentrant": true})", "--per_device_train_batch_size=2"}});
  CHECK(space.file_name.empty());
  CHECK(why_not(space, "checkpoint-full") == "the same as own");
  CHECK(find(space, "inputs-on-host")->arguments ==
        std::vector<std::string>{"--gradient_checkpointing_kwargs", R"({"offload":true,"use_reentrant":true})"});
  CHECK(find(space, "batch-half")->arguments ==
        std::vector<std::string>{"--gradient_accumulation_steps", "2", "--per_device_train_batch_size", "1"});
  CHECK(why_not(make_space("torchtune", "", "", {.command = {"tune", "compile=True"}}), "compile") ==
        "the same as own");
  const TrainerConfigVariants titan = make_space("torchtitan", "", "", {.command = {"train", "--compile.no-enable"}});
  CHECK(why_not(titan, "no-compile") == "the same as own");
  CHECK(find(titan, "memory-budget-0.5")->arguments ==
        std::vector<std::string>{"--compile.enable", "activation-checkpoint:memory-budget",
                                 "--activation-checkpoint.memory-budget", "0.5"});
}

TEST_CASE("a config does not try keys that the command sets because the command overrides it") {
  const TrainerConfigVariants space =
      of("trl", kTrl, {.command = {"trl", "sft", "--config", "{config}", "--torch_compile", "True"}});
  CHECK(why_not(space, "no-compile") == "torch_compile is set in the command, which takes precedence");
  CHECK(why_not(space, "compile") == "the same as own");
  CHECK(find(space, "checkpoint-off") != nullptr);
}

TEST_CASE("a file that is not the trainer's config is refused in one line") {
  const auto refused = [](const std::string& trainer, const std::string& text, const std::string& name) {
    try {
      make_space(trainer, text, name, {});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  CHECK(refused("trk", "", "x.yaml").find("did you mean 'trl'?") != std::string::npos);
  CHECK(refused("trl", "just words\n", "x.yaml") == "x.yaml:1: a config has keys with values, and this has none");
  CHECK(refused("trl", "{}", "x.json") == "x.json: a config of this trainer is a file ending in .yaml");
  CHECK(refused("deepspeed", "{\"a\"", "x.json").starts_with("x.json is not JSON"));
  CHECK(refused("deepspeed", "[]", "x.json") == "x.json must be an object");
  CHECK(refused("deepspeed", "", "").find("--config FILE") != std::string::npos);
  CHECK(refused("torchtitan", "a = 1", "x.toml").find("{args}") != std::string::npos);
  CHECK(refused("trl", "gradient_checkpointing: maybe\n", "x.yaml") ==
        "x.yaml: gradient_checkpointing must be true or false, not \"maybe\"");
  CHECK(refused("trl", "gradient_checkpointing_kwargs: 3\n", "x.yaml") ==
        "x.yaml: gradient_checkpointing_kwargs must be a mapping, not 3");
  CHECK(refused("trl", std::string("a: 1\0", 5), "x.yaml") == "x.yaml has a zero byte: it is no UTF-8 text");
  CHECK(refused("torchtune", "batch_size: ${rows}\n", "x.yaml") == "taken");
  CHECK(refused("axolotl", "micro_batch_size: 2.5\n", "x.yaml") ==
        "x.yaml: micro_batch_size must be a whole number, not 2.5");
}

TEST_CASE("a variant whose key the command sets is skipped if no argument takes the key back") {
  const auto space = [](std::vector<std::string> words) {
    TrainerConfigVariantGenerationOptions options;
    options.command = std::move(words);
    return make_space("megatron", "", "", options);
  };
  const std::string granularity = "--recompute-granularity", method = "--recompute-method";
  const TrainerConfigVariants full =
      space({"pretrain.py", granularity, "full", method, "uniform", "--recompute-num-layers", "1"});
  CHECK(why_not(full, "checkpoint-mlp") == "recompute_method is set in the command, and no argument takes it back");
  const TrainerConfigVariants modules =
      space({"pretrain.py", granularity, "selective", "--recompute-modules", "mlp", "layernorm"});
  CHECK(why_not(modules, "checkpoint-mlp") == "");
  CHECK(why_not(space({"pretrain.py", granularity, "selective", "--recompute-modules", "layernorm", "mlp"}),
                "checkpoint-norms-and-mlp") == "the same as own");
  REQUIRE(find(modules, "checkpoint-attention-again") != nullptr);
  CHECK(find(modules, "checkpoint-attention-again")->arguments ==
        std::vector<std::string>{granularity, "selective", "--recompute-modules", "core_attn"});
  CHECK(
      find(modules, "offload-attention")->arguments ==
      std::vector<std::string>{"--fine-grained-activation-offloading", "--offload-modules", "core_attn", "attn_proj"});
}

TEST_CASE("a flag without a value stands for true") {
  TrainerConfigVariantGenerationOptions options;
  options.command = {"pretrain.py", "--recompute-activations"};
  CHECK(make_space("megatron", "", "", options).variants.front().like == "");
  options.command = {"pretrain.py"};
  CHECK(make_space("megatron", "", "", options).variants.front().like == "none");
  options.releases = {{"megatron-core", "0.15.3"}};
  CHECK(why_not(make_space("megatron", "", "", options), "offload-norms") ==
        "only in megatron-core from 0.16 on, here is 0.15.3");
}

TEST_CASE("memory policies of torchtitan are tried in graph_trainer alone and checkpoints are not tried there") {
  TrainerConfigVariantGenerationOptions options;
  options.command = {"train.py", "--module", "graph_trainer.llama3"};
  const TrainerConfigVariants graph = make_space("torchtitan", "", "", options);
  CHECK(find(graph, "graph-offload")->arguments ==
        std::vector<std::string>{"--compile.memory_policy", "sac_and_offload"});
  CHECK(why_not(graph, "checkpoint-full") == "graph_trainer chooses by compile.memory_policy instead");
  options.command = {"train.py", "--module", "llama3"};
  CHECK(find(make_space("torchtitan", "", "", options), "graph-offload") == nullptr);
}

TEST_CASE("LLaMA-Factory takes key=value behind a config and flags without one") {
  const auto words = [](std::vector<std::string> command) {
    TrainerConfigVariantGenerationOptions options;
    options.command = std::move(command);
    return find(make_space("llamafactory", "", "", options), "checkpoint-off")->arguments;
  };
  CHECK(words({"llamafactory-cli", "train", "mine.yaml"}) ==
        std::vector<std::string>{"disable_gradient_checkpointing=True"});
  CHECK(words({"llamafactory-cli", "train", "--stage", "sft"}) ==
        std::vector<std::string>{"--disable_gradient_checkpointing", "True"});
  TrainerConfigVariantGenerationOptions off;
  off.command = {"llamafactory-cli", "train", "--disable_gradient_checkpointing", "True"};
  CHECK(make_space("llamafactory", "", "", off).variants.front().like == "none");
}

}  // namespace memtune::config_space_test
