"""Shared by the training scripts of this folder: a Llama of 0.9 B parameters with random weights, random tokens, and a
clock. The scripts do not use memtune."""

import json
import os
import statistics
import sys
import time
from dataclasses import dataclass, field

import torch
from torch.utils.data import Dataset


@dataclass
class Model:
    tiny: bool = field(default=False)
    length: int = field(default=2048)

    def shape(self) -> dict:
        if self.tiny:
            return dict(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                        num_attention_heads=4, num_key_value_heads=2)
        return dict(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=16,
                    num_attention_heads=16, num_key_value_heads=8)

    @property
    def tokens(self) -> int:
        return 64 if self.tiny else self.length

    def build(self):
        import transformers

        torch.manual_seed(0)
        with device():
            model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**self.shape()))
        return model if self.tiny else model.bfloat16()


def device() -> torch.device:
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if torch.cuda.is_available() else torch.device("cpu")


class Tokens(Dataset):
    def __init__(self, vocabulary: int, length: int):
        self.vocabulary, self.length = vocabulary, length

    def __len__(self):
        return 1 << 16

    def __getitem__(self, index):
        tokens = torch.randint(0, self.vocabulary, (self.length,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def tokenizer():
    import tokenizers
    import transformers

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0, "<eos>": 1, "<unk>": 2}, unk_token="<unk>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


class Clock:
    """Milliseconds from one optimizer step to the next, printed at the end with the peak of allocated memory. The peak
    is read at each step, because a trainer may reset PyTorch's peak."""

    def __init__(self):
        self.ends, self.peak = [], 0

    def step(self):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.read_peak()
        self.ends.append(time.perf_counter())

    def read_peak(self):
        if torch.cuda.is_available():
            self.peak = max(self.peak, torch.cuda.max_memory_allocated())

    def tell(self):
        self.read_peak()
        took = [1000 * (b - a) for a, b in zip(self.ends, self.ends[1:])]
        print(json.dumps({"own_clock_ms": took, "median_ms": statistics.median(took[2:]) if len(took) > 2 else None,
                          "max_memory_allocated": self.peak}), flush=True)


def for_trainer(clock: Clock):
    import transformers

    class Callback(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            clock.step()

    return Callback()


def arguments(kinds: tuple, folder: str):
    """Arguments from a YAML file, or from the command line after defaults for a short run on one device."""
    import transformers

    transformers.logging.set_verbosity_error()
    parser = transformers.HfArgumentParser(kinds)
    if len(sys.argv) > 1 and sys.argv[1].endswith((".yaml", ".yml")):
        return parser.parse_yaml_file(sys.argv[1])
    return parser.parse_args_into_dataclasses(
        ["--output_dir", folder, "--per_device_train_batch_size", "4", "--max_steps", "14", "--report_to", "none",
         "--save_strategy", "no", "--logging_steps", "1", "--optim", "adamw_torch_fused", "--disable_tqdm", "True",
         *sys.argv[1:]])
