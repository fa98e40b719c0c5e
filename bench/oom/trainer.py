"""transformers' Trainer on a small Llama, with its own flags: python trainer.py --output_dir FOLDER [flags]

../oom_causes.py starts it.
"""

from dataclasses import dataclass

import torch
import transformers

from common import GIB, VOCABULARY


@dataclass
class Card:
    memory_gib: float = 8
    length: int = 512
    layers: int = 12


class Rows(torch.utils.data.Dataset):
    def __init__(self, length: int):
        self.length = length

    def __len__(self) -> int:
        return 1 << 16

    def __getitem__(self, index: int) -> dict:
        ids = torch.randint(VOCABULARY, (self.length,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


def main() -> None:
    settings, card = transformers.HfArgumentParser((transformers.TrainingArguments, Card)).parse_args_into_dataclasses()
    if torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(card.memory_gib * GIB / total)
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=1024, intermediate_size=4096,
                                      num_hidden_layers=card.layers, num_attention_heads=16, use_cache=False)
    trainer = transformers.Trainer(model=transformers.LlamaForCausalLM(config), args=settings,
                                   train_dataset=Rows(card.length), eval_dataset=Rows(card.length))
    trainer.train()
    print("trained to the end", flush=True)


if __name__ == "__main__":
    main()
