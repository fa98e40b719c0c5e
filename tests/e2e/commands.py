"""Training scripts that do not use memtune. Each logs its own figures to sys.argv[1], one JSON object per line."""

PRELUDE = """
import json, os, sys, time
import torch

torch.manual_seed(int(os.environ.get("RANK", "0")))
torch.set_num_threads(1)
seen = open(sys.argv[1] + os.environ.get("RANK", ""), "a", buffering=1)


def tell(**what):
    seen.write(json.dumps(what) + "\\n")


def network():
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))


def batch():
    return torch.randn(8, 16)
"""

PLAIN = PRELUDE + """
import atexit
atexit.register(lambda: tell(atexit=True))
model = network()
optimizer = torch.optim.AdamW(model.parameters())
try:
    for step in range(40):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = model(batch()).square().mean()
        loss.backward()
        time.sleep(0.02 + 0.01 * (step % 2))
        tell(loss=loss.item())
        optimizer.step()
        tell(ms=(time.perf_counter() - began) * 1e3)
finally:
    tell(ended=True)
    print("the end of the script")
"""

# Prints a line, without a flush, and goes on once somebody has read it.
PRINTS = PRELUDE + """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    optimizer.zero_grad()
    model(batch()).square().mean().backward()
    optimizer.step()
    time.sleep(0.06)  # memtune looks for records every 50 ms
    print("after step", step + 1)
    while step == 1 and not os.path.exists("read"):
        time.sleep(0.01)
    print("warning", step + 1, file=sys.stderr)
"""

ACCUMULATION = PRELUDE + """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    total = 0.0
    for part in range(4):
        loss = model(batch()).square().mean() / 4
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    tell(loss=total) if step < 9 else None
"""

# Its phases are ranges of torch.profiler too.
SHARES = PRELUDE + """
from torch.profiler import ProfilerActivity, profile, record_function

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(0.05)
        return torch.randn(1024)

class Adam(torch.optim.AdamW):
    def step(self):  # without the hooks behind it, in which memtune prepares its tracing
        with record_function("update %d" % step):
            super().step()

model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)])
optimizer = Adam(model.parameters())
loader = iter(torch.utils.data.DataLoader(Rows(), batch_size=4))
profiler = profile(activities=[ProfilerActivity.CPU])
profiler.start()
try:
    for step in range(40):
        with record_function("evaluation %d" % step), torch.no_grad():
            for part in range(5):
                model(torch.randn(64, 1024))
        with record_function("data %d" % step):
            rows = next(loader)
        with record_function("forward %d" % step):
            loss = model(rows.repeat(16, 1)).square().mean()
        with record_function("backward %d" % step):
            loss.backward()
        optimizer.step()
        time.sleep(0.01)
        optimizer.zero_grad()
        tell(loss=loss.item())
finally:
    profiler.stop()
    for event in profiler.events():
        kind, _, number = event.name.partition(" ")
        if number.isdigit():
            tell(kind=kind, step=int(number), ms=event.cpu_time_total / 1e3, end=event.time_range.end / 1e3)
"""

# Every third step generates its data with the model.
GENERATING = PRELUDE + """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(60):
    began = time.perf_counter()
    if step % 3 == 2:
        with torch.no_grad():
            for part in range(10):
                model(batch())
                time.sleep(0.02)
    loss = model(batch()).square().mean()
    time.sleep(0.01)
    (loss / 4).backward()
    tell(loss=loss.item())
    optimizer.step()
    optimizer.zero_grad()
    tell(ms=(time.perf_counter() - began) * 1e3)
"""

# Reads settings from a config, like trainers, and from flags: python train.py SEEN CONFIG LR.
CONFIGURED = PRELUDE + """
from torch.utils.checkpoint import checkpoint
config = dict(line.split(": ") for line in open(sys.argv[2]).read().splitlines() if ": " in line)
model = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
                            for _ in range(4))
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[3]))
for step in range(40):
    hidden = torch.randn(32, 64)
    for block in model:
        if config.get("gradient_checkpointing") == "true":
            hidden = checkpoint(block, hidden, use_reentrant=False)
        else:
            hidden = block(hidden)
    loss = hidden.square().mean()
    loss.backward()
    tell(loss=loss.item())
    optimizer.step()
    optimizer.zero_grad()
"""

# Emulates the effect of FSDP settings on the step time. One setting needs a package that is not installed.
SHARDED = PRELUDE + """
config = open(sys.argv[2]).read()
tell(started=sys.argv[2].split("/")[-3].split("-", 1)[1])
if "INDUCTOR" in config:
    raise ModuleNotFoundError("No module named 'triton'")
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    model(torch.ones(8, 16)).square().mean().backward()
    time.sleep(0.25 if "fsdp_offload_params: true" in config else 0.02 if "reshard_after_forward: false" in config else 0.12)
    optimizer.step()
    optimizer.zero_grad()
"""

