"""Tests memtune profile -- COMMAND on scripts with a log of their own. Its figures must equal those of the logs.

    python3 command_test.py MEMTUNE [unittest arguments]

Without MEMTUNE_NIGHT, tests of rarer loops, failures and combined settings are skipped. Needs torch, transformers and
accelerate.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import commands
import loops
from measured import MEMTUNE, NIGHT, Measured, at_night

STEPS = 10  # 2 of warm-up, 5 measured, 1 before the traced steps, 2 traced


def processes_with(word):
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and word in Path("/proc", entry, "cmdline").read_text(errors="replace"):
                found.append(int(entry))
        except OSError:
            pass
    return found


class CommandTest(Measured):
    def test_figures_of_a_plain_loop_equal_its_log_and_it_ends_like_sys_exit(self):
        command = self.script(commands.PLAIN)
        answer = self.profile(*command)
        trial = answer["trials"][0]
        self.assertEqual(trial["outcome"], "ok")
        self.assertEqual(trial["loss"], self.seen("loss"))
        self.assertEqual(len(trial["loss"]), STEPS)
        # The script's clock includes memtune's work before the traced steps in the last sample.
        pairs = list(zip(trial["step_ms"]["samples"][:-1], self.seen("ms")[2:]))
        near = [abs(sample - own) <= max(3, own * 0.1) for sample, own in pairs]
        self.assertGreater(2 * sum(near), len(near), pairs)  # between the two clocks other programs may have run
        self.assertLess(abs(sum(sample for sample, _ in pairs) / sum(own for _, own in pairs) - 1), 0.2, pairs)
        self.assertEqual((self.seen("ended"), self.seen("atexit")), ([True], [True]))
        self.assertIn("the end of the script", (self.folder / "memtune-profile/trials/1-command/log.txt").read_text())
        self.assertGreater(trial["peak_bytes"]["allocated"], 50 << 20)
        self.assertEqual(self.fed(trial), (8, 0))  # there is no DataLoader: what the model is given
        self.assertTrue(0 < trial["optimizer_ms"] < trial["step_ms"]["median"])
        self.assertTrue(trial["device"].startswith("CPU ("))
        measured = self.seen("loss")
        (self.folder / "seen").unlink()
        subprocess.run(command, cwd=self.folder, env=self.environment, check=True, capture_output=True)
        self.assertEqual(measured, self.seen("loss")[:STEPS], "memtune changed what is trained")

    @at_night
    def test_the_time_of_steps_that_differ_is_the_mean_over_whole_periods(self):
        answer = self.profile(*self.script(commands.GENERATING))
        trial = answer["trials"][0]
        self.assertEqual((trial["period"]["steps"], len(trial["step_ms"]["samples"])), (3, 2))
        own = self.seen("ms")[2:5]  # the first period after two steps of warm-up; the last one includes memtune's work
        self.assertLess(abs(trial["step_ms"]["samples"][0] / (sum(own) / 3) - 1), 0.1, (trial["step_ms"], own))
        self.assertGreater(trial["period"]["longest_ms"], 3 * trial["period"]["median_ms"])
        self.assertTrue(any(note.startswith("1 of 3 steps takes ") and "10 runs of the model without gradients" in note
                            for note in answer["notes"]), answer["notes"])
        for found, logged in zip(trial["loss_unscaled"], self.seen("loss")):
            self.assertAlmostEqual(found, logged, 5)

    def test_the_shares_of_a_step_equal_the_ranges_of_the_profiler(self):
        answer = self.profile(*self.script(commands.SHARES))
        trial = answer["trials"][0]
        shares = trial["time_shares"]
        lines = [json.loads(line) for line in (self.folder / "seen").read_text().splitlines()]
        ranges = [line for line in lines if "kind" in line]
        measured = range(2, len(trial["loss"]) - 3)  # without those of warm-up and of tracing
        ends = {each["step"]: each["end"] for each in ranges if each["kind"] == "update"}
        whole = ends[measured[-1]] - ends[measured[0] - 1]
        for kind in ("data", "forward", "backward", "update", "evaluation"):
            own = sum(each["ms"] for each in ranges if each["kind"] == kind and each["step"] in measured) / whole
            self.assertGreater(own, 0.01, kind)
            self.assertLess(abs(shares[kind] - own), 0.02, (kind, own, shares))
        self.assertAlmostEqual(sum(shares[kind] for kind in ("data", "forward", "backward", "update", "evaluation", "generation", "save", "rest")), 1, 6)
        self.assertEqual(shares["loader_workers"], 0)
        self.assertTrue(any("num_workers of the DataLoader, 4 instead of 0" in each for each in shares["advice"]), shares)

    def test_its_output_is_shown_as_it_comes_and_stdout_stays_the_answer(self):
        command = [MEMTUNE, "profile", "--show", "--json", "-", "--timeout", "15", "--", *self.script(commands.PRINTS)]
        with subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as running:
            for line in running.stderr:
                if line == "after step 2\n":  # the script waits for this
                    (self.folder / "read").touch()
                    break
            answer, rest = running.communicate(timeout=120)
        self.assertEqual(running.returncode, 0)
        self.assertEqual(json.loads(answer)["trials"][0]["outcome"], "ok")
        self.assertIn("after step 9\nwarning 9\n[1/1] command  ", rest)
        self.assertNotIn("\r", rest)
        log = (self.folder / "memtune-profile/trials/1-command/log.txt").read_text()
        self.assertEqual(log.splitlines()[3:], rest.split("[1/1]")[0].splitlines())

    def test_a_terminal_has_step_time_and_peak_while_it_runs(self):
        (self.folder / "read").touch()
        terminal, end = os.openpty()
        done = subprocess.Popen([MEMTUNE, "profile", "--", *self.script(commands.PRINTS)], cwd=self.folder,
                                env=self.environment, stdout=subprocess.DEVNULL, stderr=end)
        os.close(end)
        seen = b""
        try:
            while part := os.read(terminal, 4096):
                seen += part
        except OSError:  # the other end is closed
            os.close(terminal)
        self.assertEqual(done.wait(60), 0)
        lines = re.findall(r"\x1b\[K\[1/1\] command  step (\d)/7  (?:([0-9.]+) ms, )?[0-9.]+ MiB", seen.decode())
        self.assertGreaterEqual(len(lines), 3, seen)
        for step, ms in lines:
            self.assertTrue(step == "1" or 60 <= float(ms) < 1000, lines)
        self.assertIn(b"[1/1] command  tracing", seen)
        self.assertNotIn(b"after step", seen)

    @at_night
    def test_accumulated_batches_are_one_step(self):
        trial = self.trial(*self.script(commands.ACCUMULATION))
        self.assertEqual(len(trial["step_ms"]["samples"]), 5)
        self.assertEqual(trial["loss"][:-1], self.seen("loss"))  # the script ends before it logs the last one

    @at_night
    def test_a_step_that_the_scaler_skips_counts_as_a_step(self):
        trial = self.trial(*self.script(commands.SCALER))
        self.assertEqual(trial["loss"], self.seen("loss"))
        self.assertEqual(len(trial["step_ms"]["samples"]), 5)

    @at_night
    def test_with_an_optimizer_in_backward_each_backward_is_one_step(self):
        trial = self.trial(*self.script(commands.IN_BACKWARD))
        self.assertEqual(trial["outcome"], "ok")
        self.assertEqual(trial["loss"], self.seen("loss"))
        self.assertEqual(len(trial["loss"]), STEPS)

    @at_night
    def test_two_optimizers_and_nested_backwards_are_one_step(self):
        trial = self.trial(*self.script(commands.TWO_OPTIMIZERS))
        self.assertEqual(trial["loss"], self.seen("loss")[:STEPS])
        self.assertEqual(len(trial["loss"]), STEPS)

    @at_night
    def test_the_time_of_a_closure_is_not_optimizer_time(self):
        trial = self.trial(*self.script(commands.CLOSURE))
        self.assertEqual(trial["loss"], self.seen("loss"))
        self.assertGreater(trial["step_ms"]["median"], 20)
        self.assertTrue(0 < trial["optimizer_ms"] < 10, trial["optimizer_ms"])

    @at_night
    def test_the_first_loss_counts_if_a_closure_is_called_several_times(self):
        trial = self.trial(*self.script(loops.LBFGS))
        self.assertEqual(trial["loss"][:-1], self.seen("loss"))
        self.assertEqual(len(trial["loss"]), STEPS)

    @at_night
    def test_a_script_may_close_all_files_save_by_keywords_and_change_its_folder(self):
        self.environment["TMPDIR"] = "tmp"  # relative to the current folder
        trial = self.trial(*self.script(commands.CLOSES_FILES))
        self.assertEqual((trial["outcome"], len(trial["loss"])), ("ok", STEPS))
        self.assertEqual(self.seen("written"), [0])
        self.assertEqual(trial["saves"][0]["bytes"], self.seen("bytes")[0])

    def test_an_exception_is_reported_even_if_the_script_replaces_the_excepthook(self):
        trial = self.trial(*self.script(commands.OWN_HOOK), code=1)
        self.assertEqual(trial["outcome"], "device_oom")
        self.assertEqual(trial["reason"], "OutOfMemoryError: CUDA out of memory in 'caf?' (before its first optimizer step)")

    @at_night
    def test_a_command_whose_free_memory_is_in_pieces_runs_again_with_segments_that_grow(self):
        answer = self.profile(*self.script(commands.IN_PIECES))
        self.assertEqual(answer["trials"][0]["outcome"], "ok")
        self.assertEqual(answer["trials"][0]["allocator"], "expandable_segments:True")
        self.assertTrue(any("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: it needs that" in note
                            for note in answer["notes"]), answer["notes"])

    @at_night
    def test_the_out_of_memory_message_of_pytorch_is_reported_completely(self):
        trial = self.trial(*self.script(commands.LONG_OUT_OF_MEMORY), code=1)
        self.assertEqual(trial["outcome"], "device_oom")
        self.assertEqual(trial["reason"], f"OutOfMemoryError: {self.seen('text')[0]} (before its first optimizer step)")
        self.assertGreater(len(trial["reason"]), 2000)

    @at_night
    def test_a_script_ends_even_if_its_records_cannot_be_written(self):
        trial = self.trial(*self.script(commands.REMOVES_RECORDS), code=1)
        self.assertEqual(trial["outcome"], "error")
        self.assertTrue(trial["reason"].startswith("it ended by itself"), trial["reason"])
        self.assertEqual(self.seen("ended"), [7])  # one step late, without traced steps

    @at_night
    def test_a_cuda_graph_captures_nothing_of_memtune(self):
        answer = self.profile(*self.script(commands.CAPTURES), code=1)
        self.assertEqual(self.seen("touched"), [False])
        self.assertIn("what a CUDA graph has captured is not seen when it is replayed", answer["notes"])

    @at_night
    def test_the_peak_excludes_memory_before_exec(self):
        start = "import os, sys; held = b'x' * (1 << 30); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        trial = self.trial(sys.executable, "-c", start, *self.script(commands.PLAIN)[1:])
        self.assertLess(trial["peak_bytes"]["allocated"], 900 << 20)

    def test_memtune_synchronizes_the_device_only_around_the_traced_steps(self):
        answer = self.profile(*self.script(commands.PLAYED_DEVICE))
        trial = answer["trials"][0]
        self.assertEqual(trial["device"], "NVIDIA Played")
        self.assertEqual(trial["loss"], self.seen("loss"))
        samples, began = trial["step_ms"]["samples"], self.seen("began")
        self.assertGreaterEqual(min(samples), 10)  # by the device's clock, at half speed
        lasted = [end - start for start, end in zip(began, began[len(samples):])]
        self.assertLess(min(abs(2 * sum(samples) / ms - 1) for ms in lasted), 0.2, (samples, lasted))
        self.assertTrue(0 < trial["optimizer_ms"] < 5)
        self.assertEqual(trial["peak_bytes"], {"allocated": 1006, "reserved": 2006, "device": 2 << 30})
        self.assertLessEqual(len(self.seen("synchronized")), 4)  # before and after the traced steps
        steps = [lane for lane in self.slices() if lane["name"].startswith("step #")]
        lasted = began[-1] - began[-2]  # the first of the two traced steps, and what surrounds it
        self.assertLess(abs(2 * steps[0]["dur"] / (lasted * 1e3) - 1), 0.3, (steps, lasted))  # the same clock
        self.assertTrue(any(note.startswith("kernels and copies cannot be traced: ") for note in answer["notes"])
                        or not Path(MEMTUNE).with_name("libmemtune_injection.so").exists(), answer["notes"])

    def test_workers_are_not_ranks_and_saves_are_reported(self):
        trial = self.trial(*self.script(commands.WORKERS_AND_SAVES))
        self.assertEqual(trial["outcome"], "ok")
        self.assertEqual(trial["loss"], self.seen("loss"))
        self.assertEqual(trial["ranks"], [])
        self.assertEqual(self.fed(trial), (100, 0))
        (save,) = trial["saves"]
        self.assertEqual((save["saves"], save["bytes"]), (len(self.seen("bytes")), self.seen("bytes")[0]))
        self.assertGreater(save["blocked_ms"], 0)

    def test_files_that_were_there_before_are_not_overwritten(self):
        mine = self.folder / "seen.pt"
        mine.write_text("a checkpoint of yours")
        os.utime(mine, (1, 1))
        time.sleep(0.05)  # the command begins later than the file was made
        answer = self.profile(*self.script(commands.SAVES_EVERY_STEP))
        self.assertEqual(answer["trials"][0]["outcome"], "ok")
        self.assertEqual(mine.read_text(), "a checkpoint of yours")
        (save,) = answer["trials"][0]["saves"]
        self.assertGreater(save["bytes"], self.seen("bytes")[0])  # of both files, so they were written
        self.assertIn("'seen.pt' was there before and is kept: the command's saves of it went to 'seen.pt.memtune' and are "
                      "removed", answer["notes"])
        self.assertEqual(sorted(self.folder.glob("*.memtune")), [])
        self.assertEqual(self.seen("own"), [True])  # a file that the command made itself is overwritten as usual

    def test_the_trainer_of_transformers(self):
        trial = self.trial(*self.script(commands.TRAINER))
        self.assertEqual(trial["outcome"], "ok")
        self.assertEqual(len(trial["loss"]), STEPS)
        self.assertEqual(self.fed(trial), (2 * 4, 2 * 4 * 32))
        parts = self.seen("part")
        for step, loss in enumerate(trial["loss"]):
            self.assertEqual(loss, sum(parts[2 * step:2 * step + 2]))
        for loss, logged in zip(trial["loss"], self.seen("logged")):
            self.assertAlmostEqual(loss, logged, delta=1e-3)
        names = [each["name"] for each in self.slices()]
        blocks = ["model.layers.0", "model.layers.1"]
        forward = ["before the blocks", *blocks, "head"]
        backward = [name for block in reversed(blocks) for name in (f"{block} recompute", f"{block} backward")]
        batch = ["forward", *forward, "backward", "head backward", *backward, "before the blocks backward"]
        step = batch + batch + ["optimizer"]
        # If backward of a block begins before its recomputation, the trace has it twice.
        order = [name for i, name in enumerate(names) if not (
            name.endswith(".0 backward") or name.endswith(".1 backward")) or names[i + 1] != name.replace("backward", "recompute")]
        self.assertEqual(order, ["step #0", *step, "step #1", *step])

    def test_both_ranks_of_torchrun_are_reported_and_the_slowest_counts(self):
        python = self.script(commands.PARALLEL)
        trial = self.trial(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                           *python[1:])
        self.assertEqual(trial["outcome"], "ok", trial["reason"])
        self.assertEqual([rank["rank"] for rank in trial["ranks"]], [0, 1])
        for rank in trial["ranks"]:
            self.assertEqual(rank["loss"], self.seen("loss", rank["rank"]))
            self.assertEqual(len(rank["step_ms"]["samples"]), 5)
        self.assertEqual(trial["step_ms"]["samples"],
                         [max(times) for times in zip(*(rank["step_ms"]["samples"] for rank in trial["ranks"]))])
        self.assertEqual(self.fed(trial), (16, 0))
        self.assertEqual(trial["peak_bytes"]["allocated"], max(rank["peak_bytes"]["allocated"] for rank in trial["ranks"]))
        slices = self.slices()
        self.assertEqual(len({each["pid"] for each in slices}), 4)  # host and device of two ranks
        ends = {}
        for each in slices:
            if each["name"] == "backward":
                ends.setdefault(each["pid"], []).append(each["ts"] + each["dur"])
        # Backward reduces gradients, so it cannot end on one rank before it begins on the other.
        for ours, theirs in zip(*ends.values()):
            self.assertAlmostEqual(ours, theirs, delta=25000)

    @at_night
    def test_forked_ranks_report_their_rank(self):
        trial = self.trial(*self.script(commands.SPAWN))
        self.assertEqual(trial["outcome"], "ok", trial["reason"])
        self.assertEqual([rank["rank"] for rank in trial["ranks"]], [0, 1])

    @at_night
    def test_sitecustomize_and_usercustomize_of_the_environment_still_run(self):
        (self.folder / "own").mkdir()
        for name in ("sitecustomize", "usercustomize"):
            (self.folder / "own" / f"{name}.py").write_text(
                f"import os, sys\nsys.{name}_ran = (__name__, os.path.basename(__file__), 'memtune' in ':'.join(sys.path))\n")
        self.environment["PYTHONPATH"] = str(self.folder / "own")
        self.trial(*self.script(commands.PRELUDE + """
