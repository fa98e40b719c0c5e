"""PyTorch's own ways to spend less activation memory, on a model of model.py.

    context = apply("every2", model)      # changes the layers' forward in place
    with context: logits = model(x)       # torchtune's engine needs the context; it is empty for the others
"""

import contextlib
from typing import Callable, ContextManager, Dict

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import torchtune_engine

ATTENTION = [getattr(torch.ops.aten, name).default for name in (
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention_for_cpu")]
MATMUL = [torch.ops.aten.mm.default, torch.ops.aten.linear.default]
SAVED = {*ATTENTION, *MATMUL, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default}


def save_every_second_matmul():
    """torchtitan's per-op policy: keep attention and matmul outputs, but recompute every second mm."""
    seen = {True: 0, False: 0}

    def policy(ctx, op, *args, **kwargs):
        if op in MATMUL:
            seen[ctx.is_recompute] += 1
            if seen[ctx.is_recompute] % 2 == 0:
                return CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if op in SAVED else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def checkpoint_layers(layers, **options):
    """Non-reentrant checkpointing. The hidden state is the checkpoint's input, the rest (cos, sin) is bound."""

    def recomputed(forward):
        return lambda x, *rest: checkpoint(lambda h: forward(h, *rest), x, use_reentrant=False, **options)

    for layer in layers:
        layer.forward = recomputed(layer.forward)


def none(model):
    return contextlib.nullcontext()


def full(model):
    checkpoint_layers(model.layers)
    return contextlib.nullcontext()


def every2(model):
    checkpoint_layers(model.layers[::2])
    return contextlib.nullcontext()


def op(model):
    checkpoint_layers(model.layers, context_fn=save_every_second_matmul)
    return contextlib.nullcontext()


def torchtune_full(model):
    checkpoint_layers(model.layers)
    return torchtune_engine.load().get_act_offloading_ctx_manager(model, True)


STRATEGIES: Dict[str, Callable[[torch.nn.Module], ContextManager]] = {
    "none": none, "full": full, "every2": every2, "op": op, "torchtune+full": torchtune_full}


def apply(name: str, model: torch.nn.Module) -> ContextManager:
    return STRATEGIES[name](model)
