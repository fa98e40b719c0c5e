"""Tests the records of allocations that fail: scripts run under the shim, on a device that the CPU plays.

    oom_test.py SHIM_FOLDER [unittest arguments]

Needs torch.
"""
import json
import os
import sys
import tempfile
import unittest

import warm_script

# Plays PyTorch's CUDA allocator: blocks of the tensors given to `allocated`, and `fail`, which calls the observers.
PLAYED = """
import threading
import sys
import torch

GIB = 1 << 30
observers, calls, blocks = [], [], []
history = False


class Event:
    def __init__(self, enable_timing):
        pass

    def record(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, other):
        return 1.0


def record(*arguments, **named):
    calls.append([arguments, named])


def stats(device=None):
    sizes = sum(block["size"] for block in blocks)
    return {"allocated_bytes.all.peak": sizes, "reserved_bytes.all.peak": sizes + 7,
            "allocated_bytes.all.current": sizes, "reserved_bytes.all.current": sizes + 7,
            "num_alloc_retries": 3, "segment.all.current": len(blocks)}


def snapshot(include_traces=True):
    other = dict(address=1, size=99, state="active_allocated", frames=[])
    return [dict(device=0, blocks=blocks + [dict(address=2, size=5, state="inactive", frames=[])]),
            dict(device=1, blocks=[other])]


def allocated(tensor, inner=()):
    '''A block with the stack of the caller.'''
    frames = [dict(filename=torch.__file__, line=1, name=name) for name in inner]
    frame = sys._getframe(1)
    while frame is not None:
        frames.append(dict(filename=frame.f_code.co_filename, line=frame.f_lineno, name=frame.f_code.co_name))
        frame = frame.f_back
    storage = tensor.untyped_storage()
    # The storage stays, or a later tensor would get the address of this block.
    blocks.append(dict(address=storage.data_ptr(), size=storage.nbytes(), state="active_allocated", frames=frames,
                       storage=storage))
    return tensor


# Not a line of the script.
exec(compile('''
def fail(requested=2 * GIB):
    for observer in observers:
        assert observer(0, requested, 80 * GIB, GIB // 4) is None
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate %.2f GiB." % (requested / GIB))
''', "<allocator>", "exec"))


class Nvml:
    def of_others(self, index, reserved):
        assert reserved == stats()["reserved_bytes.all.current"]
        return 3 * GIB

    def of_process(self, index, reserved):
        return reserved


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Embedding(16, 8)
        self.second = torch.nn.Linear(8, 4)
        self.register_buffer("table", torch.ones(32))

    def forward(self, ids, broken=False):
        hidden = allocated(self.first(ids))
        if broken:
            fail()
        return self.second(hidden)


def all_blocks(model, optimizer):
    for each in (*model.parameters(), *model.buffers()):
        allocated(each)
    for each in model.parameters():
        if each.grad is not None:
            allocated(each.grad)
    for state in optimizer.state.values():
        for each in state.values():
            allocated(each)


def train(model, optimizer, ids):
    loss = model(ids).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    blocks.clear()
    all_blocks(model, optimizer)


def start():
    cuda = torch.cuda
    cuda.Event, cuda.is_initialized, cuda.is_current_stream_capturing = Event, lambda: True, lambda: False
    cuda.synchronize, cuda.current_device, cuda.get_device_name = lambda: None, lambda: 0, lambda: "NVIDIA Played"
    cuda.memory_allocated = lambda: stats()["allocated_bytes.all.current"]
    cuda.memory_stats, cuda.memory_snapshot, cuda.memory._record_memory_history = stats, snapshot, record
    cuda.get_allocator_backend, cuda._get_nvml_device_index = lambda: "native", lambda device: device
    cuda.get_device_properties = lambda device: type("Properties", (), dict(total_memory=96 * GIB))
    torch._C._cuda_isHistoryEnabled = lambda: history
    torch._C._cuda_attach_out_of_memory_observer = observers.append
    for call in [each[0] for each in cuda._queued_calls if "guarded" in each[0].__code__.co_names]:
        call()
    sys.modules["memtune_oom"].is_on = lambda tensor, device: device == 0
    import gc
    next(each for each in gc.get_objects() if type(each).__name__ == "Training").device_memory = Nvml()


"""

TRAINS = PLAYED + """
start()
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
ids = torch.ones(2, 5, dtype=torch.int64)
"""

