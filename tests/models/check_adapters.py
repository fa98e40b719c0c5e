"""Trains adapters of peft over tiny decoders in Python and in memtune, and compares all bits.

    python check_adapters.py --memtune build/release/bin/memtune --pack build/release/bin/memtune-pack-weights
        [--only rslora] [--jobs 2]

Each case is an adapter over one of the models of check_transformers.py, with random factors written by save_pretrained.
It runs in float32 and bfloat16, some cases over weights in 4 or 8 bits by bitsandbytes. Without MEMTUNE_NIGHT or
--only, only the cases FEW run, in one dtype. The loss and every gradient of
`none` must equal Python's bit for bit, under the names of the adapter's file. Nothing else may have a gradient, and
other strategies must give the same. Prints a line for each run and `N passed, N failed`. Exit code 1 on a failure.
Needs torch, transformers, peft, bitsandbytes and safetensors.
"""

import argparse
import concurrent.futures
import glob
import itertools
import os
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import bitsandbytes
import peft
import torch
import transformers
from bitsandbytes import functional as bnb
from safetensors.torch import load_file, save_file

import check_transformers as base
from check_transformers import Failure

STRATEGIES = ("none", "checkpoint:full", "checkpoint:op", "checkpoint:cheap", "offload:stream,min=1KiB")
SHAPE = (3, 47)
# If a row is not a whole number of blocks, bitsandbytes' loop for CPUs uses the magnitude of another block. Its packing
# and its other devices do not.
WHOLE_BLOCKS = {"hidden_size": 64, "intermediate_size": 128}

# Name: model of check_transformers.py, changes to LoraConfig's defaults, and --load-in.
CASES = {
    "attention": ("llama", {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}),
    "all-linear": ("llama-tied", {"r": 4, "lora_alpha": 16, "target_modules": "all-linear", "lora_dropout": 0.1}),
    "rslora": ("qwen2", {"r": 8, "lora_alpha": 16, "target_modules": ["up_proj", "o_proj"], "use_rslora": True}),
    "dropout": ("qwen3", {"r": 2, "target_modules": ["q_proj", "k_proj", "down_proj"], "lora_dropout": 0.25}),
    "pattern": ("gemma2", {"r": 4, "target_modules": r".*\.1\..*(gate|up)_proj", "lora_dropout": 0.05}),
    "named-group": ("gpt2", {"r": 4, "target_modules": r"(?i).*\.(?P<layer>\d+)\.MLP\.(c_fc|c_proj)\Z",
                             "fan_in_fan_out": True}),
    "head": ("llama", {"r": 4, "target_modules": ["lm_head", "mlp.down_proj"]}),
    "fused": ("phi3", {"r": 4, "target_modules": ["qkv_proj", "gate_up_proj"], "lora_dropout": 0.1}),
    "layers": ("mistral", {"r": 4, "target_modules": ["q_proj", "v_proj"], "layers_to_transform": [1]}),
    "excluded": ("granite", {"r": 4, "target_modules": "all-linear", "exclude_modules": ["k_proj"]}),
    "ranks": ("olmo2", {"r": 4, "lora_alpha": 4, "target_modules": ["q_proj", "v_proj"],
                        "rank_pattern": {"layers.0.self_attn.q_proj": 2}, "alpha_pattern": {"v_proj": 32}}),
    "biases": ("llama-biased", {"r": 4, "target_modules": ["q_proj", "up_proj"], "bias": "lora_only"}),
    "all-biases": ("qwen2", {"r": 4, "target_modules": ["o_proj"], "bias": "all"}),
    "mixed-autocast": ("llama", {"r": 4, "target_modules": ["q_proj", "down_proj"], "lora_dropout": 0.1}),
    "4bit": ("llama", {"r": 4, "target_modules": "all-linear"}, "4bit"),
    "4bit-autocast": ("llama", {"r": 4, "target_modules": ["q_proj", "down_proj"], "lora_dropout": 0.1}, "4bit"),
    "4bit-tied": ("llama-tied", {"r": 4, "target_modules": ["q_proj", "v_proj"], "lora_dropout": 0.1}, "4bit"),
    "4bit-biases": ("qwen2", {"r": 4, "target_modules": ["o_proj", "up_proj"], "lora_dropout": 0.05}, "4bit"),
    "4bit-single": ("gemma2", {"r": 8, "target_modules": "all-linear", "use_rslora": True}, "4bit-single"),
    "4bit-fused": ("phi3", {"r": 4, "target_modules": ["qkv_proj"]}, "4bit-single"),
    "8bit": ("llama", {"r": 4, "target_modules": "all-linear"}, "8bit"),
    "8bit-autocast": ("llama", {"r": 4, "target_modules": ["q_proj", "down_proj"], "lora_dropout": 0.1}, "8bit"),
    "8bit-tied": ("llama-tied", {"r": 4, "target_modules": ["q_proj", "v_proj"], "lora_dropout": 0.1}, "8bit"),
    "8bit-biases": ("qwen2", {"r": 4, "target_modules": ["o_proj", "q_proj"], "bias": "all"}, "8bit"),
    "8bit-fused": ("phi3", {"r": 4, "target_modules": ["qkv_proj"], "use_rslora": True}, "8bit"),
    "conv1d": ("gpt2", {"r": 4, "target_modules": ["c_attn", "c_fc"], "lora_dropout": 0.1, "fan_in_fan_out": True}),
    "conv1d-all": ("gpt2", {"r": 4, "target_modules": "all-linear", "fan_in_fan_out": True}),
    "4bit-conv1d": ("gpt2", {"r": 4, "target_modules": ["c_attn"]}, "4bit"),
    "8bit-conv1d": ("gpt2", {"r": 4, "target_modules": ["c_attn", "mlp.c_proj"]}, "8bit"),
    "products": ("falcon", {"r": 4, "target_modules": "all-linear", "lora_dropout": 0.1}),
    "products-bias": ("falcon-serial", {"r": 4, "target_modules": "all-linear", "lora_dropout": 0.1}),
    "embedding": ("llama", {"r": 4, "lora_alpha": 16, "target_modules": ["embed_tokens", "q_proj"],
                            "lora_dropout": 0.1}),
    "embedding-tied": ("llama-tied", {"r": 4, "target_modules": ["embed_tokens"]}),
    "embedding-gpt2": ("gpt2", {"r": 4, "target_modules": ["wte", "wpe", "c_attn"], "fan_in_fan_out": True}),
    "embedding-autocast": ("llama", {"r": 4, "target_modules": ["embed_tokens", "v_proj"]}),
}
# One of each kind of weights and of adapted modules: linear layers with dropout, of a class of their own, in 4 and in 8 bits with biases, fused,
# transposed, and an embedding.
FEW = ("all-linear", "products-bias", "4bit-biases", "8bit-biases", "fused")


