#include "core/answer/trainer/command_trainers.h"

#include <algorithm>
#include <string>

#include "core/base/text.h"

namespace memtune::trainer {
namespace {

// Looked up in the trainers' own sources and examples. docs/how-to/measure-a-training-script.md has the same commands.
constexpr TrainerWithoutProfile kTrainers[] = {
    {"verl", "",
     "memtune sweep --try 'gc=True;False' -- torchrun --nproc-per-node 2 -m verl.trainer.sft_trainer model.path=MODEL "
     "data.train_files=FILE model.enable_gradient_checkpointing={gc}"},
    {"OpenRLHF", "",
     "memtune sweep --try 'batch=1;2;4' -- deepspeed --module openrlhf.cli.train_sft --model.model_name_or_path MODEL "
     "--data.dataset FILE --model.gradient_checkpointing_enable --train.micro_batch_size {batch}"},
    {"NeMo-Automodel", "automodel",
     "memtune sweep --try 'ac=true;false' -- automodel recipe.yaml --nproc-per-node 1 "
     "--distributed.activation_checkpointing {ac}"},
    {"NeMo-RL", "nemo",
     "memtune sweep --try 'ac=true;false' -- uv run examples/run_sft.py --config examples/configs/sft.yaml "
     "policy.dtensor_cfg.activation_checkpointing={ac}"},
    {"diffusers", "",
     "memtune sweep --try 'batch=1;2;4' -- accelerate launch train_text_to_image_lora.py "
     "--pretrained_model_name_or_path MODEL --train_data_dir DATA --gradient_checkpointing --train_batch_size {batch}"},
    {"sd-scripts", "kohya",
     "memtune sweep --try 'swap=0;8;16' -- accelerate launch flux_train_network.py --config_file mine.toml "
     "--gradient_checkpointing --blocks_to_swap {swap}"},
    {"ai-toolkit", "", "memtune sweep --try 'file=plain.yaml;checkpointed.yaml' -- python run.py {file}"},
    {"sentence-transformers", "sbert", "memtune sweep --try 'batch=16;32;64' -- python train.py --batch {batch}"},
    {"Lightning", "pytorchlightning",
     "memtune sweep --try 'batch=4;8' -- python main.py fit --config mine.yaml --trainer.default_root_dir {folder} "
     "--data.batch_size {batch}"},
    {"litgpt", "",
     "memtune sweep --try 'batch=1;2;4' -- litgpt finetune_lora MODEL --config mine.yaml "
     "--train.micro_batch_size {batch}"},
    {"nanotron", "",
     "memtune sweep --try 'file=plain.yaml;recompute.yaml' -- torchrun --nproc-per-node 2 run_train.py "
     "--config-file {file}"},
    {"prime-rl", "", "memtune sweep --try 'every=1;2;4' -- uv run sft @ sft.toml --model.ac.freq {every}"},
};

std::string letters_of(std::string_view name) {
  std::string letters = dashed(name, name.size());
  std::erase(letters, '-');
  return letters;
}

}  // namespace

std::span<const TrainerWithoutProfile> command_trainers() { return kTrainers; }

const TrainerWithoutProfile* find_command_trainer(std::string_view name) {
  const auto found = std::ranges::find_if(kTrainers, [&](const TrainerWithoutProfile& one) {
    return is_same_name(name, one.name) || (!one.also.empty() && letters_of(name) == one.also);
  });
  return found == std::end(kTrainers) ? nullptr : found;
}

bool is_same_name(std::string_view a, std::string_view b) { return letters_of(a) == letters_of(b); }

}  // namespace memtune::trainer
