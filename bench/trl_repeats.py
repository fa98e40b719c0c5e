"""Lists the saved tensors that TRL's engine keeps on the device, because it takes them for tensors already offloaded.

    PYTHONPATH=PEERS python bench/trl_repeats.py           # the decoder, B4 T4096, on a GPU

The engine identifies a tensor by the address of its storage. For a tensor that is not contiguous it holds a contiguous
copy instead of that storage. This program classifies each tensor that the engine recognises: the same storage, or
another one at the address of a freed one.
"""

import collections

import torch
from torch.multiprocessing.reductions import StorageWeakRef

import peers
from eager import forward_backward
from model import build, make_batch
from strategies import Around


def main() -> None:
    module = peers.load("trl")
    with torch.device("cuda"):
        model = build("bench", 4096)
    model = model.to(torch.bfloat16)
    x, y = make_batch(model, 4, 4096, "cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)
    engine = module.get_act_offloading_ctx_manager(model)
    pack, met, kept = engine.pack_hook, {}, []

    def watch(t: torch.Tensor) -> int:
        key, storage = module._get_unique_tensor_key(t), t.untyped_storage()
        if key in engine.storage_to_tensor_id:
            first, shape, contiguous = met[key]
            same = not first.expired() and first.cdata == storage._cdata
            kept.append((same, storage._cdata, storage.nbytes(), tuple(t.shape), shape, contiguous))
        else:
            met[key] = StorageWeakRef(storage), tuple(t.shape), t.is_contiguous()
        return pack(t)

    def step() -> None:
        forward_backward(model, x, y, Around(step=engine))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(3):
        step()
    engine.pack_hook = watch
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step()
    print(f"{torch.cuda.get_device_name()}: peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")
    for same, what in ((True, "the same storage"), (False, "another storage at the address of one that is gone")):
        found = [k for k in kept if k[0] == same]
        storages = {cdata: nbytes for _, cdata, nbytes, *_ in found}
        print(f"{what}: {len(found)} tensors, {len(storages)} storages of {sum(storages.values()) / 2**30:.2f} GiB")
        for (shape, first, contiguous), count in collections.Counter(k[3:] for k in found).most_common():
            print(f"  {count:3} x {shape}, first met as {first}{'' if contiguous else ', not contiguous'}")


if __name__ == "__main__":
    main()
