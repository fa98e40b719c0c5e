"""Runs each command of memtune once, as a user would first, on the built-in model on the CPU.

    python3 commands_smoke.py MEMTUNE [unittest arguments]

A command of `memtune --help` without a test here fails. Needs only the standard library.
"""

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MEMTUNE = ""
SHORT = ("--device", "cpu", "--steps", "2", "--warmup", "1", "-q")
COMMAND = "import math\nfor step in range(3): print(math.sqrt(step))"


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.memtune("sweep", *SHORT, "--rounds", "1", "--strategy", "none", "--strategy", "checkpoint:full", "--json",
                    "sweep.json")

    @classmethod
    def memtune(cls, *arguments, code=0):
        done = subprocess.run([MEMTUNE, *arguments], cwd=cls.folder, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=240)
        assert done.returncode == code, f"memtune {arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def test_sweep(self):
        answer = json.loads((self.folder / "sweep.json").read_text())
        trials = {trial["strategy"]: trial for trial in answer["trials"]}
        self.assertEqual({name: (trial["outcome"], trial["gradients"]["equal"]) for name, trial in trials.items()},
                         {"none": ("ok", True), "checkpoint:full": ("ok", True)})
        peak = {name: trial["peak_bytes"]["allocated"] for name, trial in trials.items()}
        self.assertLess(peak["checkpoint:full"], peak["none"])
        self.assertIn(answer["recommendation"]["strategy"], trials)

    def test_profile(self):
        trial, = json.loads(self.memtune("profile", *SHORT, "--strategy", "offload:sync,min=0", "--out", "profile",
                                         "--json", "-"))["trials"]
        self.assertEqual(trial["outcome"], "ok")
        self.assertGreater(trial["transfer"]["out_bytes"], 0)

    def test_profile_shows_what_a_command_prints(self):
        done = subprocess.run([MEMTUNE, "profile", "--show", "--out", "shown", "--", sys.executable, "-c", COMMAND],
                              cwd=self.folder, capture_output=True, text=True, timeout=240)
        self.assertIn("0.0\n1.0\n1.4", done.stderr)
        self.assertEqual(done.returncode, 1)  # it takes no step

    def test_run(self):
        training = json.loads(self.memtune("run", "--device", "cpu", "--steps", "2", "--save", "sync", "--save-every", "1", "--out",
                                           "training", "--json", "-"))
        self.assertEqual(len(training["loss"]), 2)
        self.assertTrue((self.folder / "training/states/latest").exists())

    def test_strategies(self):
        names = [strategy["name"] for strategy in json.loads(self.memtune("strategies", "--json", "-"))["strategies"]]
        self.assertIn("checkpoint:full", names)
        self.assertEqual(self.memtune("strategies").count("\ncheckpoint:full\n"), 1)

    def test_plan(self):
        self.memtune("plan", "--from", "memtune-run", "--budget", "1GiB", "--write", "plan.json")
        self.assertIn("a valid plan", self.memtune("plan", "validate", "plan.json"))

    def test_fit(self):
        config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "vocab_size": 512,
                  "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512, "hidden_act": "silu",
                  "rms_norm_eps": 1e-5, "max_position_embeddings": 512, "rope_theta": 1e4}
        folder = self.folder / "fit"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        card, = json.loads(self.memtune("fit", "fit", "--card", "rtx4090", "--dtype", "bf16", "--json", "-"))["cards"]
        rows = {row["strategy"]: row["allocated_bytes"] for row in card["strategies"]}
        self.assertLess(rows["checkpoint:full"], rows["none"])

    def test_report(self):
        self.assertIn("checkpoint:full", self.memtune("report", "memtune-run"))
        self.memtune("report", "memtune-run", "--format", "perfetto", "--trial", "none", "-o", "trace.json")
        self.assertTrue(json.loads((self.folder / "trace.json").read_text())["traceEvents"])

    def test_view(self):
        viewer = Path(MEMTUNE).with_name("memtune-view")
        if not viewer.exists():
            self.skipTest("built without the viewer")
        self.memtune("view", "memtune-run", "--screenshot", "timeline.png")
        self.assertEqual((self.folder / "timeline.png").read_bytes()[:4], b"\x89PNG")

    def test_export(self):
        self.assertIn("gradient_checkpointing: true", self.memtune("export", "memtune-run", "--strategy", "checkpoint:full",
                                                                   "--trainer", "axolotl", "-o", "-"))

    def test_diff(self):
        self.assertIn("checkpoint:full", self.memtune("diff", "sweep.json", "memtune-run"))

    def test_doctor(self):
        checks = json.loads(self.memtune("doctor", "--json", "-"))["checks"]
        self.assertEqual({check["status"] for check in checks if check["name"] in ("memtune", "memtune-trial", "LibTorch")},
                         {"ok"})

    def test_convert(self):
        config = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 32, "vocab_size": 97,
                  "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
        (self.folder / "config.json").write_text(json.dumps(config))
        done = subprocess.run([MEMTUNE, "convert", ".", "--python", sys.executable], cwd=self.folder, capture_output=True,
                              text=True)
        missing = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
        if missing:
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"has no {missing[0]}", done.stderr)
        else:
            self.assertIn("--loss returned", done.stdout)
            self.assertTrue((self.folder / "model.pt2").exists())

    def test_completion(self):
        for shell in ("bash", "zsh", "fish"):
            self.assertIn("checkpoint", self.memtune("completion", shell))

    def test_each_command_has_a_test_here(self):
        listed = self.memtune("--help").split("Commands:\n")[1].split("\n\n")[0]
        commands = re.findall(r"^  (\w+)", listed, re.MULTILINE)
        self.assertGreater(len(commands), 8)
        self.assertEqual([name for name in commands if not hasattr(self, f"test_{name}")], [])


if __name__ == "__main__":
    MEMTUNE = str(Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