FORWARD = TRAINS + """
for length in (7, 5, 5):
    train(model, optimizer, ids.new_ones(2, length))
kept = []
for i in range(12):
    kept.append(allocated(torch.ones(100 + i)))
logits = allocated(torch.ones(1000), ("cross_entropy", "_call_impl"))  # the head
model(torch.ones(2, 9, dtype=torch.int64), broken=True)
"""

BACKWARD = TRAINS + """
class Fails(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        return value.clone()

    @staticmethod
    def backward(context, gradient):
        fail()


train(model, optimizer, ids)
Fails.apply(model(ids)).sum().backward()
"""

UPDATE = TRAINS + """
optimizer.register_step_pre_hook(lambda *_: fail())
train(model, optimizer, ids)
"""

NO_GRADIENTS = TRAINS + """
train(model, optimizer, ids)
with torch.no_grad():
    model(ids, broken=True)
"""

CHECKPOINTS = TRAINS + """
from torch.utils.checkpoint import checkpoint

train(model, optimizer, ids)
checkpoint(lambda anchor: model(ids, broken=True), torch.ones(1, requires_grad=True), use_reentrant=True)
"""

EVALUATION_KEEPS = TRAINS + """
train(model, optimizer, ids)
kept = []
with torch.no_grad():
    for batch in range(4):
        kept.append(allocated(model(ids)))
    model(ids[:, :1])  # a generation
    model(ids, broken=True)
"""

TEACHER = TRAINS + """
teacher, critic, frozen, silent = (type(name, (Model,), {})() for name in ("Teacher", "Critic", "Frozen", "Silent"))
frozen.requires_grad_(False)
other = torch.optim.SGD(model.parameters(), lr=0.1)
critic.first = torch.nn.Identity()
for each in range(2):
    teacher(ids), frozen(ids), critic(model.first(ids))
    with torch.no_grad():
        silent(ids)
    train(model, optimizer, ids)
allocated(teacher.first.weight)
fail()
"""

CHECKPOINTED = TRAINS + """
from torch.utils.checkpoint import checkpoint

class Keeps(torch.nn.Module):
    def forward(self, hidden):
        allocated(hidden)
        return hidden * 2


hidden = checkpoint(Keeps(), model.first(ids), use_reentrant=False)
fail()
"""

LEAKS = TRAINS + """
kept = []
for step in range(52):
    train(model, optimizer, ids)
    kept.append(torch.ones(25))
    for each in kept:
        allocated(each)
"""

FUNCTION = TRAINS + """
class Fails(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        fail()


train(model, optimizer, ids)
if len(sys.argv) > 1:
    torch.set_grad_enabled(False)
Fails.apply(model(ids))
"""

EVALUATES = TRAINS + """
train(model, optimizer, ids)
model.eval()
model(ids, broken=True)
"""

EVALUATES_FIRST = TRAINS + """
model.eval()
kept = model(ids)
model(ids, broken=True)
"""

# Without dropout, say.
TRAINS_IN_EVALUATION_MODE = TRAINS + """
model.eval()
train(model, optimizer, ids)
model(ids, broken=True)
"""

LOSSES = TRAINS + """
def losses(count, broken=False):
    return sum(model(ids, broken and each == count - 1).square().mean() for each in range(count))


"""

ONE_BACKWARD = LOSSES + """
for count, broken in ((2, False), (8, True)):
    losses(count, broken).backward()
"""

VALIDATES = LOSSES + """
losses(2).backward()
losses(8, broken=True)
"""

OTHER = TRAINS + """
second = Model()
fail()
"""

SEARCHES = TRAINS + """
for size in range(12):
    try:
        model(ids)
        fail(size * GIB + GIB)
    except torch.OutOfMemoryError:
        pass
fail(100 * GIB)
"""

CATCHES = TRAINS + """
for step in range(5):
    try:
        fail()
    except torch.OutOfMemoryError:
        train(model, optimizer, ids)
"""

STARTS = PLAYED + """
history = len(sys.argv) > 1
start()
with open("calls", "w") as file:
    print(len(observers), calls, file=file)
"""

BROKEN = TRAINS + """
def broken(*arguments, **named):
    raise RuntimeError("no snapshot")


torch.cuda.memory_snapshot = broken
try:
    fail()
except torch.OutOfMemoryError:
    pass
torch.cuda.memory_stats = broken
fail()
"""

SHIM = ""


