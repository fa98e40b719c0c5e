"""A plain loop that trains torchtune's model with torchtune's own engines. The keys of its recipes select the engines.

    python torchtune_loop.py ARGS.yaml [key=value ...]
"""

import sys

import omegaconf
import torch
import torchtune.config
import torchtune.models.llama2
import torchtune.modules
import torchtune.training
from torch.utils.data import DataLoader

from common import Clock, Model, Tokens, device


def build(config, shape: dict):
    torch.manual_seed(0)
    with device(), torchtune.training.set_default_dtype(torchtune.training.get_dtype(config.dtype)):
        model = torchtune.models.llama2.llama2(
            vocab_size=shape["vocab_size"], num_layers=shape["num_hidden_layers"],
            num_heads=shape["num_attention_heads"], num_kv_heads=shape["num_key_value_heads"],
            embed_dim=shape["hidden_size"], intermediate_dim=shape["intermediate_size"], max_seq_len=1 << 16)
    if config.compile:
        torchtune.training.compile_model(model)
    if config.enable_activation_checkpointing:
        layers = {torchtune.modules.TransformerSelfAttentionLayer}
        torchtune.training.set_activation_checkpointing(model, auto_wrap_policy=layers)
    return model


def optimizer_of(config, model):
    """The optimizer that the loop steps and resets. With optimizer_in_bwd, backward has already done both."""
    if not config.optimizer_in_bwd:
        return torchtune.config.instantiate(config.optimizer, model.parameters())
    each = {p: torchtune.config.instantiate(config.optimizer, [p]) for p in model.parameters()}
    torchtune.training.register_optim_in_bwd_hooks(model=model, optim_dict=each)
    return None


def train(config, size: Model, clock: Clock):
    model = build(config, size.shape())
    optimizer = optimizer_of(config, model)
    loss_of = torchtune.config.instantiate(config.loss)
    if hasattr(loss_of, "num_output_chunks"):
        model.set_num_output_chunks(loss_of.num_output_chunks)
    offloading = torchtune.training.get_act_offloading_ctx_manager(model, config.enable_activation_offloading)
    data = iter(DataLoader(Tokens(size.shape()["vocab_size"], size.tokens), batch_size=config.batch_size))
    for _ in range(config.max_steps):
        for _ in range(config.gradient_accumulation_steps):
            tokens = next(data)["input_ids"].to(device())
            labels = torch.hstack((tokens[..., 1:], torch.full_like(tokens[..., :1], -100)))
            with offloading:
                logits = model(tokens)
            if not isinstance(logits, list):
                labels, logits = labels.reshape(-1), logits.reshape(-1, logits.size(-1))
            loss = loss_of(logits, labels) / config.gradient_accumulation_steps
            del logits
            loss.backward()
        if optimizer:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        clock.step()


def main():
    config = omegaconf.OmegaConf.merge(omegaconf.OmegaConf.load(sys.argv[1]),
                                       omegaconf.OmegaConf.from_dotlist(sys.argv[2:]))
    clock = Clock()
    try:
        train(config, Model(tiny=config.get("tiny", False)), clock)
    finally:
        clock.tell()


if __name__ == "__main__":
    main()
