"""Tests memtune sweep of a training command whose model memtune's own engines can run too. The answer has keys of the
trainer, and a Python plan under which the unchanged command runs.

    python3 planned_command_test.py MEMTUNE [unittest arguments]

Without MEMTUNE_NIGHT only a training loop runs under a plan, not a trainer, a model that refuses it or one that fits.
Needs torch, transformers and accelerate.
"""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from commands import PRELUDE
from measured import MEMTUNE, Measured, at_night

LLAMA = {"model_type": "llama", "vocab_size": 97, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 6,
         "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "hidden_act": "silu",
         "max_position_embeddings": 256, "tie_word_embeddings": False}
ROWS, LENGTH = 8, 192
CONFIG = f"""model_name_or_path: llama  # mine
max_length: {LENGTH}
output_dir: out
per_device_train_batch_size: {ROWS}
gradient_checkpointing: CHECKPOINTING
max_steps: 40
save_strategy: 'no'
report_to: none
disable_tqdm: true
use_cpu: true
"""
# Logs at each start whether a plan is applied.
STARTED = PRELUDE + """
tell(started=bool(os.environ.get("MEMTUNE_ATTACH_PLAN")))
"""
TRAINER = STARTED + """
from dataclasses import dataclass
import transformers
transformers.logging.set_verbosity_error()


@dataclass
class Own:
    model_name_or_path: str = ""
    max_length: int = 0


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        tokens = torch.randint(0, 97, (own.max_length,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


own, arguments = transformers.HfArgumentParser((Own, transformers.TrainingArguments)).parse_yaml_file(sys.argv[2])
model = transformers.LlamaForCausalLM(transformers.LlamaConfig.from_pretrained(own.model_name_or_path))
transformers.Trainer(model=model, args=arguments, train_dataset=Data()).train()
"""
LOOP = STARTED + """
import transformers
config = transformers.LlamaConfig.from_pretrained("llama")
CHANGE
model = transformers.LlamaForCausalLM(config)
KEPT
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(40):
    tokens = torch.randint(0, 97, (ROWS, LENGTH), generator=torch.Generator().manual_seed(step))
    loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    loss.backward()
    STEP
    optimizer.step()
    optimizer.zero_grad()
""".replace("ROWS", str(ROWS)).replace("LENGTH", str(LENGTH))
# Waits in a step under a plan, until the test continues it.
WAITS = "if 'memtune_plan' in sys.modules and not os.path.exists('go'): tell(waits=True); time.sleep(100)"
SHORT = ("--steps", "2", "--warmup", "1", "--rounds", "1")
OF_MODEL = ("--model", "llama", "--batch", str(ROWS), "--seq", str(LENGTH))
# Freed memory leaves the process at once, so resident peaks are those of tensors, without fragments of earlier steps.
AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


