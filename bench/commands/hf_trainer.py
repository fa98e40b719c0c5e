"""A training script as people have them, nothing of memtune in it: a Llama of 0.9 B parameters, random weights, trained
by transformers' Trainer on made-up tokens.

    python hf_trainer.py [ARGS.yaml] [--gradient_checkpointing True ...]     # TrainingArguments, as the Trainer has them
    python hf_trainer.py --tiny True --max_steps 8 --use_cpu True

At its end, however it ends, it prints what it took by its own clock, and the most memory that PyTorch allocated.
"""

import json
import statistics
import sys
import time
from dataclasses import dataclass, field

import torch
import transformers
from torch.utils.data import Dataset


@dataclass
class Model:
    tiny: bool = field(default=False)
    length: int = field(default=2048)

    def build(self):
        size = dict(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=16,
                    num_attention_heads=16, num_key_value_heads=8)
        if self.tiny:
            size = dict(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                        num_attention_heads=4, num_key_value_heads=2)
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**size))
        return model if self.tiny else model.bfloat16()


class Tokens(Dataset):
    def __init__(self, vocabulary: int, length: int):
        self.vocabulary, self.length = vocabulary, length

    def __len__(self):
        return 1 << 16

    def __getitem__(self, index):
        tokens = torch.randint(0, self.vocabulary, (self.length,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


class Clock(transformers.TrainerCallback):
    """Milliseconds from one optimizer step to the next."""

    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())

    def tell(self):
        took = [1000 * (b - a) for a, b in zip(self.ends, self.ends[1:])]
        peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
        print(json.dumps({"own_clock_ms": took, "median_ms": statistics.median(took[2:]) if len(took) > 2 else None,
                          "max_memory_allocated": peak}), flush=True)


def main():
    transformers.logging.set_verbosity_error()
    parser = transformers.HfArgumentParser((Model, transformers.TrainingArguments))
    common = ["--output_dir", "hf_out", "--per_device_train_batch_size", "4", "--max_steps", "14", "--report_to", "none",
              "--save_strategy", "no", "--logging_steps", "1", "--optim", "adamw_torch_fused", "--disable_tqdm", "True"]
    arguments = sys.argv[1:]
    if arguments and arguments[0].endswith((".yaml", ".yml")):
        size, training = parser.parse_yaml_file(arguments[0])
    else:
        size, training = parser.parse_args_into_dataclasses(common + arguments)
    model = size.build()
    clock = Clock()
    trainer = transformers.Trainer(model=model, args=training, callbacks=[clock],
                                   train_dataset=Tokens(model.config.vocab_size, 64 if size.tiny else size.length))
    try:
        trainer.train()
    finally:
        clock.tell()


if __name__ == "__main__":
    main()