tell(site=list(sys.sitecustomize_ran), user=list(getattr(sys, "usercustomize_ran", ())), enabled=__import__("site").ENABLE_USER_SITE)
"""), code=1)
        self.assertEqual(self.seen("site")[0][:2], ["sitecustomize", "sitecustomize.py"])
        if self.seen("enabled")[0]:
            self.assertEqual(self.seen("user")[0][:2], ["usercustomize", "usercustomize.py"])

    def test_the_reason_is_reported_if_a_command_cannot_be_measured(self):
        script = self.script(commands.NO_OPTIMIZER)
        trial = self.trial(*script, code=1)
        self.assertEqual(trial["outcome"], "error")
        self.assertIn("no optimizer of torch.optim took a step", trial["reason"])
        for switch in ("-I", "-S", "-E") if NIGHT else ("-I",):
            trial = self.trial(sys.executable, switch, "-c", "pass", code=1)
            self.assertIn("python -I, -S or -E", trial["reason"])

    def sweep(self, *words, code=0):
        done = subprocess.run([MEMTUNE, "sweep", "-q", "--json", "-", *words], cwd=self.folder, env=self.environment,
                              text=True, capture_output=True, timeout=400)
        self.assertEqual(done.returncode, code, done.stdout[-2000:] + done.stderr[-2000:])
        return json.loads(done.stdout)

    def test_a_sweep_flags_variants_with_other_losses_and_continues(self):
        script = self.script(commands.CONFIGURED)
        (self.folder / "mine.yaml").write_text("# mine\noutput_dir: out\ngradient_checkpointing: true\n")
        rounds = 2 if NIGHT else 1
        words = ("--trainer", "transformers", "--config", "mine.yaml", "--try", "lr=0.1;0.5",
                 "--time-limit", "300", "--", *script, "{config}", "{lr}")
        names = subprocess.run([MEMTUNE, "sweep", "-q", "--dry-run", *words], cwd=self.folder, env=self.environment,
                               text=True, capture_output=True).stdout.splitlines()
        self.assertEqual(names[:2], ["own, lr=0.1", "own, lr=0.5"])
        self.assertIn("checkpoint-off, lr=0.1", names)
        config = self.folder / "off.yaml"
        config.write_text((self.folder / "mine.yaml").read_text().replace("true", "false"))
        answer = self.sweep("--rounds", str(rounds), "--try", "config=mine.yaml;off.yaml", "--try", "lr=0.1;0.5", "--",
                            *script, "{config}", "{lr}")
        trials = {trial["strategy"]: trial for trial in answer["trials"]}
        self.assertEqual({trial["outcome"] for trial in trials.values()}, {"ok"})
        same = trials["config=off.yaml, lr=0.1"]
        self.assertEqual(same["losses"]["compared"] and same["losses"]["changed"], False)
        self.assertEqual(same["loss"], trials["config=mine.yaml, lr=0.1"]["loss"])
        for name in ("config=mine.yaml, lr=0.5", "config=off.yaml, lr=0.5"):
            self.assertEqual((trials[name]["losses"]["changed"], trials[name]["losses"]["step"]), (True, 2), name)
        # The faster of the two depends on noise. A variant with other losses is never recommended.
        self.assertIn(answer["recommendation"]["strategy"], ("config=mine.yaml, lr=0.1", "config=off.yaml, lr=0.1"))
        self.assertEqual(same["command"][-2:], ["off.yaml", "0.1"])
        self.assertEqual({len(trial["rounds"]) for trial in trials.values()}, {rounds})
        again = self.sweep("--rounds", str(rounds), "--try", "config=mine.yaml;off.yaml", "--try", "lr=0.1;0.5", "--",
                           *script, "{config}", "{lr}")
        self.assertEqual(again["trials"], answer["trials"])

    @at_night
    def test_combinations_run_after_their_parts_and_the_gain_is_reported(self):
        script = self.script(commands.SHARDED)
        (self.folder / "mine.yaml").write_text("distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n")
        words = ("--rounds", "1", "--steps", "2", "--warmup", "1", "--trainer", "accelerate", "--config", "mine.yaml", "--",
                 *script, "{config}")
        answer = self.sweep(*words)
        self.assertEqual(self.seen("started"),
                         ["own", "checkpoint-full", "no-reshard", "parameters-on-host", "compile",
                          "checkpoint-full-no-reshard", "checkpoint-full-parameters-on-host"])
        trials = {trial["strategy"]: trial for trial in answer["trials"]}
        left = trials["checkpoint-full+compile"]
        self.assertEqual(left["outcome"], "skipped")
        self.assertTrue(left["reason"].startswith("compile alone ended in error: ModuleNotFoundError: No module named"))
        gain = answer["recommendation"]["gain"]
        self.assertEqual(gain["over"], "own")
        self.assertLess(gain["time_ratio"], 0.9)
        chosen = trials[answer["recommendation"]["strategy"]]
        self.assertIn("fsdp_reshard_after_forward: false", (self.folder / chosen["config"]).read_text())
        told = subprocess.run([MEMTUNE, "report"], cwd=self.folder, env=self.environment, text=True, capture_output=True)
        self.assertIn("less time a step than own", " ".join(told.stdout.split()))
        self.assertEqual(self.sweep(*words)["trials"], answer["trials"])
        self.assertEqual(len(self.seen("started")), 7)

    def test_out_of_memory_is_explained_in_answer_and_report(self):
        trial = self.trial(*self.script(commands.EXPLAINED), code=1)
        oom = trial["oom"]
        self.assertEqual((trial["outcome"], oom["cause"], oom["step"], oom["phase"]),
                         ("device_oom", "kept_tensors", 4, "other"))
        self.assertEqual((oom["rest_bytes"], oom["requested_bytes"]), (60 << 30, 30 << 30))
        self.assertEqual([(line["file"].split("/")[-1], line["bytes"]) for line in oom["lines"]], [("train.py", 60 << 30)])
        self.assertEqual(oom["largest_batch"]["rows"], 8)
        told = subprocess.run([MEMTUNE, "report", "memtune-profile"], cwd=self.folder, env=self.environment, text=True,
                              capture_output=True)
        self.assertIn("Why: tensors that belong to no model and no optimizer take 60 GiB, and were there before the model ran. "
                      "Step 4 asked for 30 GiB in code",
                      " ".join(told.stdout.split()))

    def test_who_holds_the_memory_of_a_step_is_in_answer_and_report(self):
        trial = self.trial(*self.script(commands.PLAIN))
        memory = trial["memory"]
        self.assertTrue(memory["saved_only"])
        owners = {each["kind"]: each["peak_bytes"] for each in memory["owners"]}
        parameters = 4 * (16 * 32 + 32 + 32 + 1)
        self.assertEqual((owners["parameters"], owners["gradients"]), (parameters, parameters))
        self.assertGreaterEqual(owners["activations"], 4 * 8 * (32 + 1))
        with open(self.folder / "memtune-profile" / os.path.dirname(trial["trace"]) / memory["paths"]) as file:
            paths = file.read().splitlines()
        self.assertEqual(sum(int(path.split(" ")[-1]) for path in paths), sum(owners.values()))
        told = subprocess.run([MEMTUNE, "report", "memtune-profile"], cwd=self.folder, env=self.environment, text=True,
                              capture_output=True)
        self.assertIn("Memory of step %d by owner" % memory["step"], told.stdout)

    def test_a_script_that_fails_or_does_not_end(self):
        trial = self.trial(*self.script(commands.FAILS), code=1)
        self.assertEqual((trial["outcome"], trial["reason"]), ("error", "KeyError: 'no such column' (after step 3 of 7)"))
        if NIGHT:
            trial = self.trial(*self.script(commands.OUT_OF_MEMORY), code=1)
            self.assertEqual(trial["outcome"], "device_oom")
        trial = self.trial(*self.script(commands.PRELUDE + "time.sleep(1000)"), flags=("--timeout", "5"), code=1)
        self.assertEqual(trial["outcome"], "timeout")

    def test_no_process_outlives_a_killed_memtune(self):
        script = self.script(commands.STUBBORN)
        memtune = subprocess.Popen([MEMTUNE, "profile", "-q", "--steps", "10000", "--", *script], cwd=self.folder,
                                   env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not list((self.folder / "tmp").glob("memtune-attach-*/records/*.jsonl")):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        memtune.send_signal(signal.SIGKILL)
        memtune.wait()
        end = time.monotonic() + 10
        while (processes_with(script[-1]) or self.private_folders()) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(processes_with(script[-1]), [])
        self.assertEqual(self.private_folders(), [])


if __name__ == "__main__":
    unittest.main()