def plain(name: str) -> str:
    """The name in the file of the adapter, or of the model."""
    name = name.replace(".default.", ".").removesuffix(".default").replace(".base_layer.", ".")
    return name if ".lora_" in name else name.removeprefix("base_model.model.")


def load_in_python(folder: str, load_in: str, dtype: torch.dtype):
    if not load_in:
        return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    how = transformers.BitsAndBytesConfig(load_in_8bit=True) if load_in == "8bit" else transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype,
        bnb_4bit_use_double_quant=load_in == "4bit")
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto", quantization_config=how,
                                                             device_map="cpu")


def train_in_python(model, adapter: str, changes, batch, autocast=False):
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **changes)).train()
    torch.manual_seed(7)
    with torch.no_grad():  # while B is zero, the gradient of A is zero
        for name, parameter in model.named_parameters():
            if ".lora_B." in name:
                parameter.normal_(0, 0.1)
    model.save_pretrained(adapter)
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = model(**batch, use_cache=False).loss
    loss.backward()
    gradients = {plain(name): p.grad for name, p in model.named_parameters() if p.grad is not None}
    return loss.item(), gradients


def compare(answer, reference, python):
    loss, expected = python
    for trial in answer["trials"]:
        if trial["outcome"] != "ok":
            raise Failure(f"{trial['strategy']}: {trial['outcome']}")
        if trial["gradients"]["equal"] is not True:
            raise Failure(f"{trial['strategy']} has other gradients")
    base.compare_loss(answer["trials"][0]["loss"][0], loss)
    found = {name: gradient for name, gradient in reference.items() if gradient}
    if sorted(found) != sorted(expected):
        raise Failure(f"others are trained: {sorted(set(found) ^ set(expected))[:4]}")
    other = [name for name, gradient in expected.items() if base.bits(gradient) != found[name]]
    if other:
        raise Failure(f"{len(other)} of {len(expected)} gradients differ: {other[:3]}")
    return len(expected)


