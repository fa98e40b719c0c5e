// Tests whether a config does what it seems to say. Each mistake that a trainer's parser accepts is reported with its
// line.
#include "core/answer/trainer/config_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"

namespace memtune::config_check_test {

using namespace memtune;
using trainer::ConfigProblemsAndEquivalentStrategy;

namespace {

ConfigProblemsAndEquivalentStrategy check(const std::string& trainer, const std::string& text,
                                          const std::string& name = "x.yaml",
                                          const std::map<std::string, std::string>& releases = {}) {
  return trainer::check_config(trainer, text, name, releases, 16);
}

// "3: text" for each problem.
std::vector<std::string> problems(const ConfigProblemsAndEquivalentStrategy& check) {
  std::vector<std::string> lines;
  for (const trainer::ConfigProblem& problem : check.problems)
    lines.push_back(std::to_string(problem.line) + ": " + problem.text);
  return lines;
}

std::string meaning(const ConfigProblemsAndEquivalentStrategy& check) {
  return check.meaning ? (check.meaning->nearly ? "nearly " : "") + check.meaning->strategy : "";
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a memory setting with a typo is reported at the top level and in mappings of known keys") {
  const ConfigProblemsAndEquivalentStrategy found =
      check("axolotl",
            "base_model: x\ngradient_checkpoiting: true\ngradient_checkpointing_kwargs:\n"
            "  every_n_layer: 2\nselective_checkpointing: {saved: [attention]}\n"
            "gradient_checkpointing: true\n");
  CHECK(problems(found) ==
        Lines{"2: unknown key gradient_checkpoiting; did you mean gradient_checkpointing?",
              "4: unused key gradient_checkpointing_kwargs.every_n_layer; did you mean every_n_layers?",
              "5: unused key selective_checkpointing.saved; did you mean save?"});
  CHECK(problems(check("deepspeed", "{\"activation_checkpointing\":\n {\"cpu_checkpoint\": true}}", "x.json")) ==
        Lines{"2: unused key activation_checkpointing.cpu_checkpoint; did you mean cpu_checkpointing?"});
  CHECK(problems(check("accelerate", "distributed_type: FSDP\nfsdp_config:\n  fsdp_activation_cpu_offload: true\n")) ==
        Lines{"3: unused key fsdp_config.fsdp_activation_cpu_offload"});
}

TEST_CASE("names of modules in axolotl's selective_checkpointing are known keys and no strategy of memtune's") {
  const ConfigProblemsAndEquivalentStrategy found =
      check("axolotl", "gradient_checkpointing: true\nselective_checkpointing: {save_modules: [mlp]}\n");
  CHECK(problems(found).empty());
  CHECK(meaning(found) == "");
  CHECK(problems(check("axolotl",
                       "gradient_checkpointing: true\nactivation_offloading: legacy\n"
                       "expert_parallel_backend: torch\n")) ==
        Lines{"2: axolotl refuses this activation_offloading beside expert_parallel_backend: torch"});
}

TEST_CASE("an invalid value is reported even if the trainer's parser accepts it") {
  CHECK(problems(check("torchtitan", "[activation_checkpoint]\nmode = \"selectiv\"\n", "x.toml", {{"", "0.2.2"}})) ==
        Lines{"2: activation_checkpoint.mode must be 'selective' or 'full' or 'memory_budget' or 'none', not "
              "\"selectiv\""});
  CHECK(problems(check("megatron",
                       "--offload-modules core_attn mlp\n--fine-grained-activation-offloading\n"
                       "--activation-offload-fraction 1.5\n--min-offloaded-tensor-size -1\n",
                       "x.sh")) ==
        Lines{"1: offload_modules must be a list of attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1, "
              "moe_act, fused_group_mlp, not [\"core_attn\",\"mlp\"]",
              "3: activation_offload_fraction must be 0 to 1, not 1.5",
              "4: min_offloaded_tensor_size must be at least 0, not -1"});
  CHECK(problems(check("trl", "gradient_checkpointing: 1\n")) ==
        Lines{"1: gradient_checkpointing must be true or false, not 1"});
}

TEST_CASE("conflicting settings and settings without effect are reported") {
  CHECK(problems(check("torchtune", "seed: 1\nenable_activation_checkpointing: true\nac_mode: selective\n")) ==
        Lines{"3: with ac_mode beside enable_activation_checkpointing torchtune checkpoints nothing"});
  CHECK(meaning(check("torchtune", "enable_activation_checkpointing: true\nac_mode: selective\n")) == "none");
  CHECK(problems(check("trl", "fsdp_config: {activation_checkpointing: true}\n")).size() == 1);
  CHECK(problems(check("torchtitan", "[activation_checkpoint]\nmode = \"memory_budget\"\n[compile]\nenable = false\n",
                       "x.toml", {{"", "0.2.2"}}))
            .size() == 1);
  CHECK(problems(check("megatron", "--recompute-granularity full \\\n--recompute-num-layers 2\n", "x.sh")) ==
        Lines{"1: Megatron refuses recompute_granularity full without recompute_method"});
  CHECK(problems(check("trl", "gradient_checkpointing: true\n")).empty());
}

TEST_CASE(
    "a key and a word that another release has are reported, and what Megatron recomputes in parts is no strategy") {
  const std::string offload = "--fine-grained-activation-offloading\n--offload-modules core_attn attn_proj\n";
  CHECK(problems(check("megatron", offload, "x.sh")).empty());
  CHECK(problems(check("megatron", offload, "x.sh", {{"", "0.15"}})) ==
        Lines{"1: fine_grained_activation_offloading is of megatron-core from 0.16 on; 0.15 ignores it",
              "2: offload_modules is of megatron-core from 0.16 on; 0.15 ignores it"});
  const std::string norm =
      "--recompute-granularity selective\n--recompute-modules gdn_norm_out\n"
      "--experimental-attention-variant gated_delta_net\n";
  CHECK(problems(check("megatron", norm, "x.sh")).empty());
  CHECK(problems(check("megatron", norm, "x.sh", {{"", "0.18.2"}})) ==
        Lines{"2: gdn_norm_out is of Megatron-Core from 0.19 on"});
  CHECK(problems(check("megatron", "--fine-grained-activation-offloading --offload-modules attn_proj", "x.sh")) ==
        Lines{"1: Megatron refuses attn_proj in offload_modules without core_attn"});
  CHECK(check("megatron", norm, "x.sh").why_none ==
        "recompute_granularity selective recomputes [\"gdn_norm_out\"] alone, where memtune recomputes ops of whole "
        "blocks");
  CHECK(check("megatron", offload, "x.sh").why_none ==
        "fine_grained_activation_offloading offloads the inputs of [\"core_attn\",\"attn_proj\"], where memtune "
        "offloads activations of whole blocks");
  const auto uniform = [](const char* n) {
    return meaning(check(
        "megatron", "--recompute-granularity full --recompute-method uniform --recompute-num-layers " + std::string(n),
        "x.sh"));
  };
  CHECK(uniform("1") == "checkpoint:full");
  CHECK(uniform("4") == "checkpoint:megatron-uniform,layers=4");
}

TEST_CASE("DeepCompile offloads by keys of its own, which exclude each other and need a release") {
  const auto of = [](const std::string& compile, const char* release = "0.19.8") {
    return check("deepspeed", "{\"zero_optimization\": {\"stage\": 3},\n \"compile\": {" + compile + "}}", "x.json",
                 {{"", release}});
  };
  const std::string offload = "\"deepcompile\": true, \"offload_activation\": true";
  CHECK(problems(of(offload)).empty());
  CHECK(of(offload).why_none ==
        "DeepCompile offloads as many saved activations as its memory budget requires, which no strategy of memtune "
        "does");
  CHECK(problems(of(offload, "0.19.4")) ==
        Lines{"2: compile.offload_activation acts from DeepSpeed 0.19.6 on: before, it is read and does nothing"});
  CHECK(problems(of("\"offload_activation\": true")).size() == 1);
  CHECK(problems(of(offload + ", \"offload_parameters\": true")) ==
        Lines{"2: DeepSpeed refuses compile.offload_activation beside compile.offload_parameters"});
  CHECK(problems(of("\"offload_activations\": true")) ==
        Lines{"2: unused key compile.offload_activations; did you mean offload_activation?"});
}

TEST_CASE("accelerate's offloads are checked with the version of FSDP and the stage of ZeRO that they need") {
  const auto fsdp = [](const std::string& version, const std::string& more) {
    return problems(
        check("accelerate", "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: " + version + "\n" + more));
  };
  const std::string offload = "  fsdp_activation_checkpointing_offload: true\n";
  CHECK(fsdp("2", "  fsdp_activation_checkpointing: true\n" + offload).empty());
  CHECK(fsdp("1", "  fsdp_activation_checkpointing: true\n" + offload) ==
        Lines{"5: accelerate refuses fsdp_activation_checkpointing_offload with fsdp_version 1"});
  CHECK(fsdp("2", offload) ==
        Lines{"4: accelerate refuses fsdp_activation_checkpointing_offload without fsdp_activation_checkpointing"});
  const auto zero = [](const std::string& more) {
    return check("accelerate", "distributed_type: DEEPSPEED\ndeepspeed_config:\n" + more);
  };
  CHECK(problems(zero("  zero_stage: 2\n  offload_param_device: cpu\n")) ==
        Lines{"4: offload_param_device needs ZeRO stage 3"});
  const ConfigProblemsAndEquivalentStrategy stage = zero("  zero_stage: 3\n  offload_param_device: cpu\n");
  CHECK(problems(stage).empty());
  CHECK(stage.why_none ==
        "DeepSpeed shards states (ZeRO stage 3, offload_optimizer_device: none, offload_param_device: cpu); what is "
        "checkpointed the script itself decides");
}

TEST_CASE("torchtitan's memory_policy is read where the command has it") {
  const auto of = [](const std::string& policy) {
    return check("torchtitan", "--module graph_trainer.llama3 --compile.memory_policy " + policy, "x.sh");
  };
  CHECK(meaning(of("full")) == "nearly checkpoint:full");
  CHECK(meaning(of("eager")) == "nearly checkpoint:op");
  CHECK(of("sac_and_offload").why_none ==
        "memory_policy sac_and_offload keeps the largest results of costly ops on the host, up to 100.0 GB");
  CHECK(problems(of("offload")).size() == 1);
}

TEST_CASE("kernels of attention and products in float8 that memtune does not measure are noted") {
  struct Case {
    const char *trainer, *text, *name, *release;
  };
  const auto noted = [](const Case& one, const char* what) {
    const ConfigProblemsAndEquivalentStrategy found = check(one.trainer, one.text, one.name, {{"", one.release}});
    CHECK_MESSAGE(std::ranges::count(found.notes, std::string("memtune's own figures are ") + what) == 1,
                  one.trainer << ": " << one.text);
  };
  for (const Case& one :
       std::initializer_list<Case>{{"transformers", "attn_implementation: flash_attention_4\n", "x.yaml", "5.17"},
                                   {"trl", "attn_implementation: kernels-community/flash-attn3\n", "x.yaml", "1.16"},
                                   {"axolotl", "attn_implementation: flash_attention_3\n", "x.yaml", "0.21"},
                                   {"ms-swift", "attn_impl: flash_attention_3\n", "x.yaml", "4.6"},
                                   {"llamafactory", "flash_attn: fa3\n", "x.yaml", "0.9.5"}})
    noted(one, "with PyTorch's attention, not with these kernels");
  for (const Case& one : std::initializer_list<Case>{
           {"axolotl", "fp8: true\n", "x.yaml", "0.21"},
           {"llamafactory", "fp8: true\n", "x.yaml", "0.9.5"},
           {"torchtune", "enable_fp8_training: true\n", "x.yaml", "0.6.1"},
           {"accelerate", "distributed_type: FSDP\nmixed_precision: fp8\n", "x.yaml", "1.15"},
           {"torchtitan", "[model]\nconverters = [\"quantize.linear.float8\"]\n", "x.toml", "0.2.2"},
           {"torchtitan", "--module llama3 --config llama3_debugmodel_float8\n", "x.sh", "0.3.0"},
           {"megatron", "--fp8-format hybrid\n", "x.sh", "0.19.2"}})
    noted(one, "without products in float8 or float4");
}

TEST_CASE("LLaMA-Factory checkpoints by default and by each of its other switches") {
  const auto of = [](const std::string& text) { return check("llamafactory", text); };
  CHECK(meaning(of("stage: sft\n")) == "checkpoint:full");
  CHECK(meaning(of("disable_gradient_checkpointing: true\n")) == "none");
  CHECK(meaning(of("disable_gradient_checkpointing: true\ngradient_checkpointing: true\n")) == "checkpoint:full");
  CHECK(meaning(of("disable_gradient_checkpointing: true\nfsdp_config: {activation_checkpointing: true}\n")) ==
        "checkpoint:full");
  CHECK(meaning(of("use_unsloth_gc: true\n")) == "checkpoint:full,inputs=host");
  CHECK(meaning(of("use_unsloth: true\n")) == "nearly checkpoint:full,inputs=host");
  CHECK(problems(of("use_unsloth_gc: true\ndisable_gradient_checkpointing: true\n")) ==
        Lines{"2: use_unsloth_gc is about checkpoints: with disable_gradient_checkpointing it does nothing"});
  const ConfigProblemsAndEquivalentStrategy other = of("model: m\nkernel_config: {name: auto}\n");
  CHECK(meaning(other) == "");
  CHECK(problems(other) == Lines{"1: a config of LLaMA-Factory v1 (USE_V1=1), which has other keys"});
}

TEST_CASE("a script of Unsloth has the value that it sets and none if that is not in the text") {
  const auto of = [](const std::string& value) {
    return check("unsloth",
                 "model = FastLanguageModel.get_peft_model(model, use_gradient_checkpointing = " + value + ")\n",
                 "train.py");
  };
  CHECK(meaning(of("True")) == "checkpoint:full");
  CHECK(meaning(of("False")) == "none");
  CHECK(meaning(of("\"unsloth\"")) == "checkpoint:full,inputs=host");
  CHECK(meaning(of("gc")) == "");
  CHECK(of("True, load_in_fp8 = False").notes.empty());
  for (const char* value : {"True", "\"block\""})
    CHECK(of(std::string("False, load_in_fp8 = ") + value).notes ==
          Lines{"memtune's own figures are without weights and products in float8"});
  CHECK(meaning(of("False, load_in_fp8 = True")) == "none");
}

TEST_CASE("E7 and E8: the check derives the strategy from all keys of a config") {
  const ConfigProblemsAndEquivalentStrategy fsdp =
      check("axolotl", "gradient_checkpointing: false\nfsdp_config:\n  activation_checkpointing: true\n");
  CHECK(meaning(fsdp) == "checkpoint:full");
  CHECK(fsdp.notes == Lines{"fsdp_config.activation_checkpointing checkpoints every layer, whatever "
                            "gradient_checkpointing says"});
  const ConfigProblemsAndEquivalentStrategy lora =
      check("axolotl", "adapter: lora\ngradient_checkpointing: true\nactivation_offloading: true\n");
  CHECK(meaning(lora) == "nearly checkpoint:full,inputs=host");
  REQUIRE(lora.notes.size() == 1);
  CHECK(lora.notes[0].starts_with("with an adapter axolotl checkpoints every layer"));
}

TEST_CASE("keys of other releases are reported") {
  const std::string renamed = "activation_checkpointing: true\n";
  CHECK(meaning(check("transformers", renamed)) == "checkpoint:full");
  CHECK(problems(check("transformers", renamed, "x.yaml", {{"", "5.17.0"}})) ==
        Lines{"1: transformers 5.17.0 has no key activation_checkpointing: it is called gradient_checkpointing there"});
  const ConfigProblemsAndEquivalentStrategy old =
      check("transformers", "gradient_checkpointing: true\n", "x.yaml", {{"", "5.23"}});
  CHECK(problems(old).empty());
  CHECK(old.notes.empty());
  CHECK(
      problems(check("transformers", "gradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  offload: true\n",
                     "x.yaml", {{"", "5.16.1"}})) ==
      Lines{"3: gradient_checkpointing_kwargs.offload is of transformers from 5.17 on; 5.16.1 ignores it"});
}

TEST_CASE("the check derives strategies from defaults and every n-th block and lists of names and other engines") {
  CHECK(meaning(check("trl", "output_dir: out\n")) == "checkpoint:full");
  CHECK(meaning(check("transformers", "output_dir: out\n")) == "none");
  CHECK(
      meaning(check("axolotl", "gradient_checkpointing: true\ngradient_checkpointing_kwargs: {every_n_layers: 3}\n")) ==
      "checkpoint:every=3");
  CHECK(meaning(check("axolotl",
                      "gradient_checkpointing: true\nselective_checkpointing:\n  save:\n  - attention\n"
                      "  - aten::addmm\n  - aten::mm\n")) == "checkpoint:op,save=matmul-all+attention");
  CHECK(meaning(check("axolotl",
                      "gradient_checkpointing: true\nselective_checkpointing: {save: [aten::rms_norm]}\n")) == "");
  CHECK(meaning(check("torchtune", "ac_mode: selective\nac_option: 3\n")) == "nearly checkpoint:every=3");
  CHECK(meaning(check("ms-swift", "gradient_checkpointing_kwargs: {every_n_layers: 2}\n")) == "checkpoint:full");
  CHECK(meaning(check("trl", "gradient_checkpointing: false\nactivation_offloading: true\n")) ==
        "nearly offload:stream");
  CHECK(meaning(check("deepspeed", "{}", "x.json")) == "");
  CHECK(meaning(check("torchtitan", "[job]\n", "x.toml", {{"", "0.2.2"}})) == "checkpoint:every=2");
  CHECK(meaning(check("torchtitan", "--module llama3 --compile.enable activation-checkpoint:full\n", "x.sh")) ==
        "checkpoint:full");
  CHECK(meaning(check("torchtitan", "c.activation_checkpoint = SelectiveAC.Config()\n", "x.py")) == "checkpoint:op");
  CHECK(meaning(check("megatron", "--num-layers 16\n", "x.sh")) == "none");
}

TEST_CASE("a program with several configs has no single strategy") {
  const ConfigProblemsAndEquivalentStrategy found =
      check("torchtitan", "a(activation_checkpoint=FullAC.Config())\nb(activation_checkpoint=None)\n", "x.py");
  CHECK(meaning(found) == "");
  CHECK(found.notes.size() == 1);
}

TEST_CASE("real configs with keys other than memory settings have no problems") {
  const std::filesystem::path folder = std::filesystem::path(MEMTUNE_SOURCE_DIR) / "tests/trainer/own";
  size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string trainer = entry.path().stem().string();
    for (const std::string suffix : {"-lora", "-zero"})
      if (trainer.ends_with(suffix)) trainer.resize(trainer.size() - suffix.size());
    CAPTURE(entry.path());
    CHECK(problems(check(trainer, read_file(entry.path()), entry.path().string())).empty());
    ++read;
  }
  CHECK(read >= 9);
}

TEST_CASE("aliases and merges of a config are followed and references of OmegaConf are reported") {
  CHECK(meaning(check("axolotl",
                      "x: &b {every_n_layers: 2}\ngradient_checkpointing: true\n"
                      "gradient_checkpointing_kwargs:\n  <<: *b\n")) == "checkpoint:every=2");
  CHECK(meaning(check("axolotl", "x: &b true\ngradient_checkpointing: *b\n")) == "checkpoint:full");
  CHECK(check("axolotl", "x: true\ngradient_checkpointing: ${x}\n").notes ==
        Lines{"gradient_checkpointing is '${x}', which is not followed"});
  CHECK_THROWS_WITH_AS(check("torchtitan", "[activation_checkpoint]\nmode = 'full'\n", "x.toml"),
                       "x.toml: torchtitan 0.3.0 takes no .toml file; --trainer-version below 0.3 does", UsageError);
  CHECK(meaning(check("torchtitan", "activation_checkpoint = {mode = 'full'}\n", "x.toml", {{"", "0.2.2"}})) ==
        "checkpoint:full");
}

TEST_CASE("the keys that decide are named with the strategy") {
  const auto reason = [](const std::string& trainer, const std::string& text, const std::string& name = "x.yaml") {
    return check(trainer, text, name).meaning.value().reason;
  };
  CHECK(reason("transformers", "gradient_checkpointing: true\n") == "gradient_checkpointing: true");
  CHECK(reason("trl", "activation_offloading: false\n") ==
        "activation_offloading: false, gradient_checkpointing: true by default");
  CHECK(reason("transformers", "seed: 1\n") == "gradient_checkpointing: false by default");
}

TEST_CASE("a config that amounts to no strategy says why") {
  const auto why = [](const std::string& trainer, const std::string& text, const std::string& name = "x.yaml",
                      const std::map<std::string, std::string>& releases = {}) {
    const ConfigProblemsAndEquivalentStrategy result = check(trainer, text, name, releases);
    CHECK(result.meaning.has_value() == result.why_none.empty());
    return result.why_none;
  };
  CHECK(why("accelerate", "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2}\n") ==
        "DeepSpeed shards states (ZeRO stage 2, offload_optimizer_device: none, offload_param_device: none); what is "
        "checkpointed the script itself decides");
  CHECK(why("accelerate", "distributed_type: MULTI_GPU\n").starts_with("distributed_type: MULTI_GPU keeps"));
  CHECK(why("accelerate", "distributed_type: FSDP\nfsdp_config: {fsdp_version: 1}\n")
            .starts_with("none of fsdp_config."));
  CHECK(
      why("deepspeed", R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})", "x.json") ==
      "ZeRO stage 3 (offload_optimizer: none, offload_param: cpu) keeps activations as they are; what is checkpointed "
      "the script itself decides");
  // Before 1.15.0 accelerate checkpointed each child of a block by itself; then it could offload the inputs too.
  const std::string fsdp2 =
      "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_activation_checkpointing: true";
  CHECK(why("accelerate", fsdp2 + "}\n", "x.yaml", {{"", "1.14.0"}}).starts_with("FSDP2 of accelerate before 1.15"));
  CHECK(check("accelerate", fsdp2 + "}\n").meaning->strategy == "checkpoint:full");
  const auto offloaded = check("accelerate", fsdp2 + ", fsdp_activation_checkpointing_offload: true}\n");
  CHECK(offloaded.meaning->strategy == "checkpoint:full,inputs=host");
  CHECK(offloaded.problems.empty());
}

TEST_CASE("a key about memory that is not known is never passed over") {
  const auto why = [](const std::string& key) {
    const ConfigProblemsAndEquivalentStrategy result = check("transformers", key + "\n");
    return result.meaning ? result.meaning->strategy : result.why_none;
  };
  for (const char* key : {"activation_offload: true", "recompute_granularity: \"full\"", "tiled_mlp: true"})
    CHECK(why(key) == std::string(key) + " is about memory, and is not known here");
  for (const char* off : {"tiled_mlp: false", "tiled_mlp:", "recompute_granularity: none"}) CHECK(why(off) == "none");
}

}  // namespace memtune::config_check_test
