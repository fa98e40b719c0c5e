"""Compares the training step of popular models (torchvision, timm, transformers, peft, TRL; full size, random weights)
in eager Python, with and without checkpointing, with memtune's. memtune reads decoders of transformers from the folder
that save_pretrained wrote, with peft's adapter, and its other models as `memtune convert` writes them. The others are
traced.

    python bench/real_models.py FOLDER                     # all of them
    python bench/real_models.py FOLDER llama llama_lora --rounds 3
    python bench/real_models.py FOLDER --device cpu        # tiny ones, to check that it runs

FOLDER/NAME holds the model, inputs.safetensors, eager.jsonl and memtune.json. compare.py makes the table from them.
Below it are printed the difference of memtune's gradients from Python's for the same batch, and the cost of tracing per
step.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as in memtune's trials: deterministic cuBLAS

import torch
import torch.utils.checkpoint
from torch import Tensor, nn

import compare
from eager import set_deterministic, timed
from model import loss_fn
from safetensors_file import save_safetensors

HERE = Path(__file__).resolve().parent
DTYPES = {"Float": torch.float32, "BFloat16": torch.bfloat16}


def causal_lm(family: str, **config) -> nn.Module:
    import transformers
    config = transformers.AutoConfig.for_model(family, pad_token_id=None, **config)
    return transformers.AutoModelForCausalLM.from_config(config)


def llama(tiny: bool) -> nn.Module:
    size = dict(vocab_size=1000, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2)
    if not tiny:  # Llama 3.2 1B
        size = dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                    num_attention_heads=32, num_key_value_heads=8, rope_theta=500000.0)
    return causal_lm("llama", max_position_embeddings=131072, tie_word_embeddings=True, **size)


def lora(model: nn.Module, targets=("q", "k", "v", "o", "gate", "up", "down")) -> nn.Module:
    """Adds LoRA to these projections. Its factors stay in float32, as in peft."""
    import peft
    projections = [f"{name}_proj" for name in targets]
    config = peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules=projections, task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config)
    for name, parameter in model.named_parameters():
        if ".lora_B." in name:  # while B is zero, the gradient of A is zero
            nn.init.normal_(parameter, std=0.01)
    return model


def qwen2(tiny: bool) -> nn.Module:
    size = dict(vocab_size=1000, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
    if not tiny:  # Qwen2 0.5B
        size = dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                    num_attention_heads=14)
    return causal_lm("qwen2", num_key_value_heads=2, tie_word_embeddings=True, **size)


def gpt2(tiny: bool) -> nn.Module:
    return causal_lm("gpt2", **(dict(n_embd=64, n_layer=2, n_head=4, vocab_size=1000) if tiny else
                                dict(n_embd=1024, n_layer=24, n_head=16)))


def qwen3_moe(tiny: bool) -> nn.Module:
    size = dict(vocab_size=1000, hidden_size=64, moe_intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
                head_dim=16, num_experts=8)
    if not tiny:  # 1.1 billion parameters, a quarter of them active per token
        size = dict(vocab_size=32000, hidden_size=1024, moe_intermediate_size=768, num_hidden_layers=12,
                    num_attention_heads=16, head_dim=64, num_experts=32)
    return causal_lm("qwen3_moe", num_key_value_heads=4, num_experts_per_tok=4, norm_topk_prob=True,
                     tie_word_embeddings=True, **size)


def gemma3(tiny: bool) -> nn.Module:
    size = dict(vocab_size=1000, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, head_dim=16)
    if not tiny:  # the text of Gemma 3 4B
        size = dict(vocab_size=262208, hidden_size=2560, intermediate_size=10240, num_hidden_layers=34,
                    num_attention_heads=8, num_key_value_heads=4, head_dim=256, sliding_window=1024)
    return causal_lm("gemma3_text", **size)


def gemma3_1b(tiny: bool) -> nn.Module:
    if tiny:
        return gemma3(tiny)
    import transformers
    return transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(HERE / "configs" / "gemma-3-1b"))


def gpt_oss(tiny: bool) -> nn.Module:
    size = dict(vocab_size=1000, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, head_dim=16, num_local_experts=8)
    if not tiny:  # gpt-oss 20B, 4 of its 24 layers
        size = dict(num_hidden_layers=4, num_local_experts=32)
    return causal_lm("gpt_oss", num_experts_per_tok=4, **size)


def attention_lora(model: nn.Module) -> nn.Module:
    return lora(model, "qkvo")


def llama4(tiny: bool) -> nn.Module:
    size = dict(vocab_size=1000, hidden_size=64, intermediate_size=64, intermediate_size_mlp=128, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_local_experts=4)
    if not tiny:  # Llama 4 Scout, 2 of its 48 layers
        size = dict(num_hidden_layers=2, num_local_experts=16)
    return causal_lm("llama4_text", **size)


def deepseek_v3(tiny: bool) -> nn.Module:
    size = dict(vocab_size=1000, hidden_size=64, intermediate_size=128, moe_intermediate_size=32, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=4, n_routed_experts=8, q_lora_rank=32, kv_lora_rank=16,
                qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, n_group=2, topk_group=1)
    if not tiny:  # DeepSeek V3, 3 of its 61 layers with 16 of 256 experts
        size = dict(num_hidden_layers=3, n_routed_experts=16)
    return causal_lm("deepseek_v3", num_experts_per_tok=4, first_k_dense_replace=1, **size)


def qwen3_next(tiny: bool) -> nn.Module:
    size = dict(vocab_size=1000, hidden_size=64, intermediate_size=128, moe_intermediate_size=32,
                shared_expert_intermediate_size=32, num_attention_heads=4, head_dim=16, num_experts=8,
                linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4)
    if not tiny:  # Qwen3-Next 80B, 4 of its 48 layers with 64 of 512 experts
        size = dict(num_experts=64)
    return causal_lm("qwen3_next", num_hidden_layers=4, num_experts_per_tok=4, num_key_value_heads=2, **size)


def modernbert(tiny: bool) -> nn.Module:
    import transformers
    size = dict(vocab_size=1000, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4)
    if not tiny:  # ModernBERT large
        size = dict(hidden_size=1024, intermediate_size=2624, num_hidden_layers=28, num_attention_heads=16)
    return transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(pad_token_id=0, **size))


def whisper(tiny: bool) -> nn.Module:
    import transformers
    size = dict(vocab_size=1000, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, pad_token_id=0,
                decoder_start_token_id=1, bos_token_id=1, eos_token_id=2)
    if not tiny:  # Whisper medium
        size = dict(d_model=1024, encoder_layers=24, decoder_layers=24, encoder_attention_heads=16,
                    decoder_attention_heads=16, encoder_ffn_dim=4096, decoder_ffn_dim=4096)
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**size))


def vit(tiny: bool) -> nn.Module:
    import transformers
    size = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
    if not tiny:  # ViT-L/16
        size = dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16)
    return transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000, **size))


def torchvision_model(name: str) -> nn.Module:
    import torchvision.models
    return getattr(torchvision.models, name)()


def timm_model(name: str) -> nn.Module:
    import timm
    return timm.create_model(name)


class Case(NamedTuple):
    build: Callable[[bool], nn.Module]  # argument: whether to build a tiny one
    batch: int
    blocks: str = ""  # image models: Python checkpoints the children of modules whose name ends so
    tokens: Tuple[int, int] = (0, 0)  # length and vocabulary; zeros: images
    dtype: str = ""  # of the parameters; else float32
    autocast: bool = True  # to bf16
    adapter: Optional[Callable[[nn.Module], nn.Module]] = None
    data: str = ""  # of models that `memtune convert` writes: the input beside labels
    trl: str = ""  # the loss of one of its trainers


CASES = {
    "llama": Case(llama, 2, tokens=(4096, 128256), dtype="bf16", autocast=False),
    "llama_dpo": Case(llama, 4, tokens=(2048, 128256), dtype="bf16", autocast=False, trl="dpo"),
    "llama_lora": Case(llama, 2, tokens=(4096, 128256), dtype="bf16", adapter=lora),
    "qwen2": Case(qwen2, 2, tokens=(2048, 151936)),
    "gpt2_medium": Case(gpt2, 8, tokens=(1024, 50257)),
    "qwen3_moe": Case(qwen3_moe, 4, tokens=(2048, 32000), dtype="bf16", autocast=False),
    "gemma3_4b": Case(gemma3, 2, tokens=(2048, 262208), dtype="bf16", autocast=False),
    "gemma3_1b": Case(gemma3_1b, 2, tokens=(2048, 262144), dtype="bf16", autocast=False),
    "gpt_oss_lora": Case(gpt_oss, 2, tokens=(2048, 201088), dtype="bf16", adapter=attention_lora),
    "llama4": Case(llama4, 2, tokens=(2048, 202048), dtype="bf16", autocast=False),
    "deepseek_v3": Case(deepseek_v3, 2, tokens=(2048, 129280), dtype="bf16", autocast=False),
    "qwen3_next": Case(qwen3_next, 2, tokens=(2048, 151936), dtype="bf16", autocast=False),
    "modernbert": Case(modernbert, 16, tokens=(1024, 50368), dtype="bf16", autocast=False, data="input_ids"),
    "whisper": Case(whisper, 8, tokens=(256, 51865), dtype="bf16", autocast=False, data="input_features"),
    "hf_vit_l": Case(vit, 256, dtype="bf16", autocast=False, data="pixel_values"),
    "vit_l": Case(lambda tiny: torchvision_model("vit_b_16" if tiny else "vit_l_16"), 64, "layers"),
    "resnet101": Case(lambda tiny: torchvision_model("resnet18" if tiny else "resnet101"), 128,
                      "layer1 layer2 layer3 layer4"),
    "convnext_b": Case(lambda tiny: timm_model("convnext_atto" if tiny else "convnext_base"), 64, "blocks"),
}


def batch_of(case: Case, options) -> Dict[str, Tensor]:
    """Inputs, named as forward's arguments, and the target."""
    generator = torch.Generator().manual_seed(1)
    count = 2 if options.tiny else case.batch
    if case.data in ("input_features", "pixel_values"):
        shape = (80, 3000) if case.data == "input_features" else (3, 224, 224)
        data = torch.randn(count, *shape, generator=generator).bfloat16()
        length, vocabulary = (64, 1000) if options.tiny else case.tokens
        size = (count, length) if case.tokens[0] else (count,)
        return {case.data: data, "labels": torch.randint(0, vocabulary or 1000, size, generator=generator)}
    if not case.tokens[0]:
        images = torch.randn(count, 3, 224, 224, generator=generator)
        return {"x": images, "target": torch.randint(0, 1000, (count,), generator=generator)}
    length, vocabulary = (64, 1000) if options.tiny else case.tokens
    tokens = torch.randint(0, vocabulary, (count, length), generator=generator)
    if case.trl:  # chosen rows, then rejected rows, with completions in the second half
        completion = torch.zeros_like(tokens)
        completion[:, length // 2:] = 1
        logps = {f"ref_{side}_logps": torch.full((count // 2,), -100.0) for side in ("chosen", "rejected")}
        return {"input_ids": tokens, "completion_mask": completion, **logps}
    return {"input_ids": tokens, "labels": tokens.clone()}


def checkpoint_blocks(model: nn.Module, blocks: str):
    """Recomputes each block in backward, as transformers, timm and FSDP's wrappers do."""
    for name, module in list(model.named_modules()):
        if name.split(".")[-1] not in blocks.split():
            continue
        for block in module.children():
            forward = block.forward
            block.forward = lambda *args, forward=forward, **kwargs: torch.utils.checkpoint.checkpoint(
                forward, *args, use_reentrant=False, **kwargs)


def make_trl_trainer(model: nn.Module, folder: Path):
    """TRL's DPOTrainer, whose compute_loss takes a batch."""
    import datasets
    import tokenizers
    import transformers
    import trl
    words = tokenizers.models.WordLevel({"a": 0, "b": 1, "c": 2}, unk_token="a")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(words), pad_token="c",
                                                     eos_token="b", unk_token="a")
    rows = datasets.Dataset.from_list([{"prompt": "a ", "chosen": "b", "rejected": "c"}] * 2)
    settings = trl.DPOConfig(output_dir=str(folder / "trl"), bf16=False, precompute_ref_log_probs=True, report_to=[],
                             gradient_checkpointing=False, disable_tqdm=True, use_cpu=not torch.cuda.is_available())
    return trl.DPOTrainer(model=model, args=settings, train_dataset=rows, processing_class=tokenizer)


def as_loaded(model: nn.Module, folder: Path, dtype: str) -> nn.Module:
    """Writes the model and reads it, as in fine-tuning. A cast of the built model would also round rotary
    frequencies."""
    (model.bfloat16() if dtype else model).save_pretrained(folder)
    return type(model).from_pretrained(folder, dtype="auto")


def plain(name: str) -> str:
    """Name of an adapter's parameter in the adapter's file."""
    return name.replace(".default.", ".")


class Eager:
    """The model on the device, its batch, and a training step like the trainers'. Writes the model for memtune:
    language models as a folder of save_pretrained, the others as a trace."""

    def __init__(self, name: str, folder: Path, options):
        self.case, self.options, self.folder = CASES[name], options, folder
        self.of_transformers = bool(self.case.tokens[0] or self.case.data)
        torch.manual_seed(0)
        with torch.device(options.device):
            self.model = self.case.build(options.tiny).train()
        if self.of_transformers:
            self.model = as_loaded(self.model, folder / "model", self.case.dtype).to(options.device).train()
            self.model.config.use_cache = False
        if self.case.adapter:
            self.model = self.case.adapter(self.model).train()
            self.model.save_pretrained(folder / "adapter")
        self.batch = batch_of(self.case, options)
        self.on_device = {key: value.to(options.device) for key, value in self.batch.items()}
        save_safetensors(self.batch, str(folder / "inputs.safetensors"))
        if self.case.trl:
            self.trainer = make_trl_trainer(self.model, folder)
            self.on_device["attention_mask"] = torch.ones_like(self.on_device["input_ids"])
            self.model.train()
        if not self.of_transformers:
            torch.jit.trace(self.model, self.on_device["x"][:1], check_trace=False).save(folder / "model.pt")

    def loss(self) -> Tensor:
        with torch.autocast(self.options.device, torch.bfloat16, enabled=self.case.autocast):
            if self.case.trl:
                return self.trainer.compute_loss(self.model, dict(self.on_device))
            if self.of_transformers:
                return self.model(**self.on_device).loss
            return loss_fn(self.model(self.on_device["x"]), self.on_device["target"])

    def checkpoint(self):
        if self.of_transformers:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        else:
            checkpoint_blocks(self.model, self.case.blocks)

    def gradients(self) -> Dict[str, Tensor]:
        """Gradients on the CPU, from deterministic kernels and the random numbers of memtune's --seed 0."""
        set_deterministic(True)
        torch.manual_seed(0)
        self.loss().backward()
        set_deterministic(False)
        result = {plain(name): p.grad.cpu() for name, p in self.model.named_parameters() if p.grad is not None}
        self.model.zero_grad(set_to_none=True)
        return result

    def measure(self) -> Dict[str, Any]:
        trained = [p for p in self.model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)

        def step() -> float:
            loss = self.loss()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.item()

        torch.manual_seed(0)
        return timed(step, self.options)


def run_eager(name: str, folder: Path, options):
    """Runs eager Python in its own process, so that memtune has the whole device afterwards."""
    warnings.filterwarnings("ignore")
    eager = Eager(name, folder, options)
    options.batch = len(next(iter(eager.batch.values())))
    torch.save(eager.gradients(), folder / "gradients.pt")
    with open(folder / "eager.jsonl", "w") as file:
        for strategy in ("none", "full"):
            if strategy == "full":
                eager.checkpoint()
            trial = {"strategy": strategy, "package": f"torch {torch.__version__}", "gradients": {"compared": False},
                     **eager.measure()}
            file.write(json.dumps(trial) + "\n")


def run_memtune(name: str, folder: Path, options):
    case = CASES[name]
    if case.data:
        subprocess.run([options.memtune, "convert", folder / "model", "--python", sys.executable, "--output",
                        folder / "model.pt2", "--seq", "64"], check=True)
        model = ["--model", folder / "model.pt2", "--loss", "returned"]
    elif case.tokens[0]:
        model = ["--model", folder / "model"]
    else:
        model = ["--model", folder / "model.pt", "--loss", "cross_entropy"]
    if case.adapter:
        model += ["--lora", folder / "adapter"]
    if case.trl:
        model += ["--loss", case.trl]
    if case.autocast:
        model += ["--autocast", "bf16"]
    strategies = [part for strategy in options.strategy for part in ("--strategy", strategy)]
    subprocess.run([options.memtune, "sweep", *model, "--inputs", folder / "inputs.safetensors", "--device",
                    options.device, "--warmup", str(options.warmup), "--steps", str(options.steps), "--rounds",
                    str(options.rounds), "--out", folder / "run", "--json", folder / "memtune.json", *strategies],
                   check=True, env={**os.environ, "MEMTUNE_REFERENCE": "gradients"})


def read_reference(path: Path) -> Dict[str, Tensor]:
    """Gradients of the reference file. Its format is in docs/reference/files.md, "Reference"."""
    first, raw = 24, path.read_bytes()
    directory = struct.unpack_from("<Q", raw, 8)[0]
    result = {}
    entries = json.loads(raw[directory:])
    if not entries["has_gradients"]:
        raise SystemExit(f"{path} has hashes alone: MEMTUNE_REFERENCE=gradients was not set")
    for entry in entries["gradients"]:
        if entry["defined"]:
            begin = first + entry["offset"]
            data = bytearray(raw[begin:begin + entry["bytes"]])
            result[entry["name"]] = torch.frombuffer(data, dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return result


def against_python(folder: Path) -> str:
    """Reports the largest difference of each parameter as a share of its largest gradient."""
    python = torch.load(folder / "gradients.pt")
    ours = read_reference(next((folder / "run").glob("reference-*.bin")))
    if set(python) != set(ours):
        only = sorted(set(python) ^ set(ours))
        return f"{len(python)} parameters have gradients in Python and {len(ours)} in memtune: {', '.join(only[:3])}"
    differ = {name: ((a.float() - ours[name].float()).abs().max() / a.float().abs().max()).item()
              for name, a in python.items() if not torch.equal(a, ours[name])}
    if not differ:
        return f"{len(python)} gradients are Python's bit for bit"
    worst = max(differ, key=differ.get)
    return f"{len(differ)} of {len(python)} gradients are not Python's bits, most {worst}: {differ[worst]:.1e}"


def summary(name: str, folder: Path) -> str:
    trials = json.loads((folder / "memtune.json").read_text())["trials"]
    tracing = [f"{trial['strategy']} {100 * trial['profiler_overhead']:+.1f} %" for trial in trials
               if trial["outcome"] == "ok"]
    return f"{compare.table(folder)}\n\n{against_python(folder)}; tracing adds {', '.join(tracing)}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(CASES)}")
    p.add_argument("--memtune", default=os.environ.get("MEMTUNE", str(HERE.parent / "scripts" / "memtune")))
    p.add_argument("--strategy", nargs="+", default=["none", "checkpoint:full"])
    p.add_argument("--device", default="cuda")
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--warmup", type=int, default=4)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--eager-only", action="store_true", help=argparse.SUPPRESS)
    options = p.parse_args()
    options.tiny = options.device == "cpu"
    for name in options.names or CASES:
        folder = options.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        if options.eager_only:
            return run_eager(name, folder, options)
        subprocess.run([sys.executable, __file__, options.folder, name, "--eager-only", "--device", options.device,
                        "--steps", str(options.steps), "--warmup", str(options.warmup)], check=True)
        run_memtune(name, folder, options)
        print(f"## {name}\n\n{summary(name, folder)}\n", flush=True)


if __name__ == "__main__":
    main()
