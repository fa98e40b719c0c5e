"""Tests memtune sweep --trainer NAME --config FILE without a command. The model, the batch and the training settings
come from a typical config, and the answer goes back into it.

python3 trainer_config_test.py MEMTUNE [unittest arguments]
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

MEMTUNE = os.path.abspath(sys.argv.pop(1))
LLAMA = {"model_type": "llama", "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "hidden_act": "silu",
         "max_position_embeddings": 64, "tie_word_embeddings": False}
AXOLOTL = """base_model: acme/tiny  # the base
sequence_len: 64
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 2
bf16: true
adapter: lora
lora_r: 4
lora_alpha: 8
lora_target_linear: true
learning_rate: 0.0002
# memory
gradient_checkpointing: true
gradient_checkpointing_kwargs:
  use_reentrant: false
"""
SHORT = ("--device", "cpu", "--steps", "1", "--rounds", "1")


class TrainerConfig(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memtune-trainer-config-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "mine.yml").write_text(AXOLOTL)
        model = self.folder / "hub" / "models--acme--tiny"
        (model / "blobs").mkdir(parents=True)
        (model / "refs").mkdir()
        (model / "snapshots" / "abc").mkdir(parents=True)
        (model / "blobs" / "c0ffee").write_text(json.dumps(LLAMA))
        (model / "refs" / "main").write_text("abc")
        (model / "snapshots" / "abc" / "config.json").symlink_to("../../blobs/c0ffee")

    def memtune(self, *words):
        return subprocess.run([MEMTUNE, *words], cwd=self.folder, capture_output=True, text=True, timeout=200,
                              env={**os.environ, "HF_HUB_CACHE": str(self.folder / "hub")})

    def test_a_sweep_of_the_training_in_a_config(self):
        ended = self.memtune("sweep", "--trainer", "axolotl", "--config", "mine.yml", *SHORT, "--json", "answer.json",
                             "--strategy", "none; checkpoint:full")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("--lora r=4,alpha=8 (lora_r, lora_alpha, adapter, lora_target_linear)", ended.stderr)
        self.assertIn("next: memtune export --trainer axolotl --into mine.yml", ended.stderr)
        answer = json.loads((self.folder / "answer.json").read_text())
        self.assertEqual([trial["outcome"] for trial in answer["trials"]], ["ok", "ok"])
        self.assertEqual(answer["model"], "acme/tiny (llama)")
        text = self.memtune("report").stdout
        for part in ("input_ids:int64[1,128]<97", "2 micro-batches a step", "autocast bfloat16", "LoRA r=4,alpha=8"):
            self.assertIn(part, " ".join(text.split()))
        merged = self.memtune("export", "--trainer", "axolotl", "--into", "mine.yml", "--strategy", "none").stdout
        self.assertIn("base_model: acme/tiny  # the base", merged)
        self.assertIn("gradient_checkpointing: false", merged)

    def test_the_answer_is_a_difference_in_the_keys_of_the_config_if_none_fits_too(self):
        ended = self.memtune("sweep", "--trainer", "axolotl", "--config", "mine.yml", *SHORT, "--budget", "8GiB", "--json",
                             "answer.json")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        answer = json.loads((self.folder / "answer.json").read_text())
        self.assertEqual([trial["strategy"] for trial in answer["trials"]], ["none", "checkpoint:full"])
        self.assertEqual(answer["own"], {"config": "mine.yml", "strategy": "checkpoint:full"})
        chosen = answer["recommendation"]["strategy"]
        if chosen == "none":  # one round of one step on a busy machine may say otherwise
            self.assertIn("change in mine.yml: gradient_checkpointing: true -> false\n", ended.stderr)
            self.assertEqual(answer["recommendation"]["gain"]["over"], "checkpoint:full")
            self.assertIn("checkpoint:full (mine.yml now)", " ".join(self.memtune("report").stdout.split()))
        else:
            self.assertNotIn("change in mine.yml", ended.stderr)

    def test_the_suggested_command_can_be_pasted_for_any_file_name(self):
        (self.folder / "my config.yml").write_text(AXOLOTL)
        ended = self.memtune("sweep", "--trainer", "axolotl", "--config", "my config.yml", *SHORT, "--out", "a run",
                             "--strategy", "checkpoint:full")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        command = ended.stderr.rpartition("next: memtune ")[2].partition(", or ")[0]
        self.assertEqual(shlex.split(command), ["export", "a run", "--trainer", "axolotl", "--into", "my config.yml"])
        self.assertEqual(self.memtune(*shlex.split(command)).returncode, 0)

    def test_an_incomplete_adapter_is_refused_and_not_replaced_by_full_training(self):
        (self.folder / "mine.yml").write_text(AXOLOTL.replace("lora_alpha: 8\n", ""))
        ended = self.memtune("sweep", "--trainer", "axolotl", "--config", "mine.yml", "--dry-run")
        self.assertEqual((ended.returncode, ended.stderr),
                         (2, "memtune: mine.yml does not say lora_alpha: --lora does\n"))
        ended = self.memtune("sweep", "--trainer", "axolotl", "--config", "mine.yml", "--dry-run", "--lora", "r=4")
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_flags_override_the_config_and_its_current_settings_are_tried(self):
        ended = self.memtune("sweep", "--trainer", "axolotl", "--config", "mine.yml", "--batch", "1", "--dry-run")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertNotIn("--batch", ended.stderr)
        self.assertIn("its current settings are nearest to checkpoint:full", ended.stderr)
        self.assertIn("checkpoint:full", ended.stdout.splitlines())


if __name__ == "__main__":
    unittest.main()
