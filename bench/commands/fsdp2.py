"""A plain loop under FSDP2, with one unit per block: torchrun --nproc-per-node 2 fsdp2.py [--checkpoint] [--no-reshard]

--checkpoint checkpoints every block; --no-reshard keeps gathered parameters from forward to backward.
"""

import argparse

import torch
from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader

from common import Clock, Model, Tokens, device


def build(size: Model, flags):
    model = size.build()
    if flags.checkpoint:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    policy = MixedPrecisionPolicy() if size.tiny else MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for block in model.model.layers:
        fully_shard(block, mp_policy=policy, reshard_after_forward=not flags.no_reshard)
    fully_shard(model, mp_policy=policy)
    return model


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--checkpoint", "--no-reshard", "--tiny"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--max-steps", type=int, default=30)
    flags = parser.parse_args()
    if torch.cuda.is_available():
        torch.cuda.set_device(device())
    torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    size, clock, rank = Model(tiny=flags.tiny), Clock(), torch.distributed.get_rank()
    model = build(size, flags)
    optimizer = torch.optim.AdamW(model.parameters(), fused=torch.cuda.is_available())
    data = Tokens(size.shape()["vocab_size"], size.tokens)
    data = torch.utils.data.Subset(data, range(rank, len(data), torch.distributed.get_world_size()))
    try:
        for step, batch in enumerate(DataLoader(data, batch_size=4)):
            batch = {name: tensor.to(device()) for name, tensor in batch.items()}
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            clock.step()
            if step + 1 == flags.max_steps:
                break
    finally:
        clock.tell()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
