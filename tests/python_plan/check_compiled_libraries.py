"""Tests the Python plan with compiled blocks on models of libraries, with peft, DDP and FSDP2, and a second budget.
Without MEMTUNE_NIGHT only a GPT-2 runs."""
import torch

import plans
from plans import applied, data, equal, language_loss, llama, local, near, on_two_ranks, step, with_lora

mp = plans.load(words=plans.COMPILED)
BLOCKS = 4


def follows(model, loss, path, part=0.5, hidden=1 << 13, own=lambda values: values):
    """Loss and gradients are near those of the eager model. Under a plan that keeps a part of the saved tensors, steps
    are equal bit for bit when repeated, and without offloading."""
    def steps(left, times, moving=True):
        torch._dynamo.reset()
        plan = data(BLOCKS, "keep keep", path, compile={"left_bytes": left, "hidden_bytes": hidden})
        with applied(mp, model, plan) as run:
            if not moving:
                plans.stay(mp, run)
            return [own(step(model, loss)) for _ in range(times)], run

    plain = own(step(model, loss))
    _, everything = steps(1 << 40, 2)
    assert not everything.second and everything.moves == set()
    left = int(part * sum(everything.sizes.values()))
    results, run = steps(left, 3)
    assert run.moves and run.second, "all blocks have one budget: another part of the bytes is needed to test with"
    stayed, still = steps(left, 2, moving=False)
    assert still.second and still.streams.moved_bytes == 0 < run.streams.moved_bytes
    assert all(equal(result, results[0]) for result in results + stayed)
    assert near(results[0], plain)


@plans.at_night
@plans.with_kernels
def check_llama():
    follows(llama(BLOCKS, use_cache=False), language_loss, "model.layers")


def check_gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=BLOCKS, n_head=4,
                                       use_cache=False))
    follows(model, language_loss, "transformer.h")  # with dropout


@plans.at_night
def check_vit():
    from transformers import ViTConfig, ViTForImageClassification
    torch.manual_seed(0)
    model = ViTForImageClassification(ViTConfig(
        hidden_size=32, num_hidden_layers=BLOCKS, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=4,
        hidden_dropout_prob=0.1))
    pixels = torch.randn(2, 3, 16, 16)
    follows(model, lambda m: m(pixels, labels=torch.tensor([0, 1])).loss, "layers", part=0.3)


@plans.at_night
def check_torchvision():
    import torchvision
    torch.manual_seed(0)
    model = torchvision.models.VisionTransformer(16, 4, BLOCKS, 4, 32, 64, dropout=0.1)
    pixels = torch.randn(2, 3, 16, 16)
    follows(model, lambda m: m(pixels).square().mean(), "encoder.layers")


@plans.at_night
def check_lora():
    follows(with_lora(llama(BLOCKS, use_cache=False), lora_dropout=0.1), language_loss, "model.layers")


def follows_as_rank(model, loss):
    with plans.without_kernels():
        follows(model, loss, "layers", part=0.42, hidden=1 << 14, own=local)


@plans.at_night
def check_two_ranks():
    on_two_ranks(follows_as_rank, p=0.1, n=BLOCKS)


if __name__ == "__main__":
    plans.run_checks(globals())