class PlannedCommand(Measured):
    def setUp(self):
        super().setUp()
        self.environment.update(AT_ONCE)
        (self.folder / "llama").mkdir()
        (self.folder / "llama" / "config.json").write_text(json.dumps(LLAMA))

    def memtune(self, *words, code=0, **named):
        done = subprocess.run([MEMTUNE, *words], cwd=self.folder, env=self.environment, text=True, capture_output=True,
                              timeout=500, **named)
        self.assertEqual(done.returncode, code, done.stdout[-3000:] + done.stderr[-3000:])
        return done

    def sweep(self, *words, code=0):
        done = self.memtune("sweep", *SHORT, "--json", "answer.json", *words, code=code)
        self.said = done.stderr
        return json.loads((self.folder / "answer.json").read_text())

    def loop(self, change="", step="", kept=""):
        return self.script(LOOP.replace("CHANGE", change).replace("STEP", step).replace("KEPT", kept))

    def peak(self, *command):
        peak = self.trial(*command, flags=("--steps", "2", "--warmup", "1"))["peak_bytes"]["allocated"]
        (self.folder / "seen").unlink()
        return peak

    budgets = []

    def budget(self):
        """A budget between the peaks of the loop without and with full checkpoints, nearer to the first. A plan fits
        it."""
        if not self.budgets:
            whole, least = self.peak(*self.loop()), self.peak(*self.loop(kept="model.gradient_checkpointing_enable()"))
            self.budgets.append(f"{whole - (whole - least) // 3}B")
        return self.budgets[0]

    def ways(self, answer):
        keys, plan = answer["ways"]
        self.assertEqual((keys["by"], plan["by"]), ("keys", "python"))
        return keys, plan

    def planned(self, answer):
        return [trial for trial in answer["trials"] if trial["strategy"].startswith("plan:")]

    @at_night
    def test_the_answer_for_a_trainer_has_its_keys_and_a_plan(self):
        command = self.script(TRAINER)
        config = self.folder / "mine.yaml"
        # The trainer's own checkpointing, which fits the budget, would exclude a plan.
        peaks = []
        for checkpointing in ("false", "true"):
            config.write_text(CONFIG.replace("CHECKPOINTING", checkpointing))
            peaks.append(self.peak(*command, "mine.yaml"))
        budget = f"{sum(peaks) // 2}B"
        words = ("--trainer", "transformers", "--config", "mine.yaml", "--budget", budget, "--", *command, "{config}")
        answer = self.sweep(*words)
        trials = {trial["strategy"]: trial for trial in answer["trials"]}
        self.assertLess(len(trials), 8)
        keys, plan = self.ways(answer)
        self.assertTrue(keys["fits"] and plan["fits"], answer["ways"])
        for way in (keys, plan):
            trial = trials[way["strategy"]]
            self.assertEqual(trial["outcome"], "ok")
            self.assertEqual((way["step_ms"], way["peak_bytes"]),
                             (trial["step_ms"]["median"], trial["peak_bytes"]["allocated"]))
            self.assertLessEqual(way["peak_bytes"], int(budget[:-1]))
        under = trials[plan["strategy"]]
        self.assertTrue(under["losses"]["compared"] and not under["losses"]["changed"], under["losses"])
        self.assertIn("gradient_checkpointing: false", (self.folder / under["config"]).read_text())
        self.assertIn("PLAN", (self.folder / under["python"]).read_text())
        self.assertEqual(sum(self.seen("started")), len(self.planned(answer)))
        text = self.memtune("report").stdout
        self.assertIn("In keys of transformers: " + keys["text"], " ".join(text.split()))
        self.assertIn("With memtune_plan.py: " + plan["text"], " ".join(text.split()))
        for form in ("markdown", "html"):
            self.assertIn(plan["text"], self.memtune("report", "--format", form, "-o", "-").stdout)
        # Both can be exported from the run, and the plan is the measured one.
        written = self.memtune("export", "--trainer", "transformers", "--into", "mine.yaml").stdout
        self.assertIn("model_name_or_path: llama  # mine", written)
        exported = self.memtune("export", "--trainer", "python", "-o", "memtune_plan.py")
        self.assertIn("callbacks=[memtune_plan.PlanCallback()]", exported.stderr)
        self.assertNotIn("warning", exported.stderr)
        measured, written = ((self.folder / each).read_text() for each in (under["python"], "memtune_plan.py"))
        self.assertEqual(written[written.index('"""'):], measured[measured.index('"""'):])
        starts = len(self.seen("started"))
        self.assertEqual(self.sweep(*words)["ways"], answer["ways"])
        self.assertEqual(len(self.seen("started")), starts, "what was measured was started again")

    @at_night
    def test_no_plan_is_needed_if_the_command_fits_the_budget(self):
        command = self.loop()
        answer = self.sweep(*OF_MODEL, "--budget", "8GiB", "--", *command)
        keys, plan = self.ways(answer)
        self.assertEqual((keys["fits"], plan["fits"], self.planned(answer)), (True, False, []))
        self.assertTrue(plan["text"].startswith("no plan is needed: without checkpointing"), plan["text"])
        told = self.memtune("export", "--trainer", "python", code=2).stderr
        self.assertIn("no plan is needed", told)

    @at_night
    def test_a_model_that_refuses_the_plan_is_a_row_with_the_reason(self):
        reason = "the plan cannot be applied: the plan is for a model of"
        budget = self.budget()
        answer = self.sweep(*OF_MODEL, "--budget", budget, "--", *self.loop(change="config.num_hidden_layers = 7"), code=1)
        (under,) = self.planned(answer)
        self.assertEqual(under["outcome"], "error")
        self.assertIn(reason, under["reason"])
        _, plan = self.ways(answer)
        self.assertFalse(plan["fits"])
        self.assertIn(reason, plan["text"])
        self.assertEqual(answer["trials"][0]["outcome"], "ok")
        self.assertIn(reason, " ".join(self.memtune("report").stdout.split()))

    def test_a_loop_runs_under_a_plan_and_an_interrupted_sweep_continues(self):
        words = [*OF_MODEL, "--budget", self.budget(), "--", *self.loop(step=WAITS)]
        memtune = subprocess.Popen([MEMTUNE, "sweep", *SHORT, *words], cwd=self.folder, env=self.environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        end = time.monotonic() + 200
        while not (self.folder / "seen").exists() or not self.seen("waits"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        memtune.send_signal(signal.SIGINT)
        printed, said = memtune.communicate(timeout=60)
        self.assertEqual(memtune.returncode, 130, said)
        self.assertIn("run the same command again to continue", said)
        self.assertIn("As it is:", printed)
        self.assertEqual(self.private_folders(), [])
        (self.folder / "go").touch()
        answer = self.sweep(*words)
        self.assertEqual(self.seen("started").count(False), 2)  # without a plan once more, besides the remaining trials
        keys, plan = self.ways(answer)
        self.assertEqual((keys["fits"], keys["strategy"], plan["fits"]), (False, "command", True), answer["ways"])
        under = {trial["strategy"]: trial for trial in answer["trials"]}[plan["strategy"]]
        self.assertEqual(under["loss"], answer["trials"][0]["loss"])  # also in the traced steps
        self.assertEqual(answer["recommendation"]["strategy"], plan["strategy"])
        self.assertIn("memtune export --trainer python", self.said)

    def test_without_a_model_all_settings_are_tried(self):
        (self.folder / "mine.yaml").write_text("output_dir: out\n")
        said = self.memtune("sweep", "--dry-run", "--trainer", "transformers", "--config", "mine.yaml", "--",
                            *self.script(""), "{config}")
        self.assertIn("nothing is planned: mine.yaml does not say which model it trains", said.stderr)
        self.assertIn("liger", said.stdout)
        config = CONFIG.replace("CHECKPOINTING", "true")
        (self.folder / "mine.yaml").write_text(config)
        words = ("--trainer", "transformers", "--config", "mine.yaml", "--", *self.script(""), "{config}")
        said = self.memtune("sweep", "--dry-run", *words)
        self.assertEqual(said.stdout.splitlines()[0], "own")
        self.assertIn("checkpoint-off (none)", said.stdout)
        self.assertNotIn("liger", said.stdout)
        self.assertIn("liger", self.memtune("sweep", "--dry-run", "--all-settings", *words).stdout)


if __name__ == "__main__":
    unittest.main()
