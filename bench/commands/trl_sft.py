"""A training script as people have them, nothing of memtune in it: TRL's SFTTrainer over a Llama of 0.9 B parameters,
random weights, on made-up tokens; --lora True trains an adapter of peft.

    python trl_sft.py [ARGS.yaml] [--activation_offloading True ...]     # SFTConfig
    python trl_sft.py --tiny True --max_steps 8 --use_cpu True

Prints what hf_trainer.py prints.
"""

import sys
from dataclasses import dataclass, field

import datasets
import tokenizers
import torch
import transformers
import trl

from hf_trainer import Clock, Model


@dataclass
class Adapter:
    lora: bool = field(default=False)

    def config(self):
        if not self.lora:
            return None
        import peft
        return peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules="all-linear", task_type="CAUSAL_LM")


def rows(vocabulary: int, length: int) -> datasets.Dataset:
    tokens = torch.randint(3, vocabulary, (256, length), generator=torch.Generator().manual_seed(0))
    table = datasets.table.InMemoryTable.from_pydict({"input_ids": tokens.tolist()})
    return datasets.Dataset(table, fingerprint="made-up")


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0, "<eos>": 1, "<unk>": 2}, unk_token="<unk>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


def main():
    transformers.logging.set_verbosity_error()
    parser = transformers.HfArgumentParser((Model, Adapter, trl.SFTConfig))
    common = ["--output_dir", "sft_out", "--per_device_train_batch_size", "4", "--max_steps", "14", "--report_to", "none",
              "--save_strategy", "no", "--logging_steps", "1", "--optim", "adamw_torch_fused", "--disable_tqdm", "True"]
    arguments = sys.argv[1:]
    if arguments and arguments[0].endswith((".yaml", ".yml")):
        size, adapter, training = parser.parse_yaml_file(arguments[0])
    else:
        size, adapter, training = parser.parse_args_into_dataclasses(common + arguments)
    length = 64 if size.tiny else size.length
    training.max_length, training.dataset_kwargs = length, {"skip_prepare_dataset": True}  # they are tokens already
    model = size.build()
    clock = Clock()
    trainer = trl.SFTTrainer(model=model, args=training, processing_class=tokenizer(), callbacks=[clock],
                             train_dataset=rows(model.config.vocab_size, length), peft_config=adapter.config())
    try:
        trainer.train()
    finally:
        clock.tell()


if __name__ == "__main__":
    main()