class OutOfMemoryTest(unittest.TestCase):
    def run_script(self, text, *arguments, **environment):
        """The records of a script."""
        with tempfile.TemporaryDirectory() as folder:
            self.script = os.path.join(folder, "script.py")
            with open(self.script, "w") as file:
                file.write(text)
            os.mkdir(os.path.join(folder, "records"))
            variables = dict(MEMTUNE_ATTACH=os.path.join(folder, "records"), MEMTUNE_ATTACH_STEPS="2+50+0",
                             MEMTUNE_ATTACH_CUPTI="", MEMTUNE_ATTACH_CAP="0", MEMTUNE_ATTACH_PLAN="",
                             CUDA_VISIBLE_DEVICES="", **environment)
            self.output, records = warm_script.run(SHIM, self.script, arguments, variables, folder), []
            for name in os.listdir(os.path.join(folder, "records")):
                if name.endswith(".jsonl"):
                    with open(os.path.join(folder, "records", name)) as file:
                        records += [json.loads(line) for line in file]
            calls = os.path.join(folder, "calls")
            if os.path.exists(calls):
                with open(calls) as file:
                    self.calls = file.read()
            return records

    def failures(self, text):
        records = self.run_script(text)
        self.assertIn("OutOfMemoryError: CUDA out of memory", self.output)
        self.assertNotIn("memtune's measuring failed", str(records))
        return [record for record in records if record["record"] == "oom"]

    def failure(self, text):
        failures = self.failures(text)
        self.assertEqual(len(failures), 1, self.output)
        return failures[0]

    def line_of(self, words):
        numbers = [i for i, line in enumerate(FORWARD.split("\n"), 1) if words in line]
        self.assertEqual(len(numbers), 1)
        return numbers[0]

    def test_a_failure_in_forward_names_kinds_and_lines(self):
        found = self.failure(FORWARD)
        gib = 1 << 30
        self.assertEqual([found[key] for key in ("device", "requested", "limit", "free", "total", "others")],
                         [0, 2 * gib, 80 * gib, gib // 4, 96 * gib, 3 * gib])
        self.assertEqual((found["phase"], found["step"], found["evaluating"]), ("forward", 4, False))
        parameters = 4 * (16 * 8 + 8 * 4 + 4)
        self.assertEqual(found["parameters"], parameters)
        self.assertEqual(found["gradients"], 0)  # set to None
        self.assertEqual(found["states"], 2 * parameters + 4 * 3)
        self.assertEqual(found["buffers"], 4 * 32)
        self.assertEqual(found["models"], [dict(name="Model", bytes=parameters, trained=True, with_gradients=False)])
        self.assertEqual(found["reserved"], found["allocated"] + 7)
        self.assertEqual((found["batch"], found["largest"]), ([2, 18, 18], [2, 14, 14]))
        self.assertEqual(len(found["held"]), 3)
        self.assertEqual(len(set(found["held"][1:])), 1)
        self.assertEqual(found["amounts"], [14, 10, 10])
        self.assertEqual((found["runs"], found["usual_runs"], found["held_runs"]), (1, 1, []))
        self.assertFalse(found["checkpointed"])
        self.assertEqual(found["where"], dict(
            file=self.script, line=self.line_of("            fail()"), function="forward", inner="", text="fail()",
            bytes=2 * gib, count=1))
        kept = 4 * sum(range(100, 112))
        hidden = 4 * 2 * 9 * 8
        self.assertEqual([(each["bytes"], each["count"]) for each in found["lines"]],
                         [(kept, 12), (4000, 1), (hidden, 1)])
        self.assertEqual(found["rest"], kept + 4000 + hidden)
        self.assertEqual(found["start"], found["allocated"] - hidden)
        self.assertEqual(found["lines"][1], dict(
            file=self.script, line=self.line_of("# the head"), function="<module>", inner="cross_entropy", bytes=4000,
            text='logits = allocated(torch.ones(1000), ("cross_entropy", "_call_impl"))  # the head', count=1))

    def test_phases_and_steps(self):
        for script, phase, step, evaluating in (
                (BACKWARD, "backward", 2, False), (UPDATE, "update", 1, False),
                (NO_GRADIENTS, "no_gradients", 2, False), (CHECKPOINTS, "forward", 2, False),
                (EVALUATES, "forward", 2, True), (EVALUATES_FIRST, "forward", 1, True),
                (TRAINS_IN_EVALUATION_MODE, "forward", 2, False), (OTHER, "other", 1, False)):
            with self.subTest(phase=phase, evaluating=evaluating):
                found = self.failure(script)
                self.assertEqual((found["phase"], found["step"], found["evaluating"]), (phase, step, evaluating))
                if phase == "update":
                    self.assertEqual(found["gradients"], found["parameters"])
                    self.assertEqual(found["batch"], [2, 10, 10])
                    self.assertEqual(found["largest"], [0, 0, 0])
                if phase == "other":
                    self.assertEqual([(each["name"], each["trained"]) for each in found["models"]],
                                     [("Model", True), ("Model", False)])
                    self.assertEqual(found["models"][0]["bytes"], found["models"][1]["bytes"])

    def test_an_evaluation_tells_what_was_held_before_each_run(self):
        found = self.failure(EVALUATION_KEEPS)
        held = found["held_runs"]
        self.assertEqual(len(held), 5)  # without the step of a generation
        self.assertEqual(sorted(set(held)), held)

    def test_runs_for_one_backward_and_a_validation_differ_by_where_they_are_called(self):
        for script, runs in ((ONE_BACKWARD, 0), (VALIDATES, 8)):
            with self.subTest(runs=runs):
                found = self.failure(script)
                self.assertEqual((found["runs"], found["usual_runs"]), (runs, 2))

    def test_a_model_that_is_not_trained_and_runs_with_gradients(self):
        found = self.failure(TEACHER)
        self.assertEqual({each["name"]: each["with_gradients"] for each in found["models"]},
                         dict(Model=False, Teacher=True, Critic=False, Frozen=False, Silent=False))

    def test_a_function_of_autograd_runs_without_gradients_inside(self):
        self.assertEqual(self.failure(FUNCTION)["phase"], "forward")
        found = [each for each in self.run_script(FUNCTION, "no_grad") if each["record"] == "oom"]
        self.assertEqual(found[0]["phase"], "no_gradients")

    def test_two_steps_have_the_lines_that_hold_memory(self):
        records = self.run_script(LEAKS)
        held = [each for each in records if each["record"] == "held"]
        self.assertEqual([each["step"] for each in held], [1, 52], self.output)
        self.assertEqual(held[0]["parameters"], held[1]["parameters"])
        self.assertEqual(held[1]["rest"] - held[0]["rest"], 51 * 100)
        grown = [line for each in held for line in each["lines"] if line["text"] == "allocated(each)"]
        self.assertEqual([line["bytes"] for line in grown], [51 * 100])
        steps = [each for each in records if each["record"] == "step"]
        self.assertEqual(steps[-1]["held"] - steps[-2]["held"], 100)
        self.assertEqual((steps[-1]["retries"], steps[-1]["segments"] > 50), (3, True))

    def test_checkpointed_parts_are_seen(self):
        self.assertTrue(self.failure(CHECKPOINTED)["checkpointed"])

    def test_a_search_for_a_batch_size_writes_the_first_failures_and_the_last(self):
        failures = self.failures(SEARCHES)
        self.assertEqual([each["requested"] >> 30 for each in failures], [1, 2, 3, 4, 5, 6, 7, 8, 100])

    def test_a_failure_that_the_script_catches_changes_nothing(self):
        records = self.run_script(CATCHES)
        self.assertEqual([each["record"] for each in records if each["record"] in ("step", "exception")], ["step"] * 5)
        self.assertEqual(sum(each["record"] == "oom" for each in records), 5)

    def test_stacks_are_of_live_blocks_and_of_python_alone(self):
        self.run_script(STARTS)
        self.assertEqual(self.calls, "1 [[('state',), {'context': 'state', 'stacks': 'python'}]]\n", self.output)

    def test_a_script_that_records_itself_keeps_its_settings(self):
        self.run_script(STARTS, "records")
        self.assertEqual(self.calls, "1 []\n", self.output)

    def test_stacks_can_be_switched_off(self):
        self.run_script(STARTS, MEMTUNE_MEMORY_HISTORY="0")
        self.assertEqual(self.calls, "1 []\n", self.output)

    def test_errors_are_notes_and_the_script_gets_its_own_exception(self):
        records = self.run_script(BROKEN)
        self.assertEqual([each["type"] for each in records if each["record"] == "exception"], ["OutOfMemoryError"])
        notes = [each["text"] for each in records if each["record"] == "note"]
        self.assertEqual(notes, ["who holds the memory is not known: RuntimeError: no snapshot",
                                 "memtune's measuring failed: RuntimeError: no snapshot"])
        self.assertEqual([each["requested"] for each in records if each["record"] == "oom"], [2 << 30])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    SHIM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
