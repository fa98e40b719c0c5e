"""Tests the Python plan on models of libraries, with peft, DDP and FSDP2."""
import tempfile
import warnings

import torch

import plans
from plans import applied, data, equal, language_loss, llama, local, on_two_ranks, step, with_lora

mp = plans.load()
warnings.filterwarnings("ignore", message="memtune_plan: the blocks run none of")
PLANS = ["recompute recompute", "host host", "recompute host"]


def follows(model, loss, path, blocks=2):
    plain = step(model, loss)
    for others in PLANS:
        with applied(mp, model, data(blocks, others, path=path)) as run:
            for _ in range(2):
                assert equal(step(model, loss), plain), others
            assert run.streams.moved_bytes > 0
    return plain


def check_llama():
    for attention in ("sdpa", "eager"):
        follows(llama(2, attn_implementation=attention, attention_dropout=0.1), language_loss, "model.layers")


def check_gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4))
    follows(model, language_loss, "transformer.h")  # with dropout and a tied head


def check_vit():
    from transformers import ViTConfig, ViTForImageClassification
    torch.manual_seed(0)
    model = ViTForImageClassification(ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=4,
        hidden_dropout_prob=0.1))
    pixels = torch.randn(2, 3, 16, 16)
    follows(model, lambda m: m(pixels, labels=torch.tensor([0, 1])).loss, "layers")


def check_torchvision():
    import torchvision
    torch.manual_seed(0)
    model = torchvision.models.VisionTransformer(16, 4, 2, 4, 32, 64, dropout=0.1)
    pixels = torch.randn(2, 3, 16, 16)
    follows(model, lambda m: m(pixels).square().mean(), "encoder.layers")


def check_lora():
    model = with_lora(llama(2), lora_dropout=0.1)
    follows(model, language_loss, "model.layers")
    # The plan of the base model names q_proj/linear#0. Here it belongs to q_proj.base_layer.
    with applied(mp, model, data(2, "keep keep", "model.layers", ops={"host keep": "self_attn.q_proj/linear#0"},
                              regions="self_attn self_attn.q_proj mlp mlp.down_proj")) as run:
        step(model, language_loss)
        assert not run.missing


def check_trainer():
    """The callback applies the plan in transformers' Trainer and removes it when training ends."""
    from transformers import Trainer, TrainingArguments

    def losses(callbacks):
        model = llama(2)
        examples = [{"input_ids": t, "labels": t} for t in plans.tokens(4)]
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(model, TrainingArguments(
                folder, max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=2, logging_steps=1,
                report_to=[], use_cpu=True, save_strategy="no", eval_strategy="steps", eval_steps=1,
                disable_tqdm=True), train_dataset=examples, eval_dataset=examples, callbacks=callbacks)
            trainer.train()
        assert "forward" not in model.model.layers[0].__dict__
        return [(e.get("loss"), e.get("eval_loss"), e.get("grad_norm")) for e in trainer.state.log_history
                if "loss" in e or "eval_loss" in e]

    plain = losses([])
    mp.PLAN = data(2, "recompute host", "model.layers")
    assert losses([mp.PlanCallback()]) == plain and len(plain) == 6, plain


def follows_as_rank(model, loss):
    plain = local(step(model, loss))
    for others in PLANS:
        with applied(mp, model, data(3, others)):
            for _ in range(2):
                assert equal(local(step(model, loss)), plain), others


def check_two_ranks():
    on_two_ranks(follows_as_rank, p=0.1)


if __name__ == "__main__":
    plans.run_checks(globals())
