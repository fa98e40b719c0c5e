"""Strategies that save activation memory on a model of model.py: PyTorch's own and those of the trainers' engines.

    around = apply("trl+full", model)     # changes the layers' forward in place
    with around.step:
        with around.model:
            logits = model(x)
        loss_fn(logits, y).backward()

An engine's context covers the same code as in its trainer: in torchtune only the model, in TRL and axolotl forward,
loss and backward. The hidden state is the only input of a checkpoint, as in the trainers. Their layers get the other
arguments by keyword.
"""

import contextlib
from typing import Callable, ContextManager, Dict, NamedTuple, Optional

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import peers


class Around(NamedTuple):
    """Contexts of a step."""

    model: ContextManager = contextlib.nullcontext()
    step: ContextManager = contextlib.nullcontext()


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


def save_every_matmul():
    return create_selective_checkpoint_contexts(list(SAVED))


def replace_forward(layers, make: Callable[[Callable], Callable]):
    for layer in layers:
        layer.forward = make(layer.forward)


def checkpoint_layers(layers, use_reentrant: bool = False, **options):
    def recomputed(forward):
        return lambda x, *rest: checkpoint(lambda h: forward(h, *rest), x, use_reentrant=use_reentrant, **options)

    replace_forward(layers, recomputed)


# PyTorch's own. A strategy returns its contexts, or nothing if it has none.

def none(model):
    pass


def full(model):
    checkpoint_layers(model.layers)


def every2(model):
    checkpoint_layers(model.layers[::2])


def op(model):
    checkpoint_layers(model.layers, context_fn=save_every_second_matmul)


def op_matmul(model):
    checkpoint_layers(model.layers, context_fn=save_every_matmul)


def titan_full(model):
    """torchtitan's FullAC: recomputes the whole layer."""
    checkpoint_layers(model.layers, early_stop=False)


def titan_selective(model):
    checkpoint_layers(model.layers, context_fn=save_every_second_matmul, early_stop=False)


def uniform(layers: int):
    """Megatron-LM's method `uniform`: a checkpoint covers that many consecutive layers."""

    def apply(model):
        for first in range(0, len(model.layers), layers):
            forwards = [layer.forward for layer in model.layers[first:first + layers]]

            def together(x, *rest, forwards=forwards):
                for forward in forwards:
                    x = forward(x, *rest)
                return x

            model.layers[first].forward = lambda x, *rest, run=together: checkpoint(
                lambda h: run(h, *rest), x, use_reentrant=False)
            for layer in model.layers[first + 1:first + layers]:
                layer.forward = lambda x, *rest: x

    return apply


def hf_offload(model):
    """Checkpoints of transformers with offload: their saved inputs go to CPU memory."""

    def offloaded(forward):
        def run(x, *rest):
            with torch.autograd.graph.save_on_cpu(pin_memory=True):
                return checkpoint(lambda h: forward(h, *rest), x, use_reentrant=False)

        return run

    replace_forward(model.layers, offloaded)


def compiled(budget: Optional[float] = None):
    """torch.compile of each layer. The budget is the share of activations that the partitioner may keep."""

    def apply(model):
        import torch._functorch.config as functorch
        functorch.activation_memory_budget = 1.0 if budget is None else budget
        for layer in model.layers:
            layer.compile()

    return apply


# The trainers' engines.

def over_full(strategy):
    """Runs an engine over checkpointed layers."""

    def apply(model):
        checkpoint_layers(model.layers)
        return strategy(model)

    return apply


def torchtune(model):
    return Around(model=peers.load("torchtune").get_act_offloading_ctx_manager(model, True))


def trl(model):
    return Around(step=peers.load("trl").get_act_offloading_ctx_manager(model))


def axolotl_sac(model):
    context_fn = peers.load("axolotl-sac").build_sac_offload_context_fn()
    checkpoint_layers(model.layers, context_fn=context_fn)


def axolotl_hidden(model):
    engine = peers.load("axolotl-hidden").get_checkpoint_hidden_states_offloading_ctx_manager()

    def marked(forward):
        def run(x, *rest):
            engine.mark(x)
            return forward(x, *rest)

        return run

    checkpoint_layers(model.layers)
    replace_forward(model.layers, marked)
    return Around(step=engine)


def axolotl_alst(model):
    peers.load("axolotl-alst").patch_hidden_states_offload()
    checkpoint_layers(model.layers, use_reentrant=True)


def axolotl_disco(model):
    function = peers.load("axolotl-disco").Disco
    replace_forward(model.layers, lambda forward: lambda *inputs: function.apply(forward, *inputs))


def swift(checkpointing: bool):
    """ms-swift's groups, one per layer, without the FSDP wrappers by which its entry point finds the layers."""

    def apply(model):
        engine = peers.load("swift")
        moved = engine.FSDPParameterFilter()
        layers = len(model.layers)
        context, commit = engine.get_activation_offload_context(layers - 1, layers, moved)
        handler = engine.ActivationHandler(context, commit, moved, checkpointing)
        for layer in model.layers:
            handler.wrap_module_forward_method(layer)

    return apply


PYTORCH: Dict[str, Callable[[torch.nn.Module], Optional[Around]]] = {
    "none": none, "full": full, "every2": every2, "op": op, "op-matmul": op_matmul, "hf-offload": hf_offload,
    "titan-full": titan_full, "titan-selective": titan_selective, "uniform-2": uniform(2),
    "compile": compiled(), "compile-0.5": compiled(0.5), "compile-0.1": compiled(0.1)}
TRAINERS: Dict[str, Callable[[torch.nn.Module], Optional[Around]]] = {
    "torchtune": torchtune, "torchtune+full": over_full(torchtune), "trl": trl, "trl+full": over_full(trl),
    "axolotl-sac": axolotl_sac, "axolotl-hidden": axolotl_hidden, "axolotl-alst": axolotl_alst,
    "axolotl-disco": axolotl_disco, "swift": swift(False), "swift+full": swift(True)}
STRATEGIES = {**PYTORCH, **TRAINERS}


def package_of(name: str) -> str:
    """The package of the strategy, as "torch 2.11.0+cu130" or "trl 1.16.0". Raises MissingPeer if it is missing."""
    if name in PYTORCH:
        return f"torch {torch.__version__}"
    engine = name.removesuffix("+full")
    return peers.version(peers.ENGINES[engine][0])


def apply(name: str, model: torch.nn.Module) -> Around:
    return STRATEGIES[name](model) or Around()
