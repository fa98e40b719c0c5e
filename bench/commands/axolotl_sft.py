"""A typical training command: axolotl's own training.

    python axolotl_sft.py axolotl_sft.yml            # a config of axolotl
    python axolotl_sft.py axolotl_sft.yml --tiny     # a small model, on a CPU

Model, tokenizer and tokens go into the config's base_model, a folder that is created if it is missing.
"""

import json
import os
import pathlib
import sys

os.environ.setdefault("AXOLOTL_DO_NOT_TRACK", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the libraries read it when they are imported

import torch
import transformers
import yaml
from axolotl.cli.train import do_cli
from axolotl.integrations.base import BasePlugin, PluginManager

from common import Clock, Model, for_trainer, tokenizer


def make(folder: pathlib.Path, model: transformers.PreTrainedModel, length: int):
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    tokens = torch.randint(3, model.config.vocab_size, (256, length), generator=torch.Generator().manual_seed(0))
    with open(folder / "rows.jsonl", "w") as rows:
        for row in tokens.tolist():
            rows.write(json.dumps({"input_ids": row, "attention_mask": [1] * length, "labels": row}) + "\n")


class ClockPlugin(BasePlugin):
    clock = Clock()

    def add_callbacks_post_trainer(self, cfg, trainer):
        return [for_trainer(self.clock)]


def main():
    config, tiny = sys.argv[1], "--tiny" in sys.argv
    given = yaml.safe_load(open(config))
    small = dict(sequence_len=64, bf16=False) if tiny else {}
    folder = pathlib.Path(given["base_model"])
    if not folder.exists():
        unfinished = folder.with_name(folder.name + ".unfinished")
        make(unfinished, Model(tiny=tiny).build(), small.get("sequence_len", given["sequence_len"]))
        unfinished.rename(folder)
    PluginManager.get_instance().plugins["clock"] = ClockPlugin()
    try:
        do_cli(config, **small)
    finally:
        ClockPlugin.clock.tell()


if __name__ == "__main__":
    main()
