"""Tests that exported plans do in transformers what memtune's engines did in the trials of a sweep."""
import json
import os
import subprocess
import sys
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import plans

STRATEGIES = ["checkpoint:cheap", "checkpoint:full", "checkpoint:op", "offload:stream,min=1KiB", "mixed"]
MIXED = {"version": 1, "name": "mixed", "strategy": "checkpoint:cheap", "transfer": {"min_bytes": 1024}, "rules": [
    {"blocks": "0-2", "region": "model.layers.*", "op": "add", "outputs": "host"},
    {"blocks": "0-2", "region": "model.layers.*.self_attn", "op": "attention", "outputs": "host"}]}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done


def rest(text):
    """The text after the data."""
    return text[text.index("# --- end of data"):]


def trials(folder):
    with open(os.path.join(folder, "sweep.json")) as file:
        for trial in json.load(file)["trials"]:
            with open(os.path.join(folder, trial["folder"], "measurement.json")) as measured:
                yield trial["strategy"], json.load(measured)


def main(memtune):
    torch.set_num_threads(1)
    with open(os.path.join(plans.ROOT, "profiles", "models", "tiny.json")) as file:
        config = json.load(file)["config"]
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**config))
    ids = torch.randint(config["vocab_size"], (2, 64))

    def loss(model):
        return model(input_ids=ids, labels=ids, use_cache=False).loss

    plain = plans.step(model, loss)
    with tempfile.TemporaryDirectory() as folder:
        sweep, mixed = os.path.join(folder, "sweep"), os.path.join(folder, "mixed.json")
        with open(mixed, "w") as file:
            json.dump(MIXED, file)
        run(memtune, "sweep", "--model", "tiny", "--device", "cpu", "--strategy", ";".join(["none", *STRATEGIES[:-1]]),
            "--plan", mixed, "--out", sweep, "--steps", "2", "--rounds", "1")
        for strategy, measured in trials(sweep):
            path = os.path.join(folder, "memtune_plan.py")
            told = run(memtune, "export", sweep, "--trainer", "python", "--strategy", strategy, "-o", path).stderr
            mp = plans.load(path)
            assert rest(plans.read(path)) in map(rest, map(plans.joined, (plans.EAGER, plans.STILL))), strategy
            again = []
            rerun = mp.Node.rerun
            mp.Node.rerun = lambda node: (again.append(node.func), rerun(node))
            plan = mp.apply(model)
            assert plans.equal(plans.step(model, loss), plain), strategy
            assert not plan.missing, (strategy, plan.missing)
            moved = plan.streams.moved_bytes
            plan.remove()
            # The exported plan offloads nothing outside of the blocks, and the file says so.
            outside = measured["transfer"]["out_bytes"] - moved
            assert len(again) == measured["recomputed_ops"], (strategy, len(again), measured["recomputed_ops"])
            assert outside == 0 or f"{outside / 1024:g} KiB of activations outside the blocks" in told, (strategy, outside, told)
            run(memtune, "export", sweep, "--trainer", "python", "--strategy", strategy, "-o", path, "--compile")
            assert rest(plans.read(path)) == rest(plans.joined(plans.COMPILED)), strategy
            assert set(plans.load(path).PLAN["compile"]) == {"left_bytes", "hidden_bytes"}
            print(f"ok {strategy}: {len(again)} ops again, {moved} bytes moved, {outside} outside of the blocks")


if __name__ == "__main__":
    main(sys.argv[1])
