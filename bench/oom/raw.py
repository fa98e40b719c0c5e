"""Training scripts in plain PyTorch that run out of device memory, each in another way: python raw.py KIND [flags]

Each trains some steps first, unless its kind fails earlier. ../oom_causes.py starts them.
"""

import collections
import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from common import GIB, VOCABULARY, batches, decoder, main, next_token_loss, optimizer_of, report, tokens, train, update


def plain(options):
    """A batch that is too large, or a card that is too small for it."""
    model = decoder(options)
    train(model, optimizer_of(model, options), options)


def deep(options):
    model = decoder(options, layers=64, width=512)
    train(model, optimizer_of(model, options), options)


def long_row(options):
    """Rows as they come: three short batches, then one long document."""
    model = decoder(options)
    train(model, optimizer_of(model, options), options, lengths=[512, 384, 512, 4096])


def curriculum(options):
    """Longer rows from step to step."""
    model = decoder(options)
    train(model, optimizer_of(model, options), options, lengths=range(256, 256 * options.steps, 256))


def long_attention(options):
    model = decoder(options, width=512, layers=6)
    train(model, optimizer_of(model, options), options)


# --- leaks


def metrics(options):
    """Keeps a metric with its graph for the log."""
    model = decoder(options, width=512, layers=4, vocabulary=32768)
    optimizer, entropies = optimizer_of(model, options), []
    for step, ids in enumerate(batches(options), 1):
        logits = model(ids)
        loss = next_token_loss(logits, ids)
        loss.backward()
        update(optimizer)
        scores = logits.detach() if options.detach else logits
        entropy = -(scores.softmax(-1) * scores.log_softmax(-1)).sum(-1).mean()
        entropies.append(entropy)
        report(step, loss)
    print(f"entropy {torch.stack(entropies).mean().item():.2f}")


def features(options):
    """Keeps features and logits of every step for a plot."""
    model = decoder(options, layers=6)
    optimizer, kept = optimizer_of(model, options), []
    for step, ids in enumerate(batches(options), 1):
        hidden = model.hidden(ids)
        logits = model.lm_head(hidden)
        loss = next_token_loss(logits, ids)
        loss.backward()
        update(optimizer)
        kept += [each.detach().cpu() if options.on_cpu else each.detach() for each in (hidden, logits)]
        report(step, loss)


def hooks(options):
    """A hook records the output of each block for statistics, and nothing clears the record."""
    model = decoder(options)
    record = collections.defaultdict(list)
    for name, block in model.blocks.named_children():
        block.register_forward_hook(
            lambda module, inputs, output, name=name: record[name].append(
                output.detach().cpu() if options.on_cpu else output.detach()))
    train(model, optimizer_of(model, options), options)


def snapshots(options):
    """Keeps the weights of each step, to average the last ones."""
    model = decoder(options)
    optimizer, kept = optimizer_of(model, options), []
    for step, ids in enumerate(batches(options), 1):
        loss = next_token_loss(model(ids), ids)
        loss.backward()
        update(optimizer)
        kept.append({name: each.detach().to("cpu" if options.on_cpu else each.device, copy=True)
                     for name, each in model.state_dict().items()})
        report(step, loss)


# --- evaluation


def evaluation(options):
    """Validation in evaluation mode, without torch.no_grad(), that sums up losses."""
    model = decoder(options)
    train(model, optimizer_of(model, options), options)
    model.eval()
    total = 0
    with torch.set_grad_enabled(not options.no_grad):
        for ids in batches(options):
            total = total + next_token_loss(model(ids), ids)
    print(f"validation loss {total.item() / options.steps:.3f}")


def validation_in_training_mode(options):
    """The same after each third step, and the mode stays as it is."""
    model = decoder(options)
    optimizer = optimizer_of(model, options)
    for step, ids in enumerate(batches(options), 1):
        loss = next_token_loss(model(ids), ids)
        loss.backward()
        update(optimizer)
        report(step, loss)
        if step % 3 == 0:
            with torch.set_grad_enabled(not options.no_grad):
                total = sum(next_token_loss(model(ids), ids) for ids in batches(options))
            print(f"validation loss {total.item() / options.steps:.3f}")