def check(options, name: str, dtype: torch.dtype):
    """Returns (passed, line)."""
    said = f"{name:12} {str(dtype)[6:]:9}"
    model, changes, load_in = (*CASES[name], "")[:3]
    autocast = name.endswith("-autocast")
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        folder, adapter = os.path.join(place, "model"), os.path.join(place, "adapter")
        inputs, run = os.path.join(place, "inputs.safetensors"), os.path.join(place, "run")
        try:
            batch = base.write_batch(inputs, SHAPE)
            with base.ONE_AT_A_TIME:
                base.write_model(folder, model, dtype, WHOLE_BLOCKS if load_in else None)
                python = train_in_python(load_in_python(folder, load_in, dtype), adapter, changes, batch, autocast)
            more = ["--lora", adapter, *(["--load-in", load_in] if load_in else []),
                    *(["--autocast", "bf16"] if autocast else [])]
            answer = base.train_by_memtune(options, folder, inputs, run, STRATEGIES, more)
            count = compare(answer, base.read_reference(run), python)
            return True, f"ok   {said}  loss and {count} gradients equal under {len(STRATEGIES)} strategies"
        except (Failure, base.subprocess.TimeoutExpired) as failure:
            return False, f"FAIL {said}  {failure}"


def check_saved(options):
    """Checks that `memtune run` saves only the adapter, equal to two steps in Python, and that peft can load it."""
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        folder, adapter = os.path.join(place, "model"), os.path.join(place, "adapter")
        inputs, run = os.path.join(place, "inputs.safetensors"), os.path.join(place, "run")
        batch = base.write_batch(inputs, SHAPE)
        base.write_model(folder, "llama", torch.bfloat16)
        train_in_python(load_in_python(folder, "", torch.bfloat16), adapter, CASES["attention"][1], batch)
        command = [options.memtune, "run", "--model", folder, "--inputs", inputs, "--device", "cpu", "--steps", "2",
                   "--save-every", "2", "--lr", "0.01", "--lora", adapter, "--out", run]
        base.subprocess.run(command, capture_output=True, check=True, timeout=300,
                            env=dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"))
        shard, = glob.glob(os.path.join(run, "states", "step-*", "*.safetensors"))
        saved = load_file(shard)
        kept = {name: tensor for name, tensor in saved.items() if name.startswith("base_model.")}
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
        if frozen := [name for name, _ in model.named_parameters() if name in saved]:
            raise Failure(f"frozen weights are saved: {frozen[:3]}")
        model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True).train()
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01, fused=True)
        for _ in range(2):
            model(**batch, use_cache=False).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        expected = peft.get_peft_model_state_dict(model)
        if sorted(kept) != sorted(expected):
            raise Failure(f"other tensors are saved: {sorted(set(kept) ^ set(expected))[:4]}")
        other = [name for name, tensor in expected.items() if base.bits(tensor) != base.bits(kept[name])]
        if other:
            raise Failure(f"{len(other)} of {len(expected)} saved factors differ: {other[:3]}")
        left = peft.set_peft_model_state_dict(model, kept)
        if left.unexpected_keys or any(".lora_" in name for name in left.missing_keys):
            raise Failure("peft cannot load what was saved")


def pack(options, load_in: str, weights):
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        given, packed = os.path.join(place, "weights.safetensors"), os.path.join(place, "packed.safetensors")
        save_file(weights, given)
        base.subprocess.run([options.pack, load_in, given, packed], check=True,
                            env=dict(os.environ, OMP_NUM_THREADS="1"))
        return load_file(packed)


def check_packed(options):
    """Checks that packed bytes, magnitudes and unpacked weights equal those of bitsandbytes, for any shape and type."""
    torch.manual_seed(1)
    shapes = ((1, 64), (3, 2), (33, 96), (5, 127), (300, 512), (1, 1))
    weights = {f"{str(dtype)[6:]}-{i}": (torch.randn(shape) * 3).to(dtype) for i, shape in enumerate(shapes)
               for dtype in (torch.float32, torch.bfloat16, torch.float16)}
    weights["large"] = torch.randn(2048, 2048).bfloat16()  # has enough blocks to show the rounding of magnitudes
    weights["zeros"] = torch.zeros(64, 64)
    weights["outlier"] = torch.cat([torch.randn(1, 64) * 1e-6, torch.full((1, 64), 1e4)])
    for load_in in ("4bit", "4bit-single"):
        found = pack(options, load_in, weights)
        for name, weight in weights.items():
            content, state = bnb.quantize_4bit(weight, quant_type="nf4", compress_statistics=load_in == "4bit")
            expected = {"": content, ".absmax": state.absmax, ".unpacked": bnb.dequantize_4bit(content, state)}
            if weight.shape[-1] % 64 and weight.shape[-1] % 2 == 0 and weight.numel() > 64:
                del expected[".unpacked"]  # see WHOLE_BLOCKS
            if load_in == "4bit":
                expected |= {".nested_absmax": state.state2.absmax, ".nested_offset": state.offset}
            other = [suffix for suffix, tensor in expected.items()
                     if found[name + suffix].shape != tensor.shape
                     or base.bits(found[name + suffix]) != base.bits(tensor)]
            if other:
                raise Failure(f"{load_in}: '{name}' {tuple(weight.shape)} differs in {other}")


