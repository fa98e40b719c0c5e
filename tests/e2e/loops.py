"""Training loops of libraries and papers, without memtune. Each logs the losses of a step's gradient, and the moment
after the optimizer that ends the step."""

from commands import PRELUDE

PRELUDE += """
import atexit
atexit.register(lambda: tell(atexit=True))


def work(step):  # so long that clocks can be compared, and not always as long
    time.sleep(0.02 + 0.01 * (step % 2))


def stepped(loss):
    tell(loss=loss, at_ms=time.perf_counter() * 1e3)
"""

# The optimizer calls closures, and parts of a step are outside of it.
LIGHTNING = PRELUDE + """
import logging, warnings
warnings.filterwarnings("ignore")
import pytorch_lightning
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)


class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.parts, self.steps = network(), [], 0

    def training_step(self, data, index):
        work(index // 2)
        loss = self.net(data[0]).square().mean()
        self.parts.append(loss.item() / 2)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

    def optimizer_step(self, epoch, index, optimizer, closure):
        super().optimizer_step(epoch, index, optimizer, closure)
        stepped(sum(self.parts))
        self.parts = []


data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(400, 16)), batch_size=4)
trainer = pytorch_lightning.Trainer(
    max_epochs=9, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, accumulate_grad_batches=2)
try:
    trainer.fit(Module(), data)
finally:
    tell(ended=True)
"""

# The module steps two optimizers itself.
LIGHTNING_MANUAL = PRELUDE + """
import logging, warnings
warnings.filterwarnings("ignore")
import pytorch_lightning
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)


class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.automatic_optimization = network(), network(), False

    def training_step(self, data, index):
        work(index)
        losses = 0.0
        for net, optimizer in zip((self.one, self.two), self.optimizers()):
            loss = net(data[0]).square().mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            losses += loss.item()
        stepped(losses)

    def configure_optimizers(self):
        return [torch.optim.AdamW(self.one.parameters()), torch.optim.SGD(self.two.parameters(), lr=0.1)]


data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(400, 16)), batch_size=4)
trainer = pytorch_lightning.Trainer(
    max_epochs=9, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False)
try:
    trainer.fit(Module(), data)
finally:
    tell(ended=True)
"""

ACCELERATE = PRELUDE + """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = network()
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(400, 16)), batch_size=4)
model, optimizer, data = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), data)
parts = []
try:
    for epoch in range(9):
        for index, (one,) in enumerate(data):
            with accelerator.accumulate(model):
                work(index // 2)
                loss = model(one).square().mean()
                accelerator.backward(loss)
                parts.append(loss.item() / 2)
                optimizer.step()
                if accelerator.sync_gradients:
                    stepped(sum(parts))
                    parts = []
                optimizer.zero_grad()
finally:
    tell(ended=True)
"""

SCALER = PRELUDE + """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
try:
    for step in range(40):
        work(step)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(batch()).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        stepped(loss.item())
        scaler.update()
finally:
    tell(ended=True)
"""

# Optimizers step when their gradients are ready. The last one ends the step.
IN_BACKWARD = PRELUDE + """
model = network()
optimizers = {parameter: torch.optim.AdamW([parameter]) for parameter in model.parameters()}
updates, loss = 0, None


def update(parameter):
    global updates
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()
    updates += 1
    if updates % len(optimizers) == 0:
        stepped(loss.item())


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)
try:
    for step in range(40):
        work(step)
        loss = model(batch()).square().mean()
        loss.backward()
finally:
    tell(ended=True)
"""

# The optimizer calls a closure several times per step and returns its first loss.
LBFGS = PRELUDE + """
model = network()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3, line_search_fn="strong_wolfe")
try:
    for step in range(40):
        data = batch()
        work(step)

        def closure():
            optimizer.zero_grad()
            loss = model(data).square().mean()
            loss.backward()
            return loss

        stepped(optimizer.step(closure).item())
finally:
    tell(ended=True)
"""

# The second of two optimizers, which steps after it, ends the step.
GAN = PRELUDE + """
maker, judge = torch.nn.Linear(4, 16), network()
first, second = torch.optim.AdamW(judge.parameters()), torch.optim.AdamW(maker.parameters())
entropy = torch.nn.functional.binary_cross_entropy_with_logits
try:
    for step in range(40):
        work(step)
        made = maker(torch.randn(8, 4))
        first.zero_grad()
        real = entropy(judge(batch()), torch.ones(8, 1))
        fake = entropy(judge(made.detach()), torch.zeros(8, 1))
        real.backward()
        fake.backward()
        first.step()
        second.zero_grad()
        loss = entropy(judge(made), torch.ones(8, 1))
        loss.backward()
        second.step()
        stepped(real.item() + fake.item() + loss.item())
finally:
    tell(ended=True)
"""