def large_evaluation(options):
    """Validation of many rows at once, whose logits are float32."""
    model = decoder(options, width=512, layers=4, vocabulary=65536)
    train(model, optimizer_of(model, options), options)
    model.eval()
    with torch.no_grad():
        for _ in range(2):
            ids = tokens(options, rows=options.evaluation_batch_size)
            print(f"validation loss {next_token_loss(model(ids), ids).item():.3f}")


def outputs(options):
    """Keeps all logits of the validation for a metric at its end."""
    model = decoder(options, width=512, layers=4, vocabulary=32768)
    train(model, optimizer_of(model, options), options)
    model.eval()
    kept = []
    with torch.no_grad():
        for ids in batches(options):
            for _ in range(6):
                logits = model(ids)
                kept.append(logits.cpu() if options.on_cpu else logits)
    print(f"{len(kept)} batches of logits")


# --- several models


def reference(options):
    """Preference tuning with a frozen copy of the model on the same card."""
    model = decoder(options, width=2048, layers=7)
    frozen = copy.deepcopy(model).requires_grad_(False).eval()
    frozen = frozen.cpu() if options.on_cpu else frozen
    optimizer = optimizer_of(model, options)
    for step, ids in enumerate(batches(options), 1):
        with torch.no_grad():
            given = ids[:1, :128].cpu() if options.on_cpu else ids[:1, :128]
            expected = next_token_loss(frozen(given), given).to(ids.device)
        loss = -F.logsigmoid(expected - next_token_loss(model(ids), ids))
        loss.backward()
        update(optimizer)
        report(step, loss)


def average(options):
    """An exponential moving average of the weights, as a model on the card."""
    model = decoder(options, width=2048, layers=7)
    optimizer = optimizer_of(model, options)
    ema = copy.deepcopy(model).requires_grad_(False)
    ema = ema.cpu() if options.on_cpu else ema
    for step, ids in enumerate(batches(options), 1):
        loss = next_token_loss(model(ids), ids)
        loss.backward()
        update(optimizer)
        with torch.no_grad():
            for mean, each in zip(ema.parameters(), model.parameters()):
                mean.lerp_(each.to(mean.device), 0.01)
        report(step, loss)


def teacher(options):
    """Distillation from a larger model that runs with gradients."""
    model, large = decoder(options, width=512, layers=4), decoder(options, layers=16)
    optimizer = optimizer_of(model, options)
    for step, ids in enumerate(batches(options), 1):
        with torch.set_grad_enabled(not options.no_grad):
            expected = large(ids)
        loss = F.kl_div(model(ids).log_softmax(-1), expected.detach().log_softmax(-1), log_target=True)
        loss.backward()
        update(optimizer)
        report(step, loss)


# --- states


def first_update(options):
    """Parameters and gradients fit, AdamW's states do not."""
    model = decoder(options, width=2048, layers=11)
    train(model, optimizer_of(model, options), options)


def second_step(options):
    """The first step fits, for the optimizer has no states yet."""
    model = decoder(options, width=2048, layers=9)
    train(model, optimizer_of(model, options, fused=options.device == "cuda", foreach=False), options)


def float32_gradients(options):
    """A bfloat16 model with weights and gradients in float32 for the optimizer."""
    model = decoder(options, width=2048, layers=9).bfloat16()
    weights = [each.detach().float() for each in model.parameters()]
    for each in weights:
        each.grad = torch.zeros_like(each)
    optimizer = torch.optim.Adafactor(weights, foreach=False) if options.optimizer == "adafactor" else \
        torch.optim.AdamW(weights, lr=1e-4)
    for step, batch in enumerate(batches(options), 1):
        for ids in batch.chunk(4):
            loss = next_token_loss(model(ids), ids)
            loss.backward()
            for weight, each in zip(weights, model.parameters()):
                weight.grad += each.grad
                each.grad = None
        optimizer.step()
        with torch.no_grad():
            for weight, each in zip(weights, model.parameters()):
                weight.grad.zero_()
                each.copy_(weight)
        report(step, loss)


def data_on_card(options):
    """The whole data set is put on the card."""
    images = torch.rand(48 << 10, 3, 96, 96, device="cpu" if options.on_cpu else options.device)
    with torch.device(options.device):
        model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
                              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    optimizer = optimizer_of(model, options)
    for step in range(1, options.steps + 1):
        rows = torch.randint(len(images), (options.batch_size,), device=images.device)
        batch = images[rows].to(options.device)
        loss = model(batch).square().mean()
        loss.backward()
        update(optimizer)
        report(step, loss)


# --- activations


