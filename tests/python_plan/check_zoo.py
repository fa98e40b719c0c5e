"""Tests the Python plan on the zoo's models of transformers, timm and torchvision. Gradients equal those of the model
without it bit for bit, for all places of saved activations. --compiled takes long and runs only models of transformers.
Their gradients equal those of the same compiled blocks without offloading bit for bit, and are near those of
torch.compile alone.

    python check_zoo.py [--compiled] [--at-least N] [MODEL...]
"""
import argparse
import os
import sys
import traceback
import warnings

import torch
from torch import nn

import plans
from plans import applied, compiled_alone, data, equal, near, step

sys.path.insert(0, os.path.join(plans.ROOT, "tests", "models"))
from write_models import loss_of  # noqa: E402

PLANS = ["recompute recompute", "host host", "recompute host"]
warnings.filterwarnings("ignore")


def longest_list(model):
    """Path and length of the list of blocks with the most parameters. (None, 0) without repeated blocks."""
    lists = {name: m for name, m in model.named_modules()
             if isinstance(m, (nn.ModuleList, nn.Sequential)) and len({type(c) for c in m}) == 1 and len(m) > 1
             and not isinstance(m[0], nn.ModuleList)}
    if not lists:
        return None, 0
    path = max(lists, key=lambda name: sum(p.numel() for p in lists[name].parameters()))
    return path, len(lists[path])


def buffers(model):
    return [b.clone() for b in model.buffers()]


def follows_eager(mp, model, path, blocks, training_step):
    plain = training_step()
    if not equal(plain, training_step()):
        return "differs by itself"
    for others in PLANS:
        with applied(mp, model, data(blocks, others, path)) as run:
            for _ in range(2):
                assert equal(training_step(), plain), f"{others}: gradients differ"
            assert run.streams.moved_bytes or "host" not in others, f"{others}: nothing moved"
    return None


def follows_compiled(mp, model, path, blocks, training_step):
    def steps(moving):
        torch._dynamo.reset()
        plan = data(blocks, "keep keep", path, compile={"left_bytes": 0, "hidden_bytes": 1 << 14})
        with applied(mp, model, plan) as run:
            if not moving:
                plans.stay(mp, run)
            return [training_step() for _ in range(2)], run.streams.moved_bytes, run.thread

    try:
        with compiled_alone(model.get_submodule(path)):
            alone = [training_step() for _ in range(2)]
    except Exception as error:
        return f"torch.compile alone: {type(error).__name__}"
    if not equal(*alone):
        return "differs by itself"
    moved, count, thread = steps(moving=True)
    if not thread:
        return "blocks are run by their forward(), which is not compiled"
    stayed, none, _ = steps(moving=False)
    assert count > none == 0, "nothing moved"
    assert all(equal(one, stayed[0]) for one in moved + stayed), "gradients differ"
    assert near(moved[0], alone[0]), "gradients are far from torch.compile's"
    return None


def follows(row, mp, check):
    torch.manual_seed(0)
    model, inputs = row.build()
    model.train()
    path, blocks = longest_list(model)
    if not blocks:
        return "nothing is repeated"
    before = buffers(model)

    def loss(model):
        return loss_of(row.loss, model(*(value for name, value in inputs.items() if name != "target")), inputs)

    def training_step():
        for buffer, value in zip(model.buffers(), before):
            buffer.data.copy_(value)  # norms update running averages
        return step(model, loss) + buffers(model)

    return check(mp, model, path, blocks, training_step)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--at-least", type=int, default=0)
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    import zoo
    import zoo_timm, zoo_torchvision, zoo_transformers  # noqa: E401, F401
    mp = plans.load(words=plans.COMPILED if options.compiled else plans.EAGER)
    check = follows_compiled if options.compiled else follows_eager
    followed, failed, others = 0, [], {}
    for row in zoo.MODELS:
        if row.name not in options.models if options.models else options.compiled and "transformers" not in row.tags:
            continue
        try:
            with plans.without_kernels():
                why = follows(row, mp, check)
        except Exception as error:
            traceback.print_exc()
            failed.append(f"{row.name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
            print("FAILED", failed[-1], flush=True)
            continue
        followed += why is None
        print("ok" if why is None else why, row.name, flush=True)
        if why:
            others.setdefault(why, []).append(row.name)
    for why, names in others.items():
        print(f"{why}: {' '.join(names)}")
    print(f"{followed} models followed, {len(failed)} failed")
    print(*failed, sep="\n")
    sys.exit(bool(failed) or followed < options.at_least)


if __name__ == "__main__":
    main()
