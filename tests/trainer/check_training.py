"""Trains a tiny model under each config of the space of transformers' Trainer, on a CPU. The losses must be those of
the own config, and layers must be checkpointed as configured. Compilers and kernel libraries are left out.

  check_training.py --print memtune-print-space
"""

import argparse
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["ACCELERATE_USE_CPU"] = "true"
OWN = """output_dir: {folder}
per_device_train_batch_size: 2
gradient_accumulation_steps: 2
gradient_checkpointing: true
max_steps: 3
logging_steps: 1
save_strategy: 'no'
report_to: none
disable_tqdm: true
use_cpu: true
"""
HALF = 2 ** -12  # half of float32's digits: another order of sums loses fewer, other steps more
LAYERS = {"checkpoint-off": [False] * 4, "checkpoint-every-2": [True, False] * 2,
          "checkpoint-every-4": [True, False, False, False]}


def train(path):
    """Returns the losses of three steps, and the checkpointed layers."""
    import torch
    from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, PrinterCallback
    from transformers import Trainer, TrainingArguments

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, index):
            tokens = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(index))
            return {"input_ids": tokens, "labels": tokens}

    arguments = HfArgumentParser(TrainingArguments).parse_yaml_file(str(path))[0]
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=4,
                                         num_attention_heads=2, num_key_value_heads=2))
    trainer = Trainer(model=model, args=arguments, train_dataset=Data())
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return losses, [layer.gradient_checkpointing for layer in model.model.layers]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--print", required=True, help="memtune-print-space")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    wrong, own_losses = [], None
    with tempfile.TemporaryDirectory() as folder:
        own, path = pathlib.Path(folder) / "own.yaml", pathlib.Path(folder) / "config.yaml"
        own.write_text(OWN.format(folder=folder))
        space = json.loads(subprocess.run([options.print, "transformers", own], capture_output=True, text=True,
                                          check=True).stdout)
        variants = [one for one in space["variants"] if "compile" not in one["name"] and "liger" not in one["name"]]
        for variant in variants:
            path.write_text(variant["config"])
            losses, checkpointed = train(path)
            own_losses = own_losses or losses
            expected = next((layers for name, layers in LAYERS.items() if name in variant["name"]), [True] * 4)
            if len(losses) != 3 or any(abs(a - b) > HALF * b for a, b in zip(losses, own_losses)):
                wrong.append(f"{variant['name']}: losses {losses}, of the own config {own_losses}")
            if checkpointed != expected:
                wrong.append(f"{variant['name']}: checkpointed {checkpointed}, not {expected}")
    print(*wrong, f"{len(variants)} configs trained, {len(wrong)} wrong", sep="\n")
    sys.exit(bool(wrong) or len(variants) < 8)


main()
