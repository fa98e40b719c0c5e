"""Tests who holds the memory of a step: scripts run under the shim, with an allocator of CUDA's that the CPU plays.

    step_memory_test.py SHIM_FOLDER [unittest arguments]

Needs torch.
"""
import json
import os
import sys
import tempfile
import unittest

import warm_script

# Plays PyTorch's CUDA allocator: each new storage of an op is an event, and so is its end. Blocks of more than 1 KiB
# are larger than was asked for, as those that the allocator does not split.
PLAYED = """
import sys
import time
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

calls, ring, blocks, storages = [], [], {}, {}
held = peak = 0
history = dict(enabled=None)


class Event:
    def __init__(self, enable_timing):
        self.at = None

    def record(self):
        self.at = time.perf_counter()

    def query(self):
        return True

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


def frames_here():
    frame, frames, backward = sys._getframe(1), [], False
    while frame is not None:
        if frame.f_code.co_name == "_engine_run_backward" and not any(each["name"] == "_call_impl" for each in frames):
            return []  # its thread runs no Python
        if not frame.f_code.co_filename.endswith("_python_dispatch.py") and frame.f_code.co_filename != "<allocator>":
            frames.append(dict(filename=frame.f_code.co_filename, line=frame.f_lineno, name=frame.f_code.co_name))
        frame = frame.f_back
    return frames


exec(compile('''
def add(action, address, size, frames):
    ring.append(dict(action=action, addr=address, size=size, frames=frames, stream=0, time_us=time.time_ns() // 1000))
    del ring[:-history.get("max_entries", 1)]


def granted(size):
    size = -(-size // 512) * 512
    return size + 1024 if size > 1024 else size


def allocate(storage):
    global held, peak
    address, size = storage.data_ptr(), storage.nbytes()
    if size == 0 or address in blocks:
        return
    frames = frames_here()
    blocks[address] = dict(address=address, size=granted(size), requested_size=size, state="active_allocated",
                           frames=frames)
    storages[address] = weakref.ref(storage, lambda _: release(address))
    held += granted(size)
    peak = max(peak, held)
    add("alloc", address, size, frames)


def release(address):
    global held
    block = blocks.pop(address)
    held -= block["size"]
    add("free_requested", address, block["requested_size"], block["frames"])


class Allocator(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        for each in tree_leaves(result):
            if isinstance(each, torch.Tensor):
                allocate(each.untyped_storage())
        return result
''', "<allocator>", "exec"))


def record(enabled="all", **named):
    if set(named) - SUPPORTED:
        raise TypeError("unexpected keyword")
    calls.append([enabled, named])
    history.clear()
    history.update(named, enabled=enabled)
    if named.get("clear_history"):
        ring.clear()


SUPPORTED = {"context", "stacks", "max_entries", "clear_history", "skip_actions"}


def reset_peak():
    global peak
    peak = held


def stats(device=None):
    return {"allocated_bytes.all.peak": peak, "reserved_bytes.all.peak": peak, "allocated_bytes.all.current": held,
            "reserved_bytes.all.current": held}


def snapshot(*arguments):
    return dict(segments=[dict(device=0, stream=0, address=1, blocks=[dict(each) for each in blocks.values()])],
                device_traces=[[dict(each) for each in ring]])


def start():
    cuda = torch.cuda
    cuda.Event, cuda.is_initialized, cuda.is_current_stream_capturing = Event, lambda: True, lambda: False
    cuda.synchronize, cuda.current_device, cuda.get_device_name = lambda: None, lambda: 0, lambda: "NVIDIA Played"
    cuda.memory_stats, cuda.reset_peak_memory_stats, cuda.memory._record_memory_history = stats, reset_peak, record
    cuda.memory._snapshot, cuda.get_allocator_backend = snapshot, lambda: "native"
    cuda._get_nvml_device_index, cuda.mem_get_info = lambda device: 0, lambda: (1 << 30, 1 << 31)
    torch._C._cuda_isHistoryEnabled = lambda: history["enabled"] is not None
    torch._C._cuda_attach_out_of_memory_observer = lambda observer: None
    for call in [each[0] for each in cuda._queued_calls if "guarded" in each[0].__code__.co_names]:
        call()
    sys.modules["memtune_oom"].is_on = lambda tensor, device: device == 0
    Allocator().__enter__()


"""

