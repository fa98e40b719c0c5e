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
STATES = {"checkpoint:full+states=host,outside=moments": plans.STATES,
          "offload:stream,min=1KiB+states=host,blocks=0-1": plans.MOVING_STATES, "states=host,outside=host": None}
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


def follow_states(memtune, sweep, path, strategy, config):
    """Trains with the exported plan, and without it."""
    export = [memtune, "export", sweep, "--strategy", strategy, "-o", path, "--trainer"]
    said = run(*export, "trl").stderr
    assert f"{strategy}: trl has no keys for it" in said, said
    if STATES[strategy] is None:
        done = subprocess.run([*export, "python"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 2 and "parameters outside of blocks" in done.stderr, done
        return
    assert "memtune_plan.apply(model, optimizer) before" in run(*export, "python").stderr, strategy
    mp = plans.load(path)
    assert rest(plans.read(path)) == rest(plans.joined(STATES[strategy])), strategy

    def train(planned):
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(**config))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        if planned:
            run = mp.apply(model, optimizer)
        losses = []
        for seed in range(3):
            ids = torch.randint(config["vocab_size"], (2, 64), generator=torch.Generator().manual_seed(seed))
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        if planned:
            assert not run.missing, (strategy, run.missing)
            offloaded = [p for p in model.parameters() if p.untyped_storage().nbytes() == 0]
            assert len(offloaded) == sum(p.numel() > 0 for i in mp.PLAN["states"]["parameters"]
                                         for p in model.model.layers[i].parameters()), strategy
        return losses + list(model.state_dict().values())

    assert plans.equal(train(True), train(False)), strategy
    print(f"ok {strategy}")


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
        strategies = ";".join(["none", *STRATEGIES[:-1], *STATES])
        run(memtune, "sweep", "--model", "tiny", "--device", "cpu", "--strategy", strategies, "--plan", mixed, "--out", sweep,
            "--steps", "2", "--rounds", "1")
        path = os.path.join(folder, "memtune_plan.py")
        for strategy, measured in trials(sweep):
            if strategy in STATES:
                follow_states(memtune, sweep, path, strategy, config)
                continue
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