# The second and the fifth step overflow, so the scaler skips the optimizer.
SCALER = PRELUDE + """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(40):
    optimizer.zero_grad()
    loss = model(batch()).square().mean()
    scaler.scale(loss).backward()
    if step in (1, 4):
        next(model.parameters()).grad.fill_(float("inf"))
    tell(loss=loss.item())
    scaler.step(optimizer)
    scaler.update()
"""

IN_BACKWARD = PRELUDE + """
model = network()
optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}


def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)
for step in range(40):
    loss = model(batch()).square().mean()
    tell(loss=loss.item())
    loss.backward()
"""

# Two optimizers per step, and nested backwards.
TWO_OPTIMIZERS = PRELUDE + """
from torch.utils.checkpoint import checkpoint


class Within(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        return value.clone()

    @staticmethod
    def backward(context, gradient):
        with torch.enable_grad():
            torch.ones(1, requires_grad=True).sum().backward()
        return gradient


one, two = network(), network()
first, second = torch.optim.SGD(one.parameters(), lr=0.1), torch.optim.SGD(two.parameters(), lr=0.1)
for step in range(40):
    value = batch().requires_grad_()
    loss = Within.apply(sum(checkpoint(net, value, use_reentrant=True).square().mean() for net in (one, two)))
    loss.backward()
    tell(loss=loss.item())
    for optimizer in (first, second):
        optimizer.step()
        optimizer.zero_grad()
"""

CLOSURE = PRELUDE + """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    data = batch()

    def closure():
        optimizer.zero_grad()
        loss = model(data).square().mean()
        time.sleep(0.02)
        loss.backward()
        tell(loss=loss.item())
        return loss

    optimizer.step(closure)
"""

# Forks workers during training, and saves.
WORKERS_AND_SAVES = PRELUDE + """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.full((16,), float(index % 7))


model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    loader = torch.utils.data.DataLoader(Data(), batch_size=100, num_workers=2, multiprocessing_context="fork")
    for step, data in enumerate(loader):
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        tell(loss=loss.item())
        optimizer.step()
        if step == 2:
            torch.save(model.state_dict(), sys.argv[1] + ".pt")
            tell(bytes=os.path.getsize(sys.argv[1] + ".pt"))
"""

# Saves the best model at each step over what is there, and its last state in a new file.
SAVES_EVERY_STEP = PRELUDE + """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    optimizer.zero_grad()
    model(batch()).square().mean().backward()
    optimizer.step()
    torch.save(model.state_dict(), "seen.pt")
    torch.save(model.state_dict(), "last.pt")
    if step == 3:
        tell(bytes=os.path.getsize("last.pt"), own=torch.load("last.pt")["0.weight"].equal(model[0].weight))
"""

TRAINER = PRELUDE + """
import transformers
transformers.logging.set_verbosity_error()


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        tokens = torch.randint(0, 97, (32,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


class Tells(transformers.TrainerCallback):
    def on_log(self, arguments, state, control, logs=None, **others):
        if "loss" in logs:
            tell(logged=float(logs["loss"]))


class Trainer(transformers.Trainer):
    def compute_loss(self, *arguments, **named):
        loss = super().compute_loss(*arguments, **named)
        tell(part=loss.item())
        return loss


model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2))
arguments = transformers.TrainingArguments(
    output_dir=sys.argv[1] + ".out", per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=20, report_to=[],
    save_strategy="no", logging_steps=1, disable_tqdm=True, use_cpu=True, gradient_checkpointing=True,
    gradient_checkpointing_kwargs={"use_reentrant": False})
Trainer(model=model, args=arguments, train_dataset=Data(), callbacks=[Tells()]).train()
"""

# torchrun starts it, and imports PyTorch itself.
PARALLEL = PRELUDE + """
import torch.distributed as distributed
distributed.init_process_group("gloo")
rank = distributed.get_rank()
model = torch.nn.parallel.DistributedDataParallel(network())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(400, 16, generator=torch.Generator().manual_seed(0)))
sampler = torch.utils.data.DistributedSampler(data)
for (rows,) in torch.utils.data.DataLoader(data, batch_size=8, sampler=sampler):
    optimizer.zero_grad()
    loss = model(rows).square().mean()
    loss.backward()
    time.sleep(0.03 * rank)
    tell(loss=loss.item())
    optimizer.step()
"""

# Ranks without environment variables.
SPAWN = PRELUDE + """
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing


def work(rank, folder):
    distributed.init_process_group("gloo", init_method="file://" + folder + "/meet", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(40):
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    multiprocessing.start_processes(work, (os.path.dirname(sys.argv[1]),), nprocs=2, start_method="fork")
"""

# Saves by keywords. Then closes all its files, and opens files that get the same descriptors.
CLOSES_FILES = PRELUDE + """
os.chdir("/")
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
mine = []
try:
    for step in range(40):
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()
        if step == 1:
            torch.save(obj=model.state_dict(), f=sys.argv[1] + ".pt")
            tell(bytes=os.path.getsize(sys.argv[1] + ".pt"))
        if step == 2:
            name = seen.name
            os.closerange(3, 1000)
            mine = [open(sys.argv[1] + ".%d" % i, "wb", buffering=0) for i in range(40)]
finally:
    written = sum(os.path.getsize(file.name) for file in mine)
    seen = open(name, "a", buffering=1)
    tell(written=written)
"""