def check_packed_in_8_bits(options):
    """The same for 8 bits. Products of rounded inputs, as on devices with int8 units, match those of bitsandbytes on a
    CPU within one unit in the last place of the row's largest. Its kernel for CUDA rounds to float16 first."""
    torch.manual_seed(1)
    shapes = ((1, 64), (3, 64), (33, 64), (5, 127), (300, 512))
    weights = {f"{str(dtype)[6:]}-{i}": (torch.randn(shape) * 3).to(dtype) for i, shape in enumerate(shapes)
               for dtype in (torch.float32, torch.bfloat16, torch.float16)}
    weights["zeros"] = torch.zeros(4, 64)
    inputs = {columns: torch.randn(21, columns) for columns in (64, 127, 512)}
    inputs[64][3, 5], inputs[64][20, 40], inputs[512][:, 7] = 7.5, -30, 12
    for columns, x in inputs.items():
        given = {name: weight for name, weight in weights.items() if weight.shape[1] == columns}
        biases = {f"{name}.bias": torch.randn(weight.shape[0]).to(weight.dtype) for name, weight in given.items()
                  if "-2" in name}
        found = pack(options, "8bit", {**given, **biases, "inputs": x.clone()})
        for name, weight in given.items():
            expected = bitsandbytes.nn.Int8Params(weight, requires_grad=False, has_fp16_weights=False).to("cpu")
            whole = expected.CB.to(weight.dtype).mul_(expected.SCB.unsqueeze(1).mul(1 / 127))
            other = [suffix for suffix, tensor in (("", expected.CB), (".SCB", expected.SCB), (".unpacked", whole))
                     if base.bits(found[name + suffix]) != base.bits(tensor)]
            if other:
                raise Failure(f"8bit: '{name}' {tuple(weight.shape)} differs in {other}")
            state = bitsandbytes.MatmulLtState(CB=expected.CB, SCB=expected.SCB)
            state.threshold, state.is_training, state.has_fp16_weights = 6.0, False, False
            bias = biases.get(f"{name}.bias")
            product = bitsandbytes.matmul(x.to(weight.dtype), weight, state=state, bias=bias).float()
            unit = 2**-7 if weight.dtype == torch.bfloat16 else 2**-10
            error = (found[name + ".product"].float() - product).abs()
            if not (error <= unit * product.abs().amax(1, keepdim=True)).all():
                raise Failure(f"8bit: the product with '{name}' {tuple(weight.shape)} is off by {error.max().item()}")


# Name, check, text if it passes.
OTHERS = (("saved", check_saved, "a saved state holds the adapter alone, as Python trains it"),
          ("packed", check_packed, "weights packed in 4 bits are those of bitsandbytes"),
          ("packed", check_packed_in_8_bits, "weights packed in 8 bits, and products, are those of bitsandbytes"))


def check_other(options, name, check_it, shown):
    try:
        check_it(options)
        return True, f"ok   {shown}"
    except (Failure, base.subprocess.SubprocessError) as failure:
        return False, f"FAIL {name}: {failure}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memtune", required=True, help="the program")
    p.add_argument("--pack", required=True, help="memtune-pack-weights of the same build")
    p.add_argument("--only", default="", help="cases whose name holds this")
    p.add_argument("--jobs", type=int, default=2, help="cases at a time")
    options = p.parse_args()
    base.prepare_python()
    runs = base.in_one_dtype(FEW)
    if base.NIGHT or options.only:
        runs = [(name, dtype) for name in CASES if options.only in name for dtype in base.DTYPES]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        others = [check_other(options, *other) for other in OTHERS if options.only in other[0]]
        return base.tell(itertools.chain(others, pool.map(lambda run: check(options, *run), runs)))


if __name__ == "__main__":
    sys.exit(main())
