"""Compares the planner's predictions of a step, from the recorded trial of none, with measured trials. Predictions from
a trial of checkpoint:full must be the same, for models that do not fit without checkpointing.

Counts and bytes must match in the first measurement. Some peaks depend on the duration of copies, which varies on a
busy machine. If such a figure is out of its bounds, the test measures everything again, up to three times in all.

Without MEMTUNE_NIGHT one kind of sharded step and one host budget stay, and neither dropout nor autocast nor a batch chosen
with its plan is tried.

python3 prediction_test.py MEMTUNE MEMTUNE-PREDICT MODELS [unittest arguments]
"""
import contextlib
import functools
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

NIGHT = "MEMTUNE_NIGHT" in os.environ
at_night = unittest.skipUnless(NIGHT, "runs with MEMTUNE_NIGHT")
MEMTUNE, PREDICT, MODELS = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
RECOMPUTES = ["none", "checkpoint:full", "checkpoint:op", "checkpoint:cheap", "checkpoint:every=2",
              "checkpoint:full,segment=2"]
MOVES = ["checkpoint:full,inputs=host", "offload:stream", "offload:sync", "offload:group",
         "checkpoint:cheap+offload:stream,fraction=0.4"]
COUNTS = ("recomputed_ops", "recomputed_bytes", "out_bytes")
# With offloading these depend on times: an activation stays, and is used in place, until its copy out has ended.
TIMED = ("peak_bytes", "in_bytes", "host_peak_bytes")
LLAMA = {"model_type": "llama", "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "attention_dropout": 0.1, "rms_norm_eps": 1e-6,
         "max_position_embeddings": 64, "hidden_act": "silu", "tie_word_embeddings": False}