OWN_HOOK = PRELUDE + """
sys.excepthook = lambda *_: print("unwell")
raise torch.OutOfMemoryError("CUDA out of memory in 'caf\\udce9'")
"""

# Emulates a full disk.
REMOVES_RECORDS = PRELUDE + """
import shutil
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    for step in range(10 ** 9):
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        if step == 1:
            shutil.rmtree(os.environ["MEMTUNE_ATTACH"])
        optimizer.step()
finally:
    tell(ended=step)
"""

# Emulates a step that a CUDA graph captures. Meanwhile nothing may use the device.
CAPTURES = PRELUDE + """
touched = False


class Event:
    def __init__(self, enable_timing):
        global touched
        touched = True


model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.cuda.Event = Event
torch.cuda.is_initialized = torch.cuda.is_current_stream_capturing = lambda: True
model(batch()).square().mean().backward()
optimizer.step()
tell(touched=touched)
"""

NO_OPTIMIZER = PRELUDE + """
model = network()
for step in range(40):
    model(batch()).square().mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
"""

# Continues after every exception.
STUBBORN = PRELUDE + """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10 ** 9):
    try:
        model(batch()).square().mean().backward()
        optimizer.step()
    except BaseException:
        time.sleep(0.01)
"""

# Emulates PyTorch's CUDA device. Its clock runs at half the host's speed and is always one step behind.
PLAYED_DEVICE = PRELUDE + """
moments = []


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.moment = time.perf_counter()
        moments.append(self)

    def query(self):
        return moments.index(self) < len(moments) - 12

    def elapsed_time(self, other):
        return (other.moment - self.moment) * 500


def synchronize():
    tell(synchronized=True)
    moments.extend([None] * 12)


model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.cuda.Event, torch.cuda.synchronize = Event, synchronize
torch.cuda.is_initialized, torch.cuda.is_current_stream_capturing = lambda: True, lambda: False
torch.cuda.get_device_name, torch.cuda.current_device = lambda: "NVIDIA Played", lambda: 0
torch.cuda.mem_get_info = lambda: (1 << 30, 3 << 30)
torch.cuda.memory_stats = lambda: {"allocated_bytes.all.peak": 1000 + step, "reserved_bytes.all.peak": 2000 + step}
for step in range(40):
    tell(began=time.perf_counter() * 1e3)
    optimizer.zero_grad()
    loss = model(batch()).square().mean()
    time.sleep(0.02)
    loss.backward()
    tell(loss=loss.item())
    optimizer.step()
"""

# Fails as CUDA does when free memory is in pieces, unless segments may grow.
IN_PIECES = PRELUDE + """
if "expandable_segments:True" not in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""):
    raise torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.06 GiB is free. "
        "Of the allocated memory 62.25 GiB is allocated by PyTorch, and 7.01 GiB is reserved by PyTorch but unallocated.")
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    optimizer.zero_grad()
    model(batch()).square().mean().backward()
    optimizer.step()
"""

# Message of CUDACachingAllocator in PyTorch 2.11 on a device that many processes use.
LONG_OUT_OF_MEMORY = PRELUDE + """
text = ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.06 GiB is free. " +
        "".join(f"Process {4123 + i} has 1.75 GiB memory in use. " for i in range(40)) + "Of the allocated memory "
        "62.25 GiB is allocated by PyTorch, and 7.01 GiB is reserved by PyTorch but unallocated. If reserved but unallocated "
        "memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
        "documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
        "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)")
tell(text=text)
raise torch.OutOfMemoryError(text)
"""

OUT_OF_MEMORY = PRELUDE + """
raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
"""

# Emulates an allocation that fails on a CUDA device, where a line of this script holds 60 GiB.
EXPLAINED = PRELUDE + """
import types

cuda, observers, block = torch.cuda, [], 60 << 30
torch._C._cuda_attach_out_of_memory_observer, torch._C._cuda_isHistoryEnabled = observers.append, lambda: True
cuda.get_allocator_backend = lambda: "native"
cuda.memory_stats = lambda device: {"allocated_bytes.all.current": block, "reserved_bytes.all.current": block + 512}
cuda.get_device_properties = lambda device: types.SimpleNamespace(total_memory=80 << 30)
frames = [dict(filename=__file__, line=1, name="forward")]
cuda.memory_snapshot = lambda **named: [
    dict(device=0, blocks=[dict(address=1, size=block, state="active_allocated", frames=frames)])]
for call, _ in cuda._queued_calls:
    if "guarded" in call.__code__.co_names:
        call()
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(batch()).square().mean().backward()
    optimizer.step()
for observer in observers:
    observer(0, 30 << 30, 80 << 30, 1 << 20)
raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 30.00 GiB.")
"""

FAILS = PRELUDE + """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    model(batch()).square().mean().backward()
    optimizer.step()
    if step == 2:
        raise KeyError("no such column")
"""
