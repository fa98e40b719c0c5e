"""A typical training script: TRL's SFTTrainer. With lora: true it trains a peft adapter.

    python trl_sft.py [ARGS.yaml] [--activation_offloading True ...]     # SFTConfig
    python trl_sft.py --tiny True --max_steps 8 --use_cpu True
"""

from dataclasses import dataclass, field

import datasets
import torch
import trl

from common import Clock, Model, arguments, for_trainer, tokenizer


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


def main():
    size, adapter, training = arguments((Model, Adapter, trl.SFTConfig), "sft_out")
    training.max_length, training.dataset_kwargs = size.tokens, {"skip_prepare_dataset": True}  # already tokens
    model, clock = size.build(), Clock()
    trainer = trl.SFTTrainer(model=model, args=training, processing_class=tokenizer(), callbacks=[for_trainer(clock)],
                             train_dataset=rows(model.config.vocab_size, size.tokens), peft_config=adapter.config())
    try:
        trainer.train()
    finally:
        clock.tell()


if __name__ == "__main__":
    main()