def vocabulary(options):
    """A large vocabulary, as of Llama 3."""
    model = decoder(options, width=512, layers=4, vocabulary=131072)
    optimizer = optimizer_of(model, options)
    for step, ids in enumerate(batches(options), 1):
        hidden = model.hidden(ids)
        if options.loss == "whole":
            loss = next_token_loss(model.lm_head(hidden), ids)
        else:
            def of_chunk(part, targets):
                return F.cross_entropy(model.lm_head(part).flatten(0, 1), targets.flatten(), reduction="sum")
            parts = zip(hidden[:, :-1].split(128, dim=1), ids[:, 1:].split(128, dim=1))
            loss = sum(checkpoint(of_chunk, *part, use_reentrant=False) for part in parts) / ids.numel()
        loss.backward()
        update(optimizer)
        report(step, loss)


def one_backward(options):
    """Gradient accumulation that sums up the losses of micro-batches, then runs one backward."""
    model = decoder(options)
    optimizer = optimizer_of(model, options)
    for step in range(1, options.steps + 1):
        micro_batches = 2 if step < 4 else 8
        total = 0
        for _ in range(micro_batches):
            ids = tokens(options)
            loss = next_token_loss(model(ids), ids) / micro_batches
            if options.accumulation > 1:
                loss.backward()
            total = total + (loss.detach() if options.accumulation > 1 else loss)
        if options.accumulation == 1:
            total.backward()
        update(optimizer)
        report(step, total)


class Stage(nn.Sequential):
    def __init__(self, inputs: int, channels: int):
        super().__init__(nn.Conv2d(inputs, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
                         nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())


def images(options):
    """A convolutional network on large images."""
    with torch.device(options.device):
        stages = nn.ModuleList(Stage(inputs, channels) for inputs, channels in [(3, 64)] + 5 * [(64, 64)])
        head = nn.Conv2d(64, 3, 1)
    model = nn.ModuleDict(dict(stages=stages, head=head))
    optimizer = optimizer_of(model, options)
    for step in range(1, options.steps + 1):
        batch = torch.randn(options.batch_size, 3, 768, 768, device=options.device)
        for part in batch.chunk(options.accumulation):
            x = part
            for stage in stages:
                x = checkpoint(stage, x, use_reentrant=False) if options.checkpoint else stage(x)
            loss = (head(x) - part).square().mean() / options.accumulation
            loss.backward()
        update(optimizer)
        report(step, loss)


def varied_sizes(options):
    """Refines hidden states a sampled number of rounds, as models of recurrent depth do. Blocks of a large batch leave
    pieces that are too small for the blocks of the next one, which has more of them."""
    with torch.device(options.device):
        model = nn.Linear(1024, 1024)
    optimizer = optimizer_of(model, options)
    sizes = [(65536, 16), (65536, 15), (65536, 16), (41984, 26)]  # positions and rounds
    for step in range(1, options.steps + 1):
        positions, rounds = sizes[min(step, len(sizes)) - 1]
        x = torch.randn(positions, 1024, device=options.device)
        for _ in range(rounds):
            x = torch.tanh(model(x))
        loss = x.square().mean()
        loss.backward()
        update(optimizer)
        report(step, loss)


# --- several processes


def hold(options):
    """Another process: takes all of the card but --memory-gib, until its input ends."""
    free, _ = torch.cuda.mem_get_info()
    held = torch.empty(free - int(options.memory_gib * GIB), dtype=torch.uint8, device="cuda")
    print(f"holds {held.nbytes / GIB:.2f} GiB", flush=True)
    sys.stdin.read()


# --- not on the card


def pinned(options):
    """Stages batches in pinned memory, with a size that is far larger than the machine."""
    model = decoder(options, layers=2)
    train(model, optimizer_of(model, options), options)
    staged = torch.empty(64 << 20 if options.on_cpu else 1 << 50, dtype=torch.uint8, pin_memory=not options.on_cpu)
    print(f"{staged.nbytes / GIB:.2f} GiB staged")


if __name__ == "__main__":
    main({each.__name__: each for each in (
        plain, deep, long_row, curriculum, long_attention, metrics, features, hooks, snapshots, evaluation,
        validation_in_training_mode, large_evaluation, outputs, reference, average, teacher, first_update, second_step,
        float32_gradients, data_on_card, vocabulary, one_backward, images, varied_sizes, hold, pinned)})