MODEL = """
torch.manual_seed(0)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.num_heads, self.qkv, self.out = 2, torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (each.view(rows, length, 2, 16).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1)).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).reshape(rows, length, width))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = Attention()
        self.mlp = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.GELU(), torch.nn.Linear(128, 32))

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layers = torch.nn.Embedding(100, 32), torch.nn.ModuleList(Block() for _ in range(3))
        self.head = torch.nn.Linear(32, 100)
        self.register_buffer("scale", torch.ones(64))

    def forward(self, ids):
        x = self.embed(ids) * self.scale[:32]
        for layer in self.layers:
            x = run(layer, x)
        return self.head(x)


def run(layer, x):
    return layer(x)


def compute_loss(ids):
    return torch.nn.functional.cross_entropy(model(ids).view(-1, 100), ids.view(-1))


def train(steps=40):
    losses = open("losses", "w", buffering=1)
    for step in range(steps):
        ids = torch.randint(0, 100, (4, 24))
        optimizer.zero_grad()
        loss = compute_loss(ids)
        loss.backward()
        print(loss.item(), file=losses)
        optimizer.step()
"""

MAKES = """
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
"""

# What torch's own tool and the allocator tell of the same step.
ENDS = """
# As that of cuBLAS: no tensor has it.
address, size = 1 << 60, 1 << 20
blocks[address] = dict(address=address, size=size, requested_size=size, state="active_allocated", frames=frames_here())
held += size


def tell():
    import gc
    import json
    from torch.cuda import _memory_viz
    found = next(each for each in gc.get_objects() if type(each).__name__ == "StepMemory")
    paths = {}
    for line in _memory_viz.memory(found.snapshot, format_flamegraph=lambda text: text).splitlines():
        _, state, path = line.rsplit(" ", 1)[0].split(";", 2)
        if state == "active_allocated" and path != "<gaps>":
            paths[path] = paths.get(path, 0) + int(line.rsplit(" ", 1)[1])
    ours = {}
    for block in found.blocks:
        if block.died is None:
            path = ";".join(_memory_viz._frames_fmt(block.frames, reverse=True)) or "<non-python>"
            ours[path] = ours.get(path, 0) + block.size
    with open("told", "w") as file:
        json.dump(dict(peak=peak, calls=calls, viz=paths, ours=ours), file)


try:
    train()
finally:
    tell()
"""

CUDA = PLAYED + MODEL + "\nstart()\n" + MAKES + ENDS

LOSS_MODULE = CUDA.replace("torch.nn.functional.cross_entropy(", "loss_of(").replace("\noptimizer = ", """
loss_of = torch.nn.CrossEntropyLoss()
optimizer = """)

CHECKPOINTS = CUDA.replace("    return layer(x)", """
    from torch.utils.checkpoint import checkpoint
    return checkpoint(layer, x, use_reentrant=False)""")

OWN_HISTORY = CUDA.replace("\nstart()\n", """
history.update(enabled="all", max_entries=10**6)
start()
""")

CPU = "import torch\n" + MODEL + MAKES + "train()\n"

PLAIN = CPU.replace("train()\n", "train(9)\n")

PARAMETERS = 4 * (100 * 32 + 3 * (32 * 96 + 96 + 32 * 32 + 32 + 2 * 32 * 128 + 128 + 32) + 32 * 100 + 100)
ROWS = 4 * 24  # of hidden states
SCORES = 3 * 4 * 2 * 24 * 24 * 4

SHIM = ""


