// A trainer's config as flags of memtune's own sweep: known keys, the trainer's defaults, and notes about the rest.
#include "core/answer/trainer/config_to_flags_translation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::memtune_flags_test {

using namespace memtune;
using namespace memtune::trainer;

namespace {

ConfigToFlagsTranslation of(const std::string& trainer, const std::string& text) {
  return native_flags(trainer, text, text.starts_with('{') ? "x.json" : "x.yaml");
}

// "--batch 2 --pack true", sorted by name.
std::string told(const ConfigToFlagsTranslation& native) {
  std::map<std::string, std::string> flags;
  for (const MemtuneFlagFromConfig& flag : native.flags) {
    CHECK_MESSAGE(flags.emplace(flag.name, flag.value).second, flag.name);
  }
  std::string text;
  for (const auto& [name, value] : flags) text += (text.empty() ? "--" : " --") + name + " " + value;
  return text;
}

std::string refusal(const std::string& trainer, const std::string& text) {
  try {
    of(trainer, text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("axolotl flags cover packed rows and an adapter over all linear layers and a fused loss") {
  const ConfigToFlagsTranslation native =
      of("axolotl",
         "base_model: &base org/name  # the base\ntokenizer: *base\nsequence_len: 2048\n"
         "sample_packing: true\nflash_attention: true\ngradient_accumulation_steps: 4\n"
         "micro_batch_size: 2\noptimizer: adamw_bnb_8bit\nlearning_rate: 0.0002\nbf16: auto\n"
         "adapter: qlora\nload_in_4bit: true\nlora_r: 16\nlora_alpha: 32\nlora_dropout: 0.05\n"
         "lora_target_linear: true\ngradient_checkpointing: true\ncut_cross_entropy: true\n");
  CHECK(told(native) ==
        "--accumulate 4 --attention flash-varlen --autocast bf16 --batch 2 --dtype bf16 --load-in 4bit --lora "
        "r=16,alpha=32,dropout=0.05 --loss-impl fused --lr 0.0002 --max-grad-norm 1 --model org/name --optimizer "
        "adamw_8bit --pack true --seq 2048");
  REQUIRE(native.notes.size() == 1);
  CHECK(native.notes.front().starts_with("axolotl computes adapters with kernels of its own"));
  CHECK(native.unmeasured == std::vector<std::string>{"tokenizer: \"org/name\""});
  CHECK(native.strategy == "checkpoint:full");
}

TEST_CASE("keys of axolotl 0.21 that make other training are refused") {
  const auto refusals = [](const std::string& more) {
    return join(of("axolotl", "base_model: m\n" + more).refusals, "; ");
  };
  CHECK(refusals("nf4_backend: torchao\n") ==
        "nf4_backend: torchao stores 4-bit weights in a form that memtune does not have");
  CHECK(refusals("nf4_backend: bitsandbytes\ncontext_parallel: {size: 1}\n") == "");
  CHECK(refusals("context_parallel: {size: 2}\n") ==
        "context_parallel.size: splits layers or rows over several GPUs, which memtune's own models do not");
  CHECK(refusals("diffusion_lm: {alpha: 1.0}\n") ==
        "diffusion_lm.alpha: of a diffusion language model, not of language modeling");
}

TEST_CASE("a flag lists the keys that it comes from and none for a trainer's default") {
  const ConfigToFlagsTranslation native = of("trl", "model_name_or_path: m\nuse_peft: true\nlora_r: 8\n");
  const auto keys = [&](const std::string& name) {
    const auto found = std::ranges::find(native.flags, name, &MemtuneFlagFromConfig::name);
    return found == native.flags.end() ? "missing" : join(found->keys, " ");
  };
  CHECK(keys("model") == "model_name_or_path");
  CHECK(keys("lora") == "lora_r use_peft");
  CHECK(keys("batch") == "");
  CHECK(keys("attention") == "missing");
}

TEST_CASE("TRL's defaults are fp32 weights under autocast and 8 rows of 1024 and a fused loss and checkpoints") {
  const ConfigToFlagsTranslation native = of("trl", "model_name_or_path: m\nuse_peft: true\n");
  CHECK(told(native) ==
        "--accumulate 1 --autocast bf16 --batch 8 --dtype fp32 --lora r=16,alpha=32,dropout=0.05,targets=q_proj+v_proj "
        "--loss-impl "
        "fused --max-grad-norm 1 --model m --optimizer adamw --seq 1024");
  CHECK(native.strategy == "checkpoint:full");
  CHECK(native.notes.size() == 2);  // one for the adapter's targets and one for the loss
  CHECK(told(of("trl", "model_name_or_path: m\nfp16: true\nbf16: false\n")).find("--autocast fp16") !=
        std::string::npos);
}

TEST_CASE("ms-swift by default trains an adapter over all linear layers and joins a list of targets") {
  CHECK(told(of("ms-swift", "model: m\nmax_length: 512\ntorch_dtype: bfloat16\ngradient_accumulation_steps: 2\n")) ==
        "--accumulate 2 --autocast bf16 --batch 1 --dtype bf16 --lora r=8,alpha=32,dropout=0.05 --max-grad-norm 1 "
        "--model m --optimizer adamw --seq 512");
  CHECK(told(of("ms-swift", "model: m\ntarget_modules: [q_proj, v_proj]\nlora_rank: 4\n"))
            .find("--lora r=4,alpha=32,dropout=0.05,targets=q_proj+v_proj") != std::string::npos);
  const ConfigToFlagsTranslation full = of("ms-swift", "{\"model\": \"m\", \"tuner_type\": \"full\"}");
  CHECK(told(full).find("--lora") == std::string::npos);
  const ConfigToFlagsTranslation other = of("ms-swift", "model: m\ntuner_type: longlora\n");
  CHECK(other.refusals ==
        std::vector<std::string>{"tuner_type: longlora is none of memtune's, which are lora and full"});
}

TEST_CASE("LLaMA-Factory by default trains an adapter over all linear layers and reads targets with commas") {
  const ConfigToFlagsTranslation native = of("llamafactory", "model_name_or_path: m\nbf16: true\n");
  CHECK(told(native) ==
        "--accumulate 1 --autocast bf16 --batch 8 --lora r=8,dropout=0 --max-grad-norm 1 --model m --optimizer adamw "
        "--seq 2048");
  CHECK(native.strategy == "checkpoint:full");
  CHECK(native.notes.empty());
  CHECK(told(of("llamafactory", "model_name_or_path: m\nlora_target: q_proj, v_proj\nlora_rank: 4\nlora_alpha: 9\n"))
            .find("--lora r=4,alpha=9,dropout=0,targets=q_proj+v_proj ") != std::string::npos);
  CHECK(told(of("llamafactory", "model_name_or_path: a,b\n")).find("--model a,b ") != std::string::npos);
  CHECK(told(of("llamafactory", "model_name_or_path: m\nadapter_name_or_path: out/lora\n"))
            .find("--lora out/lora/adapter_config.json ") != std::string::npos);
}

TEST_CASE("LLaMA-Factory trains in float32 unless pure_bf16 is set and quantizes with double quantization") {
  const std::string full = "model_name_or_path: m\nfinetuning_type: full\n";
  CHECK(told(of("llamafactory", full + "bf16: true\n")).find("--autocast bf16 --batch 8 --dtype fp32 ") !=
        std::string::npos);
  CHECK(told(of("llamafactory", full + "pure_bf16: true\n")).find("--dtype") == std::string::npos);
  const auto quantized = [&](const std::string& more) {
    return told(of("llamafactory", "model_name_or_path: m\nquantization_bit: 4\n" + more));
  };
  CHECK(quantized("").find("--load-in 4bit ") != std::string::npos);
  CHECK(quantized("double_quantization: false\n").find("--load-in 4bit-single ") != std::string::npos);
  CHECK(of("llamafactory", "model_name_or_path: m\nquantization_bit: 4\nquantization_method: hqq\n").refusals ==
        std::vector<std::string>{"quantization_method: hqq is a form that memtune does not have"});
}

TEST_CASE("LLaMA-Factory's other tasks and other trained parameters are refused by name") {
  const auto refusals = [&](const std::string& more) {
    return join(of("llamafactory", "model_name_or_path: m\n" + more).refusals, "; ");
  };
  for (const char* stage : {"rm", "ppo", "dpo", "kto"})
    CHECK(refusals("stage: " + std::string(stage) + "\n") ==
          "stage: " + std::string(stage) +
              " is of preference tuning or reinforcement learning, not of language modeling");
  for (const char* stage : {"pt", "sft"}) CHECK(refusals("stage: " + std::string(stage) + "\n") == "");
  CHECK(refusals("additional_target: embed_tokens\nuse_dora: true\n") ==
        "additional_target, use_dora: other parameters are trained than those of memtune's --lora");
  CHECK(refusals("finetuning_type: full\nresize_vocab: true\n") == "");
  CHECK(refusals("finetuning_type: freeze\n") ==
        "finetuning_type: freeze trains other parameters than memtune, which has lora and full");
  CHECK(refusals("finetuning_type: full\nuse_badam: true\n") ==
        "use_badam: other parameters are trained than those of the model");
}

TEST_CASE("torchtune flags come from components and interpolated names and torchtune's adapter targets") {
  const std::string text =
      "output_dir: /data\nmodel:\n  _component_: torchtune.models.llama3_2.qlora_llama3_2_1b\n"
      "  lora_attn_modules: ['q_proj', 'v_proj']\n  apply_lora_to_mlp: True\n  lora_rank: 64\n  lora_alpha: 128\n"
      "  lora_dropout: 0.0\ntokenizer:\n  max_seq_len: 4096\ncheckpointer:\n  checkpoint_dir: ${output_dir}/base\n"
      "dataset:\n  packed: True\nbatch_size: 4\noptimizer:\n  _component_: bitsandbytes.optim.PagedAdamW8bit\n"
      "  lr: 3e-4\nloss:\n  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss\ndtype: bf16\n"
      "optimizer_in_bwd: True\nenable_activation_checkpointing: False\n";
  const ConfigToFlagsTranslation native = of("torchtune", text);
  CHECK(
      told(native) ==
      "--accumulate 1 --batch 4 --dtype bf16 --load-in 4bit --lora "
      "r=64,alpha=128,dropout=0.0,targets=q_proj+v_proj+gate_proj+up_proj+down_proj --loss-impl chunked=8 --lr 0.0003 "
      "--model /data/base --optimizer paged_adamw_8bit --optimizer-in-backward true --pack true --seq 4096");
  CHECK(native.strategy == "none");
  REQUIRE(native.notes.size() == 2);
  CHECK(join(native.notes, "\n").find("holds an adapter in dtype: bf16") != std::string::npos);
  CHECK(join(native.notes, "\n").find("torchtune.models.llama3_2.qlora_llama3_2_1b is not compared") !=
        std::string::npos);
}

TEST_CASE("torchtune's loss in chunks is not taken with an adapter on the head") {
  const std::string text =
      "optimizer: {_component_: torch.optim.AdamW}\nloss: {_component_: a.LinearCrossEntropyLoss}\n"
      "model: {_component_: a.lora_b, lora_rank: 8, lora_alpha: 16, lora_attn_modules: [q_proj]";
  CHECK(told(of("torchtune", text + "}\n")).find("--loss-impl chunked=8") != std::string::npos);
  const ConfigToFlagsTranslation head = of("torchtune", text + ", apply_lora_to_output: true}\n");
  CHECK(told(head).find("--loss-impl") == std::string::npos);
  CHECK(join(head.notes, "\n").find("measured are whole logits") != std::string::npos);
}

TEST_CASE("a config with an unknown key about activations has no nearest strategy") {
  const ConfigToFlagsTranslation native =
      of("axolotl", "base_model: m\nfsdp_config: {fsdp_activation_checkpointing: true}\n");
  CHECK(native.strategy.empty());
  CHECK(native.why_none == "fsdp_config.fsdp_activation_checkpointing: true is about memory, and is not known here");
  CHECK(of("axolotl", "base_model: m\n").why_none.empty());
}

TEST_CASE("an interpolated name that refers to itself ends") {
  for (const char* itself : {"${a}x", "${a}", "${a}${a}", "${"}) {
    const ConfigToFlagsTranslation native =
        of("torchtune", "a: \"" + std::string(itself) + "\"\ncheckpointer: {checkpoint_dir: \"${a}\"}\n");
    CHECK(told(native).find("--model ") != std::string::npos);
  }
}

TEST_CASE("training that memtune measures differently is reported") {
  const ConfigToFlagsTranslation native =
      of("axolotl",
         "base_model: m\nfsdp_config:\n  reshard_after_forward: true\n"
         "optimizer: muon\nadapter: lora\nlora_r: 4\nlora_alpha: 8\nlora_target_modules: [q_proj]\n");
  std::string notes = join(native.notes, "\n");
  for (const char* part : {"fsdp_config shards", "optimizer: muon is none"})
    CHECK_MESSAGE(notes.find(part) != std::string::npos, notes);
  CHECK(told(native).find("--lora r=4,alpha=8,targets=q_proj") != std::string::npos);
  CHECK(told(native).find("--optimizer") == std::string::npos);
}

TEST_CASE("a key that no flag depends on is reported by name with its value") {
  const auto unmeasured = [](const std::string& trainer, const std::string& text) {
    return join(of(trainer, text).unmeasured, "; ");
  };
  CHECK(unmeasured("trl", "model_name_or_path: m\nnew_key: {a: 1, b: [x]}\n") == "new_key.a: 1; new_key.b: [\"x\"]");
  CHECK(unmeasured("trl", "model_name_or_path: m\nnew_key:\nother: []\nmore: {}\ntext: ''\n").empty());
  // A key that a row reads, with a value that no row is for.
  CHECK(unmeasured("axolotl", "base_model: m\nattn_implementation: other\n") == "attn_implementation: \"other\"");
  CHECK(unmeasured("axolotl", "base_model: m\nattn_implementation: eager\n").empty());
  // Keys that change neither memory nor time, on their own or with these values; keys of strategies.
  CHECK(
      unmeasured("trl", "model_name_or_path: m\nlogging_steps: 5\naccelerator_config: {even_batches: true}\n").empty());
  CHECK(unmeasured("trl", "model_name_or_path: m\ndebug: ['', false]\ntf32: false\n").empty());
  CHECK(unmeasured("trl", "model_name_or_path: m\ntf32: true\n") == "tf32: true");
  CHECK(unmeasured("trl", "model_name_or_path: m\ngradient_checkpointing_kwargs: {use_reentrant: true}\n").empty());
  CHECK(unmeasured("trl", "model_name_or_path: m\nload_in_4bit: false\npacking: false\n").empty());
  CHECK(unmeasured("torchtune", "checkpointer: {checkpoint_dir: m, checkpoint_files: {filename_format: f}}\n").empty());
  CHECK(unmeasured("trl", "model_name_or_path: m\nlong: " + std::string(100, 'x') + "\n").size() < 60);
}

TEST_CASE("DPO of TRL is measured where the reference model is not in memory during training") {
  const std::string dpo = "model_name_or_path: m\nprecompute_ref_log_probs: true\nbeta: 0.2\n";
  const ConfigToFlagsTranslation native =
      of("trl", dpo +
                    "loss_type: ipo\nuse_peft: true\nlora_dropout: 0.1\n"
                    "lora_target_modules: [q_proj]\nper_device_train_batch_size: 3\n");
  CHECK(
      told(native) ==
      "--accumulate 1 --autocast bf16 --batch 3 --dtype fp32 --lora r=16,alpha=32,dropout=0,targets=q_proj --loss dpo "
      "--max-grad-norm 1 --model m --optimizer adamw --seq 1024");
  CHECK(native.refusals.empty());
  const std::string notes = join(native.notes, "\n");
  CHECK(notes.find("loss_type: ipo: measured is the sigmoid loss") != notes.npos);
  CHECK(notes.find("--loss-impl") == notes.npos);
  const auto refused = [](const std::string& text) { return !of("trl", text).refusals.empty(); };
  CHECK(refused("model_name_or_path: m\nbeta: 0.2\n"));  // with a reference model
  CHECK(refused(dpo + "sync_ref_model: true\n"));
  CHECK(refused(dpo + "loss_type: sft\n"));
  CHECK(refused(dpo + "loss_type: ipo\ndesirable_weight: 2\n"));
}

TEST_CASE("KTO of TRL is measured where the reference model is not in memory during training") {
  const std::string kto = "model_name_or_path: m\nprecompute_ref_log_probs: true\n";
  for (const char* key : {"loss_type: kto\n", "desirable_weight: 1.5\n"}) {
    const ConfigToFlagsTranslation native = of("trl", kto + key + "beta: 0.2\nper_device_train_batch_size: 4\n");
    CHECK(told(native) ==
          "--accumulate 1 --autocast bf16 --batch 4 --dtype fp32 --loss kto --max-grad-norm 1 --model m --optimizer "
          "adamw --seq 1024");
    CHECK(native.refusals.empty());
    CHECK(native.unmeasured.empty());
    const std::string notes = join(native.notes, "\n");
    CHECK(notes.find("measured as trl kto") != notes.npos);
    CHECK(notes.find("pairs") == notes.npos);
  }
  const auto refusals = [](const std::string& text) { return join(of("trl", text).refusals, "; "); };
  CHECK(refusals("model_name_or_path: m\nloss_type: kto\n") ==
        "loss_type: kto is of KTO, not of SFT; it is measured with precompute_ref_log_probs: true");
  CHECK(refusals("model_name_or_path: m\ndesirable_weight: 2\n") ==
        "desirable_weight: of KTO, not of SFT; it is measured with precompute_ref_log_probs: true");
  CHECK(refusals(kto + "loss_type: apo_zero_unpaired\n") ==
        "loss_type: apo_zero_unpaired is of KTO without an estimate of KL, or of BCO");
}

TEST_CASE("the update step of TRL's GRPO is measured without a reference model") {
  const std::string grpo = "model_name_or_path: m\nnum_generations: 8\nmax_completion_length: 512\n";
  const ConfigToFlagsTranslation native =
      of("trl", grpo +
                    "loss_type: dr_grpo\nuse_vllm: true\ntemperature: 0.7\nepsilon: 0.3\n"
                    "beta: 0.0\nentropy_coef: 0.0\nscale_rewards: false\n");
  CHECK(told(native) ==
        "--accumulate 1 --autocast bf16 --batch 8 --dtype fp32 --loss grpo --max-grad-norm 1 --model m --optimizer "
        "adamw");  // the config does not say how long a prompt is
  CHECK(native.refusals.empty());
  CHECK(native.unmeasured.empty());
  const std::string notes = join(native.notes, "\n");
  for (const char* note :
       {"without generation and rewards", "epsilon, temperature, use_vllm: of generation",
        "max_completion_length: --seq is the length", "loss_type: dr_grpo: measured is dapo", "the memory of vLLM"})
    CHECK(notes.find(note) != notes.npos);
  const std::string adapter = grpo + "use_peft: true\nlora_target_modules: [q_proj]\n";
  CHECK(told(of("trl", adapter)).find("dropout=0.05,") != std::string::npos);
  CHECK(told(of("trl", adapter + "disable_dropout: true\n")).find("dropout=0,") != std::string::npos);
  CHECK(of("trl", adapter + "beta: 0.1\n").refusals.empty());
  const auto refusals = [](const std::string& text) { return join(of("trl", text).refusals, "; "); };
  CHECK(refusals(grpo + "beta: 0.1\n") == "beta: 0.1 of GRPO needs a reference model beside the model");
  CHECK(refusals(grpo + "entropy_coef: 0.1\n") == "entropy_coef: of GRPO, and changes what its output layer computes");
  CHECK(refusals("model_name_or_path: m\nloss_type: dapo\n") ==
        "loss_type: dapo is of GRPO, not of SFT; it is measured with num_generations");
}

TEST_CASE("a reward model of TRL is measured where a key says so") {
  const std::string centred = "model_name_or_path: m\ncenter_rewards_coefficient: 0.01\ndisable_dropout: true\n";
  const ConfigToFlagsTranslation native = of("trl", centred + "use_peft: true\nlora_target_modules: [q_proj]\n");
  CHECK(told(native) ==
        "--accumulate 1 --autocast bf16 --batch 8 --dtype fp32 --lora r=16,alpha=32,dropout=0,targets=q_proj --loss "
        "reward --max-grad-norm 1 --model m --optimizer adamw --seq 1024");
  CHECK((native.refusals.empty() && native.unmeasured.empty()));
  CHECK(join(native.notes, "\n").find("--loss-impl") == std::string::npos);
  const ConfigToFlagsTranslation adapted =
      of("trl", "model_name_or_path: m\nlora_task_type: SEQ_CLS\nuse_peft: true\n");
  CHECK(told(adapted).find("dropout=0,targets=q_proj+v_proj --loss reward") != std::string::npos);
  CHECK((adapted.refusals.empty() && adapted.unmeasured.empty()));
  CHECK_FALSE(of("trl", centred + "reward_clip_range: [-1, 1]\n").refusals.empty());
}

TEST_CASE("training of another kind is refused by the keys that say so") {
  const auto refusals = [](const std::string& trainer, const std::string& text,
                           UnsupportedImageInputPolicy images = UnsupportedImageInputPolicy::refused) {
    return join(native_flags(trainer, text, "x.yaml", {}, images).refusals, "; ");
  };
  CHECK(refusals("trl", "model_name_or_path: m\nmax_completion_length: 8\n") ==
        "max_completion_length: of preference tuning or reinforcement learning, not of SFT; GRPO is measured with "
        "num_generations");
  CHECK(refusals("trl", "model_name_or_path: m\nvllm_mode: a\nepsilon: 1\ndelta: 1\ntop_p: 1\nmin_p: 0\n") ==
        "delta, epsilon, min_p and 2 more: of GRPO, not of SFT; it is measured with num_generations");
  CHECK(refusals("trl", "model_name_or_path: m\nloss_type: apo_zero\n") ==
        "loss_type: apo_zero is of DPO, not of SFT; it is measured with precompute_ref_log_probs: true");
  CHECK(refusals("trl", "model_name_or_path: m\nloss_type: nll\nuse_dora: false\nlora_modules_to_save: []\n").empty());
  const std::string par = "other parameters are trained than those of memtune's --lora";
  CHECK(refusals("trl", "model_name_or_path: m\nuse_dora: true\n") == "use_dora: " + par);
  CHECK(refusals("axolotl", "base_model: m\nlora_modules_to_save: [lm_head]\n") == "lora_modules_to_save: " + par);
  CHECK(refusals("axolotl", "base_model: m\ntensor_parallel_size: 2\n").starts_with("tensor_parallel_size: splits "));
  CHECK(refusals("axolotl", "base_model: m\ntensor_parallel_size: 1\n").empty());
  CHECK(refusals("axolotl", "base_model: m\nrl: dpo\n").starts_with("rl: dpo is of another task"));
  CHECK(refusals("torchtune",
                 "optimizer: {_component_: torch.optim.AdamW}\nloss: {_component_: a.rlhf.loss.DPOLoss}\n") != "");
  CHECK(refusals("torchtune", "batch_size: 1\n") == "trains nothing: it names no optimizer");
  const std::string images = "base_model: m\nprocessor_type: AutoProcessor\n";
  CHECK(refusals("axolotl", images).starts_with("processor_type: AutoProcessor prepares images or sound"));
  CHECK(refusals("axolotl", images, UnsupportedImageInputPolicy::left_out).empty());
  const auto notes = native_flags("axolotl", images, "x.yaml", {}, UnsupportedImageInputPolicy::left_out).notes;
  CHECK(std::ranges::any_of(notes, [](const auto& note) { return note.starts_with("processor_type: AutoProcessor"); }));
}

TEST_CASE("names of older releases and a trainer's own names of modules are taken") {
  CHECK(told(of("trl", "model_name_or_path: m\nmax_seq_length: 256\ntorch_dtype: bfloat16\n")).find("--dtype bf16") !=
        std::string::npos);
  CHECK(told(of("trl", "model_name_or_path: m\nmax_seq_length: 256\n")).ends_with("--seq 256"));
  const ConfigToFlagsTranslation old = of("trl", "model_name_or_path: m\nmax_seq_length: 256\n");
  CHECK(old.unmeasured.empty());
  CHECK(std::ranges::find(old.flags, "seq", &MemtuneFlagFromConfig::name)->keys ==
        std::vector<std::string>{"max_seq_length"});
  const std::string lora =
      "optimizer: {_component_: torch.optim.AdamW}\nmodel: {_component_: a.lora_b, lora_rank: 8, "
      "lora_alpha: 16, lora_attn_modules: [q_proj, output_proj]";
  CHECK(told(of("torchtune", lora + "}\n")).find("targets=q_proj+o_proj") != std::string::npos);
  CHECK(told(of("torchtune", lora + ", apply_lora_to_output: true}\n")).find("targets=q_proj+o_proj+lm_head") !=
        std::string::npos);
}

TEST_CASE("optimizers with states of 8 bits are not measured as AdamW") {
  for (const char* name : {"adamw_torch_8bit", "adamw_bnb_8bit"})
    CHECK(told(of("axolotl", "base_model: m\noptimizer: " + std::string(name) + "\n")).find("--optimizer adamw_8bit") !=
          std::string::npos);
  const ConfigToFlagsTranslation other = of("axolotl", "base_model: m\noptimizer: adamw_torch_4bit\n");
  CHECK(join(other.notes, "").find("optimizer: adamw_torch_4bit is none of memtune's") != std::string::npos);
}

TEST_CASE("bitsandbytes AdamW with states of 32 bits is not measured as AdamW") {
  for (const char* name : {"AdamW", "AdamW32bit"}) {
    const std::string config = "optimizer: {_component_: bitsandbytes.optim." + std::string(name) + "}\n";
    const ConfigToFlagsTranslation flags = of("torchtune", config);
    CHECK(told(flags).find("--optimizer adamw_32bit") != std::string::npos);
    CHECK(join(flags.notes, "").find("none of memtune's") == std::string::npos);
  }
}

TEST_CASE("an unreadable config is refused in one line") {
  CHECK(refusal("deepspeed", "{}").find("does not say which model it trains") != std::string::npos);
  CHECK(refusal("axolotel", "a: 1\n").find("did you mean 'axolotl'") != std::string::npos);
  CHECK(refusal("axolotl", "micro_batch_size: two\n") ==
        "x.yaml: micro_batch_size must be a whole number, not \"two\"");
  CHECK(refusal("axolotl", "{}").find("ending in .yaml") != std::string::npos);
}

TEST_CASE("an incomplete adapter config is reported as missing keys") {
  const auto native = of("axolotl", "adapter: lora\nlora_target_linear: true\nlora_r: 4\n");
  CHECK(told(native).find("--lora") == std::string::npos);
  CHECK(native.missing == std::map<std::string, std::vector<std::string>>{{"lora", {"lora_alpha"}}});
  CHECK(of("axolotl", "adapter: lora\nlora_target_linear: true\nlora_r: 4\nlora_alpha: 8\n").missing.empty());
  CHECK(of("axolotl", "lora_r: 4\n").missing.empty());
}

TEST_CASE("merged keys of a config are followed") {
  const std::string keys = "adapter: lora\nlora_target_linear: true\nlora_r: 4\nlora_alpha: 8\n";
  CHECK(told(of("axolotl", "x: &b\n  micro_batch_size: 3\n<<: *b\n" + keys)) ==
        told(of("axolotl", "micro_batch_size: 3\n" + keys)));
}

TEST_CASE("kernels of attention and products in float8 that are not measured are named") {
  const auto says = [](const std::string& trainer, const std::string& line, const std::string& note) {
    const ConfigToFlagsTranslation native = of(trainer, line + "\n");
    const bool noted =
        std::ranges::any_of(native.notes, [&](const std::string& one) { return one.find(note) != one.npos; });
    CHECK_MESSAGE(noted, trainer << ": " << line);
    CHECK_MESSAGE(native.unmeasured.empty(), trainer << ": " << join(native.unmeasured, ", "));
    const auto refused =
        std::ranges::any_of(native.refusals, [](const std::string& one) { return one.find("stored or") != one.npos; });
    CHECK_MESSAGE(!refused, trainer << ": " << line);
  };
  const std::string attention = ": its kernels are not measured: measured are those of PyTorch's attention";
  for (const char* trainer : {"transformers", "trl", "axolotl", "ms-swift"})
    for (const char* kernel :
         {"flash_attention_3", "flash_attention_4", "kernels-community/flash-attn3", "flex_attention"}) {
      const std::string line =
          std::string(trainer == std::string("ms-swift") ? "attn_impl: " : "attn_implementation: ") + kernel;
      says(trainer, line, line + attention);
    }
  says("llamafactory", "flash_attn: fa3", "flash_attn: fa3" + attention);
  CHECK(of("axolotl", "attn_implementation: flash_attention_2\n").notes.empty());
  const std::string float8 = ": products in float8 are not measured: measured are those of the dtype of the weights";
  for (const char* trainer : {"axolotl", "llamafactory"}) {
    says(trainer, "fp8: true", "fp8" + float8);
    CHECK(of(trainer, "fp8: false\n").notes.empty());
  }
  says("torchtune", "enable_fp8_training: true", "enable_fp8_training" + float8);
}

TEST_CASE("a config that only predicts or evaluates is refused") {
  for (const char* trainer : {"llamafactory", "transformers"}) {
    CAPTURE(trainer);
    const auto refusals = [&](const std::string& text) { return of(trainer, text).refusals.size(); };
    CHECK(refusals("do_train: false\n") == 1);
    CHECK(refusals("do_predict: true\n") == 1);
    CHECK(refusals("do_eval: true\n") == 1);
    CHECK(refusals("do_train: true\ndo_predict: true\ndo_eval: true\n") == 0);
    CHECK(of(trainer, "do_train: true\n").unmeasured.empty());
  }
}

TEST_CASE("axolotl computes in bf16 unless its config says otherwise") {
  const auto dtype = [](const std::string& text) {
    const std::string flags = told(of("axolotl", "base_model: m\n" + text));
    return std::pair(flags.find("--dtype bf16") != std::string::npos,
                     flags.find("--autocast bf16") != std::string::npos);
  };
  CHECK(dtype("") == std::pair(true, true));
  CHECK(dtype("fp8: true\n") == std::pair(true, true));
  CHECK(dtype("bf16: false\n") == std::pair(false, false));
  CHECK(dtype("fp16: true\n") == std::pair(false, false));
  CHECK(dtype("bf16:\n") == std::pair(false, false));  // an empty key replaces the default
  CHECK(dtype("bf16: auto\nfp16: true\n") == std::pair(false, false));
  CHECK(dtype("bf16: true\nfp16: true\n") == std::pair(true, true));
  CHECK(dtype("bf16: full\n") == std::pair(true, false));
  CHECK(dtype("bf16: false\nbfloat16: true\n") == std::pair(true, true));
  CHECK(told(of("axolotl", "base_model: m\nbf16:\nload_in_8bit: true\n")).find("--dtype fp16") != std::string::npos);
}

}  // namespace memtune::memtune_flags_test