GPT2 = {"model_type": "gpt2", "vocab_size": 97, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 64,
        "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5}
TINY = ("--model", "tiny")
SHORT = ("--device", "cpu", "--rounds", "1", "--steps", "1")


def smaller(strategy):
    """Sets a lower min=, because the activations of the model are small."""
    return strategy + ",min=16KiB" if "offload" in strategy else strategy


class TimedFailure(AssertionError):
    """A figure that depends on times is out of its bounds."""


@contextlib.contextmanager
def timed():
    """Assertions about figures that depend on how long copies took."""
    try:
        yield
    except AssertionError as error:
        raise TimedFailure(str(error)) from error


def measured_again_when_busy(test):
    """Runs the test up to three times while only timed figures are out of their bounds."""
    @functools.wraps(test)
    def run(self):
        for attempt in (1, 2, 3):
            try:
                return test(self)
            except TimedFailure as error:
                if attempt == 3:
                    raise
                print(f"{test.__name__}, measurement {attempt}: {error}", file=sys.stderr)
    return run


class Prediction(unittest.TestCase):
    @contextlib.contextmanager
    def about(self, **what):
        """Names the case in a failure. A subTest would keep the failure from the test's next measurement."""
        try:
            yield
        except AssertionError as error:
            error.args = (f"{what}: {error}",)
            raise

    def folder(self):
        folder = tempfile.TemporaryDirectory(prefix="memtune-prediction-")
        self.addCleanup(folder.cleanup)
        return folder.name

    def sweep_of_all(self, *model):
        run = os.path.join(self.folder(), "run")
        strategies = "; ".join(smaller(strategy) for strategy in RECOMPUTES + MOVES)
        subprocess.run([MEMTUNE, "sweep", "-q", *SHORT, "--strategy", strategies, "--out", run, *model],
                       check=True, timeout=200, stdout=subprocess.DEVNULL)
        return run

    def predictions(self, run, *costs):
        lines = subprocess.run([PREDICT, run, *costs], check=True, timeout=60, capture_output=True, text=True).stdout
        rows = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual(len(rows), len(RECOMPUTES + MOVES))
        return {row["strategy"]: row for row in rows}

    def record_again(self, run, slug):
        """Runs a trial without recorded costs again. Returns the file with its costs."""
        trial, = glob.glob(os.path.join(run, "trials", "*-" + slug))
        with open(os.path.join(trial, "request.json")) as file:
            request = json.load(file)
        self.assertEqual(request["costs"], "")
        request.update(costs=os.path.join(trial, "again.json"), reference="", trace="", round=1)
        with open(os.path.join(trial, "again-request.json"), "w") as file:
            json.dump(request, file)
        subprocess.run(["sh", "-c", 'exec "$0-trial" run "$1" 3>/dev/null', MEMTUNE, file.name], check=True, timeout=60)
        return request["costs"]

    def check_costs_of(self, run, *slugs, error=0):
        """Predictions from every recorded trial are equal. Peaks may differ by the share `error`. Figures that depend
        on times may differ by a tenth, because times vary on a busy machine."""
        none = self.predictions(run)
        for slug in slugs:
            rows = self.predictions(run, self.record_again(run, slug))
            for strategy, row in rows.items():
                with self.about(recorded=slug, strategy=strategy):
                    for figure in COUNTS + TIMED:
                        expected = none[strategy][figure]["predicted"]
                        if strategy not in RECOMPUTES and figure in TIMED:
                            with timed():
                                self.assertAlmostEqual(row[figure]["predicted"], expected, delta=0.1 * expected, msg=figure)
                        else:
                            share = error if figure == "peak_bytes" else 0
                            self.assertAlmostEqual(row[figure]["predicted"], expected, delta=share * expected, msg=figure)

    def check_peak_of_copies(self, row):
        """The source of a copy is freed when the copy ends: sooner than simulated where activations have a few KB,
        later where the machine is busy."""
        with timed():
            self.assertGreater(row["peak_bytes"]["error"], -0.1)
            self.assertLess(row["peak_bytes"]["error"], 0.25)

    def check_all(self, rows):
        for strategy, row in rows.items():
            with self.about(strategy=strategy):
                for figure in COUNTS:
                    self.assertEqual(row[figure]["predicted"], row[figure]["measured"], figure)
                if strategy in RECOMPUTES:
                    self.assertEqual(row["peak_bytes"]["predicted"], row["peak_bytes"]["measured"])
                else:
                    self.check_peak_of_copies(row)
        self.assertGreater(rows["checkpoint:full"]["recomputed_ops"]["measured"], 0)
        self.assertGreater(rows[smaller("offload:stream")]["out_bytes"]["measured"], 0)

    @measured_again_when_busy
    def test_predicted_counts_and_peaks_match_measured_trials(self):
        run = self.sweep_of_all(*TINY)
        self.check_all(self.predictions(run))
        self.check_costs_of(run, "checkpoint-full", "checkpoint-op")

    @at_night
    @measured_again_when_busy
    def test_predictions_match_with_autocast_and_gradient_accumulation(self):
        run = self.sweep_of_all(*TINY, "--autocast", "bf16", "--accumulate", "2")
        self.check_all(self.predictions(run))
        self.check_costs_of(run, "checkpoint-full")

    @measured_again_when_busy
    def test_predictions_match_for_sharded_steps_and_gathered_bytes(self):
        every = (("2", "--reshard", "after-backward"), ("2",), ("2", "--reshard", "never"),
                 ("3", "--autocast", "bf16", "--accumulate", "2"))
        for ranks, *more in every if NIGHT else every[:1]:
            rows = self.predictions(self.sweep_of_all(*TINY, "--ranks", ranks, *more))
            for strategy, row in rows.items():
                with self.about(ranks=ranks, more=more, strategy=strategy):
                    for figure in ("gathered_bytes", "recomputed_ops", "out_bytes"):
                        self.assertEqual(row[figure]["predicted"], row[figure]["measured"], figure)
                    self.assertGreater(row["gathered_bytes"]["measured"], 0)
                    if strategy in RECOMPUTES:
                        self.assertLess(abs(row["peak_bytes"]["error"]), 0.001)
                    else:
                        self.check_peak_of_copies(row)

    @at_night
    @measured_again_when_busy
    def test_predictions_match_with_dropout_and_in_place_writes(self):
        for config in (LLAMA, GPT2):
            file = os.path.join(self.folder(), "config.json")
            with open(file, "w") as out:
                json.dump(config, out)
            with self.about(model=config["model_type"]):
                self.check_costs_of(self.sweep_of_all("--model", file, "--batch", "2", "--seq", "32"), "checkpoint-full")
        # The copies of a batch norm's statistics are not modelled.
        resnet = ("--model", f"{MODELS}/resnet18_script/model.pt", "--loss", "cross_entropy")
        self.check_costs_of(self.sweep_of_all(*resnet), "checkpoint-full", error=1e-4)

    @measured_again_when_busy
    def test_predictions_match_for_offloading_to_disk(self):
        folder = self.folder()
        scratch, run = (os.path.join(folder, name) for name in ("scratch", "run"))
        os.mkdir(scratch)
        disk = "none; offload:stream,tier=disk,min=16KiB; checkpoint:cheap+offload:stream,tier=disk,min=16KiB"
        for budget, spills in (("1MiB", True), ("64MiB", False)) if NIGHT else (("1MiB", True),):
            run += "-" + budget
            self.memtune("sweep", "-q", *TINY, *SHORT, "--batch", "8", "--strategy", disk, "--scratch",
                         scratch, "--host-budget", budget, "--out", run)
            lines = subprocess.run([PREDICT, run], check=True, timeout=60, capture_output=True, text=True).stdout
            rows = [json.loads(line) for line in lines.splitlines()]
            self.assertEqual(len(rows), 3)
            for row in rows:
                with self.about(strategy=row["strategy"], budget=budget):
                    for figure in ("out_bytes", "disk_write_bytes", "disk_peak_bytes"):
                        self.assertEqual(row[figure]["predicted"], row[figure]["measured"], figure)
                    # If the host budget allows, memory whose write still runs is not reused, and more is allocated.
                    held = row["host_peak_bytes"]
                    with timed():
                        self.assertAlmostEqual(held["predicted"], held["measured"], delta=0 if spills else 1 << 20)
                        # Activations in flight are used in place, more or less often than simulated.
                        read = row["disk_read_bytes"]
                        self.assertAlmostEqual(read["predicted"], read["measured"], delta=0.1 * read["measured"])
                    if row["strategy"] != "none":
                        self.assertEqual(row["disk_read_bytes"]["measured"] > 0, spills)

    def memtune(self, *arguments, code=0):
        done = subprocess.run([MEMTUNE, *arguments], timeout=200, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def check_peak(self, trial):
        """The peak matches its prediction, with a small tolerance for what depends on times."""
        with timed():
            self.assertGreaterEqual(trial["predicted"]["peak_error"], -0.005, trial)
            self.assertLessEqual(trial["predicted"]["peak_error"], 0.01, trial)

    def check_fits(self, trial, budget):
        with timed():
            self.assertLessEqual(trial["peak_bytes"]["allocated"], budget)

    @measured_again_when_busy
    def test_a_plan_fits_its_budget_as_predicted(self):
        folder = self.folder()
        run, best = (os.path.join(folder, name) for name in ("run", "best.json"))
        tiny = ["sweep", "-q", *TINY, *SHORT, "--json", "-"]
        none = json.loads(self.memtune(*tiny, "--strategy", "none", "--out", run).stdout)["trials"][0]
        paper = json.loads(self.memtune("plan", "--from", run, "--json", "-").stdout)
        ladder = paper["plans"]
        self.assertEqual(ladder[0]["predicted"]["peak_bytes"], none["peak_bytes"]["allocated"])
        peaks = [rung["predicted"]["peak_bytes"] for rung in ladder]
        self.assertTrue(all(rung["fits"] and peak <= rung["budget_bytes"] for rung, peak in zip(ladder, peaks)))
        self.assertLess(peaks[-1], peaks[0])
        self.assertEqual(peaks[-1], paper["least_bytes"])

        budget = f"{(peaks[0] + peaks[-1]) // 2}B"
        found = json.loads(self.memtune(*tiny, "--budget", budget, "--out", run).stdout)
        planned = [trial for trial in found["trials"] if trial["strategy"].startswith("plan:")]
        self.assertTrue(planned)
        for trial in planned:
            self.check_peak(trial)
            self.check_fits(trial, int(budget[:-1]))
            self.assertTrue(trial["gradients"]["equal"])
        with timed():
            self.assertTrue(found["recommendation"]["fits"])

        self.memtune("plan", "--from", run, "--budget", budget, "--write", best)
        other = json.loads(self.memtune(*tiny, "--strategy", "none", "--plan", best, "--out", run + "2").stdout)
        self.assertEqual(other["trials"][1]["peak_bytes"]["allocated"], planned[0]["peak_bytes"]["allocated"])
        self.assertIn("no plan fits; the smallest takes ",
                      self.memtune("plan", "--from", run, "--budget", "1KiB", code=1).stdout)

    @measured_again_when_busy
    def test_parameters_and_optimizer_states_are_offloaded_if_nothing_else_fits(self):
        folder = self.folder()
        run = os.path.join(folder, "run")
        tiny = ["sweep", *TINY, *SHORT, "--batch", "1", "--json", "-"]
        strategies = "none; checkpoint:full; checkpoint:full,inputs=host+states=host,outside=host"
        trials = json.loads(self.memtune(*tiny, "--strategy", strategies, "--out", run).stdout)["trials"]
        _, resident, least = (trial["peak_bytes"]["allocated"] for trial in trials)
        self.assertLess(least, 0.9 * resident)
        budget = (resident + 3 * least) // 4
        done = self.memtune(*tiny, "--budget", f"{budget}B", "--out", run)
        self.assertIn("with all of them on the device, no plan fits", done.stderr)
        answer = json.loads(done.stdout)
        planned = [trial for trial in answer["trials"] if trial["strategy"].startswith("plan:")]
        self.assertTrue(planned)
        for trial in planned:
            self.check_peak(trial)
            self.assertTrue(trial["gradients"]["equal"])
            with open(os.path.join(run, trial["plan"])) as file:
                self.assertIn("host", [place["moments"] for place in json.load(file)["states"]])
            with timed():
                self.assertEqual(trial["predicted"]["host_peak_bytes"], trial["host_peak_bytes"])
        self.check_fits(planned[-1], budget)
        (best,) = (trial for trial in planned if trial["strategy"] == answer["recommendation"]["strategy"])
        with open(os.path.join(run, best["plan"])) as file:
            outside = ("outside", "host") in [(one["unit"], one["parameters"]) for one in json.load(file)["states"]]
        self.assertEqual(f"--trainer python -o memtune_plan.py writes {best['strategy']}" in done.stderr, not outside)
        self.assertEqual("no export offloads parameters outside of blocks" in done.stderr, outside)
        self.assertNotIn("--trainer NAME", done.stderr)
        # A device that holds no strategy without that.
        found = json.loads(self.memtune(*tiny, "--memory-cap", f"{budget}B", "--out", run + "2").stdout)
        outcomes = {trial["strategy"]: trial["outcome"] for trial in found["trials"]}
        self.assertEqual(len(outcomes), 12)
        self.assertEqual(outcomes["checkpoint:full"], "device_oom")
        self.assertIn("states=host", found["recommendation"]["strategy"])
        self.assertTrue(found["recommendation"]["fits"])

    def test_plans_for_a_probed_machine(self):
        folder = tempfile.TemporaryDirectory(prefix="memtune-prediction-")
        self.addCleanup(folder.cleanup)
        run, here, there = (os.path.join(folder.name, name) for name in ("run", "here.json", "there.json"))
        self.memtune("sweep", "-q", "--model", "tiny", "--device", "cpu", "--rounds", "1", "--steps", "1", "--strategy",
                     "none", "--out", run)
        self.memtune("doctor", "--probe", "-q", "--device", "cpu", "--write", here)
        with open(here) as file:
            machine = json.load(file)
        self.assertTrue(machine["emulated"])
        self.assertEqual(sorted(machine["tflops"]), ["bfloat16", "float16", "float32"])
        for rate in (*machine["tflops"].values(), machine["memory_gb_per_s"], machine["link_out_gb_per_s"]):
            self.assertGreater(rate, 0)
        for field in ("tflops", "memory_gb_per_s", "link"):
            self.assertIn("measured by memtune doctor --probe on 20", machine["sources"][field])

        def plan(*flags):
            return json.loads(self.memtune("plan", "--from", run, "--json", "-", *flags).stdout)

        own, same = plan(), plan("--machine", here)
        self.assertEqual(same["plans"][-1]["predicted"]["step_ms"], own["plans"][-1]["predicted"]["step_ms"])
        machine.update(name="there", devices=["X"], memory_gb_per_s=2 * machine["memory_gb_per_s"],
                       memory_bytes=own["plans"][3]["budget_bytes"],
                       tflops={dtype: 2 * rate for dtype, rate in machine["tflops"].items()})
        with open(there, "w") as file:
            json.dump(machine, file)
        faster = plan("--machine", there, "--from-machine", here)
        self.assertAlmostEqual(faster["none_ms"], own["none_ms"] / 2)
        self.assertEqual(faster["plans"][0]["budget_bytes"], machine["memory_bytes"])
        self.assertEqual(faster["least_bytes"], own["least_bytes"])
        for rung in faster["plans"]:
            step = rung["predicted"]
            self.assertLessEqual(step["step_ms_from"], step["step_ms"])
            self.assertLessEqual(step["step_ms"], step["step_ms_to"])
        self.assertEqual(faster["machines"]["measured_on"], same["machines"]["measured_on"])
        self.assertEqual(faster["machines"]["planned_for"]["name"], "there")
        shown = self.memtune("plan", "--from", run, "--machine", there, "--from-machine", here, "--budget",
                             "1GiB").stdout
        self.assertIn("planned for there", shown)
        self.assertIn("a larger budget does not fit", shown.replace("\n", " "))

        self.assertIn("unknown machine 'h20'; did you mean 'h200'? Known: a100-40gb,",
                      self.memtune("plan", "--from", run, "--machine", "h20", code=2).stderr)
        self.assertIn("--from-machine", self.memtune("plan", "--from", run, "--machine", "h200", code=2).stderr)
        refused = self.memtune("plan", "--from", run, "--machine", "h200", "--from-machine", here, code=2).stderr
        self.assertIn("times say nothing about a GPU", refused)
        for field, value in {"memory_gb_per_s": -1, "memory_bytes": 1e300, "link_in_gb_per_s": "fast"}.items():
            with open(there, "w") as file:
                json.dump({**machine, field: value}, file)
            refused = self.memtune("plan", "--from", run, "--machine", there, code=2).stderr
            self.assertIn(f"--machine: there.json.{field} must be", refused)
        with open(there, "w") as file:
            json.dump({**machine, "memory_gb_per_s": float("nan")}, file)
        self.assertIn("--machine: there.json is not JSON",
                      self.memtune("plan", "--from", run, "--machine", there, code=2).stderr)

    @measured_again_when_busy
    def test_plans_use_the_disk_as_predicted_if_host_memory_is_short(self):
        folder = self.folder()
        scratch, run = (os.path.join(folder, name) for name in ("scratch", "run"))
        os.mkdir(scratch)
        small = ("sweep", "-q", "--model", "small", *SHORT, "--json", "-", "--out", run)
        none = json.loads(self.memtune(*small, "--scratch", scratch, "--strategy", "none").stdout)["trials"][0]
        budget, host = f"{none['peak_bytes']['allocated'] * 72 // 100}B", 4 << 20
        paper = json.loads(self.memtune("plan", "--from", run, "--json", "-", "--budget", budget, "--host-budget",
                                        f"{host}B").stdout)["plans"][0]["predicted"]
        self.assertGreater(paper["disk_peak_bytes"], 0)
        found = json.loads(self.memtune(*small, "--scratch", scratch, "--budget", budget, "--host-budget", f"{host}B").stdout)
        plan = next(trial for trial in found["trials"] if trial["strategy"].startswith("plan:"))
        self.assertGreater(plan["disk_peak_bytes"], 0)
        self.assertEqual(plan["predicted"]["disk_peak_bytes"], plan["disk_peak_bytes"])
        with timed():
            self.assertEqual(plan["predicted"]["host_peak_bytes"], plan["host_peak_bytes"])
        self.check_peak(plan)
        self.check_fits(plan, int(budget[:-1]))
        self.assertLessEqual(plan["host_peak_bytes"], host)
        self.assertTrue(plan["gradients"]["equal"])

    @at_night
    @measured_again_when_busy
    def test_batch_and_plan_are_chosen_together_with_the_predicted_peak(self):
        run = os.path.join(self.folder(), "run")
        tiny = ("sweep", *TINY, *SHORT, "--json", "-", "--out", run, "--budget", "24MiB", "--batch", "auto")
        done = self.memtune(*tiny, "--global-batch", "32")
        found = json.loads(done.stdout)
        self.assertEqual([(trial["strategy"], trial["batch"]) for trial in found["trials"]][:2],
                         [("none", 2), ("none", 8)])
        planned = [trial for trial in found["trials"] if "predicted" in trial]
        with timed():  # plans are proposed where they are predicted to be fast
            self.assertTrue([trial for trial in planned if trial["strategy"].startswith("plan:")])
        for trial in planned:
            self.assertEqual(trial["outcome"], "ok")
            self.assertIn(trial["batch"], (1, 2, 4, 8, 16, 32))
            if trial["batch"] < 32:
                self.check_peak(trial)
            else:  # one micro-batch: no gradients exist during forward
                with timed():
                    self.assertGreaterEqual(trial["predicted"]["peak_error"], -0.005, trial)
            self.check_fits(trial, 24 << 20)
            self.assertTrue(trial["gradients"]["equal"])
        with timed():
            self.assertTrue(found["recommendation"]["fits"])
        self.assertIn("not run, because of the predicted time per sample: batch ", done.stderr)
        again = json.loads(self.memtune(*tiny, "--global-batch", "32").stdout)
        self.assertEqual(again["trials"], found["trials"])

    def plan_at(self, run, batch, *flags):
        return json.loads(self.memtune("plan", "--from", run, "--batch", str(batch), "--json", "-", *flags).stdout)

    def measured_peak(self, folder, batch, *model_and_plan):
        run = os.path.join(folder, f"batch-{batch}")
        trials = json.loads(self.memtune("sweep", "-q", *SHORT, "--json", "-", "--strategy", "none", "--out", run, "--batch",
                                         str(batch), *model_and_plan).stdout)["trials"]
        self.assertEqual([trial["outcome"] for trial in trials], ["ok"] * len(trials))
        return [trial["peak_bytes"]["allocated"] for trial in trials]

    @measured_again_when_busy
    def test_plans_for_another_batch_from_a_run_with_one(self):
        folder = self.folder()
        llama = os.path.join(folder, "config.json")
        with open(llama, "w") as out:
            json.dump({**LLAMA, "vocab_size": 2000}, out)
        # The error is 1 to 3 KB: scalars of the loss are assumed to scale with the batch.
        for model in (TINY, ("--model", llama, "--seq", "64")) if NIGHT else (TINY,):
            run, best = (os.path.join(folder, f"{len(model)}-{name}") for name in ("run", "best.json"))
            self.memtune("sweep", "-q", *model, *SHORT, "--batch", "2", "--strategy", "none", "--out", run)
            own = self.plan_at(run, 2)
            self.assertEqual(own["plans"], json.loads(self.memtune("plan", "--from", run, "--json", "-").stdout)["plans"])
            ladder = self.plan_at(run, 4)
            self.assertEqual(ladder["batches"], {"recorded": [2], "planned_for": 4, "looked_at": []})
            budget = f"{ladder['plans'][3]['budget_bytes']}B"
            planned = self.plan_at(run, 4, "--budget", budget, "--write", best)["plans"][0]["predicted"]
            none, plan = self.measured_peak(os.path.join(folder, str(len(model))), 4, *model, "--plan", best)
            with self.about(model=model):
                self.assertGreater(none, 1.3 * own["plans"][0]["predicted"]["peak_bytes"])
                self.assertAlmostEqual(ladder["plans"][0]["predicted"]["peak_bytes"], none, delta=0.001 * none)
                # With offloading, copies that end sooner than simulated lower the peak: 0.9 % was seen.
                with timed():
                    self.assertGreater(planned["peak_bytes"], 0.999 * plan)
                    self.assertLess(planned["peak_bytes"], 1.02 * plan)
                self.assertLess(plan, none)
            for rung in ladder["plans"]:
                step = rung["predicted"]
                self.assertLess(step["step_ms_from"], step["step_ms"])

    def test_two_batches_predict_a_third_to_the_byte_and_auto_finds_the_fastest(self):
        folder = self.folder()
        run = os.path.join(folder, "run")
        self.memtune("sweep", "-q", *TINY, *SHORT, "--batch", "2,4", "--strategy", "none", "--out", run)
        eight = self.plan_at(run, 8)
        self.assertEqual(eight["batches"]["recorded"], [2, 4])
        self.assertEqual([eight["plans"][0]["predicted"]["peak_bytes"]], self.measured_peak(folder, 8, *TINY))
        found = self.plan_at(run, "auto", "--budget", "24MiB")
        looked = {one["batch"]: one for one in found["batches"]["looked_at"]}
        best = looked[found["batches"]["planned_for"]]
        self.assertEqual(best["samples_per_s"], max(one["samples_per_s"] for one in looked.values() if one["fits"]))
        self.assertEqual(found["plans"][0]["predicted"]["peak_bytes"], best["peak_bytes"])
        self.assertLessEqual(best["peak_bytes"], 24 << 20)

    def test_only_the_baseline_runs_if_it_fits(self):
        answer = json.loads(self.memtune("sweep", "-q", *TINY, *SHORT, "--json", "-", "--budget", "4GiB", "--out",
                                         self.folder()).stdout)
        self.assertEqual([trial["strategy"] for trial in answer["trials"]], ["none"])
        self.assertEqual(answer["recommendation"]["strategy"], "none")

    @measured_again_when_busy
    def test_plans_are_predicted_from_full_checkpoints_if_the_baseline_does_not_fit(self):
        folder = self.folder()
        run, other = (os.path.join(folder, name) for name in ("run", "other"))
        tiny = ["sweep", *TINY, *SHORT, "--json", "-"]
        measured = json.loads(self.memtune(*tiny, "--strategy", "none;checkpoint:full", "--out", other).stdout)["trials"]
        none, full = (trial["peak_bytes"]["allocated"] for trial in measured)
        cap = (none + full) // 2
        done = self.memtune(*tiny, "--memory-cap", f"{cap}B", "--budget", f"{cap}B", "--out", run)
        found = json.loads(done.stdout)
        self.assertIn("none ended in device_oom, so checkpoint:full is planned from", done.stderr)
        trials = {trial["strategy"]: trial for trial in found["trials"]}
        self.assertEqual([trial["strategy"] for trial in found["trials"]][:2], ["none", "checkpoint:full"])
        self.assertEqual(trials["none"]["outcome"], "device_oom")
        self.assertNotIn("predicted", trials["checkpoint:full"])
        planned = [trial for name, trial in trials.items() if name.startswith("plan:")]
        self.assertTrue(planned)
        for trial in planned:
            self.assertEqual(trial["outcome"], "ok")
            self.check_peak(trial)
            self.check_fits(trial, cap)
            self.assertTrue(trial["gradients"]["equal"])
        with timed():
            self.assertTrue(found["recommendation"]["fits"])
        self.assertIn(found["recommendation"]["strategy"], trials)

        paper = self.memtune("plan", "--from", run).stdout
        self.assertRegex(paper, "a step of none takes .* ms, predicted from checkpoint:full\n")
        ladder = json.loads(self.memtune("plan", "--from", run, "--json", "-").stdout)
        self.assertEqual(ladder["recorded"], "checkpoint:full")
        self.assertEqual(ladder["plans"][0]["predicted"]["peak_bytes"], none)

    def test_costs_are_recorded_for_a_trial_of_an_earlier_sweep_without_them(self):
        run = os.path.join(self.folder(), "run")
        capped = ["sweep", *TINY, *SHORT, "--json", "-", "--out", run, "--memory-cap"]
        none, full = (trial["peak_bytes"]["allocated"] for trial in json.loads(self.memtune(
            *capped, "4GiB", "--strategy", "none;checkpoint:full").stdout)["trials"])
        cap = f"{(none + full) // 2}B"
        first = json.loads(self.memtune(*capped, cap, "--strategy", "none;checkpoint:full").stdout)
        self.assertEqual([trial["outcome"] for trial in first["trials"]], ["device_oom", "ok"])
        self.assertFalse(glob.glob(os.path.join(run, "trials", "*-checkpoint-full", "costs.json")))
        second = json.loads(self.memtune(*capped, cap, "--budget", cap).stdout)
        self.assertTrue([trial for trial in second["trials"] if trial["strategy"].startswith("plan:")])


if __name__ == "__main__":
    unittest.main()