class StepMemoryTest(unittest.TestCase):
    runs = {}  # by script and environment

    def run_script(self, text, **environment):
        key = (text, *environment.items())
        if key not in self.runs:
            self.runs[key] = self.run_once(text, **environment), self.output, self.paths, self.losses, self.told
        records, self.output, self.paths, self.losses, self.told = self.runs[key]
        return records

    def run_once(self, text, **environment):
        with tempfile.TemporaryDirectory() as folder:
            self.script = os.path.join(folder, "script.py")
            with open(self.script, "w") as file:
                file.write(text)
            os.mkdir(os.path.join(folder, "records"))
            variables = dict(MEMTUNE_ATTACH=os.path.join(folder, "records"), MEMTUNE_ATTACH_STEPS="2+4+2",
                             MEMTUNE_ATTACH_CUPTI="", MEMTUNE_ATTACH_CAP="0", MEMTUNE_ATTACH_PLAN="",
                             CUDA_VISIBLE_DEVICES="")
            variables.update(environment)
            self.output = warm_script.run(SHIM, self.script, (), variables, folder)
            records, self.paths, self.told = [], "", None
            for name in os.listdir(os.path.join(folder, "records")):
                with open(os.path.join(folder, "records", name)) as file:
                    if name.endswith(".jsonl"):
                        records += [json.loads(line) for line in file]
                    elif name.endswith(".stacks"):
                        self.paths = file.read()
            with open(os.path.join(folder, "losses")) as file:
                self.losses = file.read()
            if os.path.exists(os.path.join(folder, "told")):
                with open(os.path.join(folder, "told")) as file:
                    self.told = json.load(file)
            return records

    def memory(self, text, **environment):
        self.records = self.run_script(text, **environment)
        found = [each for each in self.records if each["record"] == "memory"]
        self.assertEqual(len(found), 1, (self.output, [each for each in self.records if each["record"] == "note"]))
        return found[0]

    def at(self, found, moment):
        return {each["kind"]: each[moment] for each in found["owners"]}

    def test_owners_sum_to_the_peak_of_the_allocator(self):
        found = self.memory(CUDA)
        self.assertEqual((found["step"], found["complete"], found["saved"], found["stacks"]), (9, True, False, True))
        self.assertEqual(found["measured"], self.told["peak"])
        self.assertEqual(sum(self.at(found, "peak").values()), self.told["peak"])
        for moment in ("before", "peak", "end"):
            owners = self.at(found, moment)
            self.assertEqual(owners["parameters"], PARAMETERS)
            self.assertEqual(owners["buffers"], 4 * 64)
        self.assertEqual(self.at(found, "before")["gradients"], PARAMETERS)
        self.assertEqual(self.at(found, "end")["gradients"], PARAMETERS)
        self.assertGreaterEqual(self.at(found, "peak")["activations"], 3 * ROWS * (128 + 128) * 4)
        self.assertEqual(self.at(found, "end").get("activations", 0), 0)
        self.assertEqual(self.at(found, "peak")["attention"], SCORES)
        self.assertGreaterEqual(self.at(found, "peak")["logits"], 2 * ROWS * 100 * 4)  # and log_softmax
        self.assertLess(self.at(found, "peak")["logits"], 5 * ROWS * 100 * 4)
        self.assertGreaterEqual(self.at(found, "peak")["inputs"], ROWS * 8)
        self.assertEqual(self.at(found, "peak")["workspace"], 1 << 20)
        self.assertIn(found["phase"], ("forward", "backward"))

    def test_one_traced_step_is_enough(self):
        found = self.memory(CUDA, MEMTUNE_ATTACH_STEPS="2+4+1")
        self.assertEqual((found["step"], found["phase"] in ("forward", "backward")), (8, True))
        self.assertEqual(sum(self.at(found, "peak").values()), self.told["peak"])
        self.assertGreater(self.at(found, "peak")["logits"], 0)

    def test_the_curve_has_the_peak_and_its_owners(self):
        found = self.memory(CUDA)
        highest = max(found["curve"], key=lambda row: row[1])
        self.assertEqual(highest[:2], [found["peak_ns"], self.told["peak"]])
        kinds = dict(zip(sys.modules["memtune_memory"].KINDS, highest[2:]))
        owners = self.at(found, "peak")
        self.assertEqual({kind: size for kind, size in kinds.items() if size and kind != "rounding"},
                         {kind: size for kind, size in owners.items() if size and kind != "rounding"})
        times = [row[0] for row in found["curve"]]
        self.assertEqual(times, sorted(times))
        regions = next(each for each in self.records if each["record"] == "trace")["regions"]
        step = [each for each in regions if each[0] == "step"][-1]
        self.assertTrue(step[3] <= times[0] and times[-1] <= step[4] + 10**6, (step, times[0], times[-1]))

    def test_call_paths_are_those_of_memory_viz(self):
        found = self.memory(CUDA)
        self.assertGreater(len(self.told["viz"]), 10)
        self.assertEqual(self.told["ours"], self.told["viz"])
        sums = {}
        for line in self.paths.splitlines():
            path, size = line.rsplit(" ", 1)
            kind = path.split(";")[0]
            sums[kind] = sums.get(kind, 0) + int(size)
        owners = {kind: size for kind, size in self.at(found, "peak").items() if kind != "rounding" and size}
        self.assertEqual(sums, owners)

    def test_modules_and_lines(self):
        found = self.memory(CUDA)
        modules = {each["name"]: each for each in found["modules"]}
        self.assertEqual(modules["layers.*.mlp.*"]["count"], 9)
        self.assertGreaterEqual(modules["layers.*.mlp.*"]["activations"], 3 * ROWS * (128 + 128) * 4)
        self.assertGreaterEqual(modules["layers.*.attn"]["activations"], SCORES)
        line = next(each for each in found["lines"] if "softmax(-1)" in each["text"])
        self.assertEqual((os.path.basename(line["file"]), line["function"]), ("script.py", "forward"))
        self.assertGreaterEqual(line["bytes"], SCORES)

    def test_a_loss_outside_of_the_model_is_a_module(self):
        found = self.memory(LOSS_MODULE)
        modules = {each["name"]: each for each in found["modules"]}
        self.assertGreaterEqual(modules["CrossEntropyLoss"]["activations"], ROWS * 100 * 4)
        self.assertGreaterEqual(self.at(found, "peak")["logits"], ROWS * 100 * 4)

    def test_recomputed_activations_are_activations(self):
        found = self.memory(CHECKPOINTS)
        self.assertEqual(sum(self.at(found, "peak").values()), self.told["peak"])
        self.assertGreaterEqual(self.at(found, "peak")["activations"], 3 * ROWS * 32 * 4)

    def test_losses_are_the_same(self):
        self.run_script(PLAIN)
        plain = self.losses
        for script in (CUDA, CPU):
            self.memory(script)
            self.assertEqual(self.losses.split(), plain.split())

    def test_the_history_is_off_but_for_one_step(self):
        self.memory(CUDA)
        state = ["state", dict(context="state", stacks="python")]
        kinds = [each for each in self.told["calls"] if each[0] == "all"]
        self.assertEqual(self.told["calls"], [state, *kinds, state])
        self.assertEqual([(each[1]["context"], each[1]["max_entries"]) for each in kinds], [("alloc", 100000)])

    def test_an_older_pytorch_has_fewer_options(self):
        found = self.memory(CUDA.replace(', "clear_history", "skip_actions"}', "}"))
        self.assertEqual(sum(self.at(found, "peak").values()), self.told["peak"])

    def test_without_stacks_there_are_kinds_and_no_lines(self):
        found = self.memory(CUDA, MEMTUNE_MEMORY_HISTORY="0")
        self.assertEqual((found["stacks"], found["lines"], found["file"]), (False, [], ""))
        self.assertEqual(sum(self.at(found, "peak").values()), self.told["peak"])
        self.assertEqual([each[0] for each in self.told["calls"]], ["all", None])

    def test_a_script_that_records_itself_keeps_its_settings(self):
        found = self.memory(OWN_HISTORY)
        self.assertEqual(self.told["calls"], [])
        self.assertEqual(sum(self.at(found, "peak").values()), self.told["peak"])

    def test_a_ring_that_is_too_small_says_so(self):
        found = self.memory(CUDA.replace("    calls.append([enabled, named])",
                                         "    named = dict(named, max_entries=100)\n    calls.append([enabled, named])")
                            .replace("\nstart()\n", "\nstart()\nsys.modules['memtune_memory'].EVENTS = 100\n"))
        self.assertFalse(found["complete"])
        self.assertEqual(self.at(found, "end")["parameters"], PARAMETERS)

    def test_a_cpu_has_saved_tensors(self):
        found = self.memory(CPU)
        owners = self.at(found, "peak")
        self.assertEqual((found["saved"], found["measured"], found["curve"]), (True, 0, []))
        self.assertEqual((owners["parameters"], owners["gradients"]), (PARAMETERS, PARAMETERS))
        self.assertEqual(owners["buffers"], 4 * 64)
        self.assertEqual(owners["attention"], SCORES)
        self.assertEqual(owners["inputs"], ROWS * 8)
        self.assertGreaterEqual(owners["activations"], 3 * ROWS * (32 + 128 + 128 + 96) * 4)
        self.assertIn("logits;", self.paths)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    SHIM = os.path.abspath(sys.argv.pop(1))
    sys.path.append(SHIM)
    import memtune_memory
    unittest.main()
