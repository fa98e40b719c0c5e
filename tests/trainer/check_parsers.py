"""Gives every config of a trainer's space and every exported config to the trainer's own parser, and compares the
parsed values, because parsers ignore unknown keys. The configs are made from a realistic own config. Arguments must
give the same values as the config. The training settings that memtune reads, from that config and from one without
settings, must equal those of the trainer.

  check_parsers.py --print memtune-print-space [--python PYTHON] TRAINER...

Runs in a Python with the trainers: this one, or that of --python. Exit code 77 if it is missing. Also fails if a choice
of a trainer is in no config, if nothing is exported, and if a config in own/ belongs to no trainer.
"""

import argparse
import atexit
import dataclasses
import functools
import importlib.metadata
import importlib.util
import inspect
import json
import logging
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import warnings
from typing import get_args

HERE = pathlib.Path(__file__).parent
SKIPPED = 77
warnings.simplefilter("ignore")
os.environ.update(HF_HUB_OFFLINE="1", ACCELERATE_USE_CPU="true", AXOLOTL_DO_NOT_TRACK="1", DS_ACCELERATOR="cpu")


def load(path):
    import yaml

    if path.suffix == ".toml":
        return tomllib.loads(path.read_text())
    return json.loads(path.read_text()) if path.suffix == ".json" else yaml.safe_load(path.read_text())


def at(config, key):
    """The value at a dotted path of mappings or objects. A mapping may be text."""
    for part in key.split("."):
        config = json.loads(config) if isinstance(config, str) and config.startswith("{") else config
        config = config.get(part) if hasattr(config, "get") else getattr(config, part, None)
    return config


def source(package, file):
    """The text of an installed file, without executing its imports."""
    return (pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0]) / file).read_text()


def check_nested(kwargs, more=()):
    """Parsers take any mapping for gradient_checkpointing_kwargs. Checks that its keys have an effect."""
    import torch.utils.checkpoint
    from transformers import PreTrainedModel

    enable = getattr(PreTrainedModel, "activation_checkpointing_enable", PreTrainedModel.gradient_checkpointing_enable)
    known = {*inspect.signature(enable).parameters, *more}
    known |= set(inspect.signature(torch.utils.checkpoint.checkpoint).parameters)
    unknown = set(kwargs or {}) - known
    assert not unknown, f"unused key {unknown}"


# Each of these returns the parser's result for a file, or for arguments: an object, or a function of a key.


def transformers(path, arguments):
    from transformers import HfArgumentParser, TrainingArguments

    parser = HfArgumentParser(TrainingArguments)
    if arguments is not None:
        own = [word for key, value in load(path).items() for word in (f"--{key}", as_word(value))]
        parsed = parser.parse_args_into_dataclasses(own + arguments)[0]
    else:
        parsed = (parser.parse_json_file if path.suffix == ".json" else parser.parse_yaml_file)(str(path))[0]
    check_nested(parsed.gradient_checkpointing_kwargs)
    return parsed


def trl(path, arguments):
    from trl import ModelConfig, SFTConfig, TrlParser
    from trl.scripts import ScriptArguments

    parser = TrlParser([ScriptArguments, SFTConfig, ModelConfig])
    parsed, model = parser.parse_args_and_config(["--config", str(path)] + (arguments or []))[1:]
    own = {"selective"} if 'get("selective")' in source("trl", "trainer/sft_trainer.py") else set()
    check_nested(parsed.gradient_checkpointing_kwargs, own)
    return lambda key: plain(at(parsed if hasattr(parsed, key.split(".")[0]) else model, key))


def axolotl(path, arguments):
    from axolotl.utils.config import prepare_plugins, validate_config
    from axolotl.utils.dict import DictDefault

    config = DictDefault(load(path))
    prepare_plugins(config)
    machine = {"bf16": True, "fp8": True, "tf32": True, "n_gpu": 1, "compute_capability": "sm_90"}
    parsed = validate_config(config, capabilities=machine, env_capabilities={"torch_version": "2.11.0"})
    check_nested(parsed.gradient_checkpointing_kwargs)
    return parsed


def torchtune(path, arguments):
    from omegaconf import OmegaConf

    from torchtune import config
    from torchtune.config._utils import _merge_yaml_and_cli_args

    parsed = OmegaConf.load(path)
    if arguments is not None:  # like `tune run`
        values = argparse.Namespace(**OmegaConf.to_container(parsed, resolve=False))
        parsed = _merge_yaml_and_cli_args(values, arguments)
    config.validate(parsed)
    recipe_accepts(parsed)
    recipe = source("recipes", "full_finetune_distributed.py")
    unread = [key for key in parsed if not re.search(rf'cfg\.{key}\b|"{key}"', recipe)]
    assert not set(unread) - {"output_dir"}, f"the recipe does not read {unread}"
    return OmegaConf.to_container(parsed)


def recipe_accepts(config):
    """The checks of full_finetune_distributed before it loads a model. `tune validate` checks only components."""
    from torchtune.training import activations

    from torchtune.models.llama3 import llama3

    moves, checkpoints = config.get("enable_activation_offloading"), config.get("enable_activation_checkpointing")
    assert not moves or (checkpoints and config.device == "cuda"), "refused: offloading"
    if config.get("optimizer_in_bwd"):
        assert config.gradient_accumulation_steps == 1 and config.get("clip_grad_norm") is None, "refused: in backward"
    if config.get("ac_mode"):
        assert not checkpoints, "nothing would be checkpointed"
        model = llama3(vocab_size=32, num_layers=4, num_heads=2, num_kv_heads=2, embed_dim=8, max_seq_len=8)
        activations.apply_selective_activation_checkpointing(model, config.ac_mode, config.ac_option)
        wrapped = sum("Checkpoint" in type(layer).__name__ for layer in model.layers)
        assert wrapped == 4 // config.ac_option, f"{wrapped} layers are checkpointed"


def deepspeed(path, arguments):
    from deepspeed.runtime.config import DeepSpeedConfig

    parsed = DeepSpeedConfig(load(path))
    named = {"zero_optimization": "zero_config", "activation_checkpointing": "activation_checkpointing_config",
             "compile": "compile_config"}
    return lambda key: at(parsed, ".".join(named.get(part, part) for part in key.split(".")))


def accelerate(path, arguments):
    from accelerate.commands.config.config_args import load_config_from_file

    parsed = load_config_from_file(str(path))
    keys = [*parsed.fsdp_config, *set(parsed.deepspeed_config) - {"gradient_accumulation_steps"}]
    unknown = [key for key in keys if f"--{key}" not in accelerate_options()]
    assert not unknown, unknown
    return parsed


@functools.cache
def accelerate_options():
    command = [sys.executable, "-m", "accelerate.commands.launch", "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def ms_swift(path, arguments):
    from swift.arguments import SftArguments
    from swift.cli.main import parse_yaml_args
    from swift.utils import parse_args

    words = [str(path)]
    parse_yaml_args(words)
    words[words.index("{model}")] = made_up_model()
    parsed, unknown = parse_args(SftArguments, words + ["--use_cpu", "true", "--bf16", "false"] + (arguments or []))
    assert not unknown, unknown
    assert set(parsed.training_args.gradient_checkpointing_kwargs) <= {"use_reentrant"}, "the layers pass over it"
    return lambda key: plain(at(parsed.training_args, key) if at(parsed, key) is None else at(parsed, key))


def llamafactory(path, arguments):
    """Its checks, without those of the machine. Overrides are read as behind `llamafactory-cli train config.yaml`."""
    from llamafactory.hparams import parser
    from transformers import HfArgumentParser

    sys.argv = ["train", str(path), *(arguments or [])]
    classes = HfArgumentParser(parser._TRAIN_ARGS).parse_dict(parser.read_args())
    parser._verify_model_args(classes[0], classes[1], classes[3])
    return lambda key: next((plain(at(one, key)) for one in classes if hasattr(one, key.split(".")[0])), None)


def torchtitan(path, arguments):
    from torchtitan.config import ConfigManager

    parsed = ConfigManager().parse_args(arguments)
    policy = type(parsed.activation_checkpoint).__qualname__.split(".")[0]
    words = {"NoneType": "none", "SelectiveAC": "selective", "FullAC": "full", "MemoryBudgetAC": "memory-budget"}
    budget = getattr(parsed.activation_checkpoint, "memory_budget", None)
    checkpoint = words[policy] + (f" --activation-checkpoint.memory-budget {budget}" if budget else "")
    values = lambda key: checkpoint if key == "activation_checkpoint" else at(parsed, key)  # noqa: E731
    values.config = parsed
    return values


def torchtitan_0_2(path, arguments):
    from torchtitan.config import ConfigManager

    parsed = ConfigManager().parse_args(arguments if path is None else ["--job.config_file", str(path)])
    checkpoint = parsed.activation_checkpoint
    assert checkpoint.mode in get_args(type(checkpoint).__annotations__["mode"]), "its parser takes any text"
    return parsed


def megatron(path, arguments):
    """The parser of the pretrain scripts, and the checks of TransformerConfig. Both are of Python 3.12 and newer, of
    which they use a decorator alone."""
    import typing

    import typing_extensions

    typing.override = typing_extensions.override
    from megatron.core.transformer.transformer_config import TransformerConfig
    from megatron.training.arguments import add_megatron_arguments

    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_megatron_arguments(parser)
    parsed = parser.parse_args(arguments if path is None else path.read_text().split())
    fields = {field.name for field in dataclasses.fields(TransformerConfig)}
    of_model = {key: value for key, value in vars(parsed).items() if key in fields and value != parser.get_default(key)}
    TransformerConfig(**{**of_model, "num_layers": 4, "hidden_size": 8, "num_attention_heads": 2})
    return parsed


@functools.cache
def made_up_model():
    import transformers

    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    config = transformers.LlamaConfig(num_hidden_layers=1, vocab_size=32, architectures=["LlamaForCausalLM"])
    config.save_pretrained(folder.name)
    return folder.name


def as_word(value):
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def is_as_written(written, parsed):
    """Whether the values are equal. Enums equal their text, and a mapping may have additional defaults."""
    if isinstance(written, dict):
        return all(is_as_written(value, at(parsed, key)) for key, value in written.items())
    if isinstance(written, list):
        return list(parsed) == written
    return parsed == written or getattr(parsed, "value", None) == written or str(parsed) == str(written)


def names_of(key, profile):
    """The names of a key in all releases."""
    top, *rest = key.split(".")
    tops = [top] + [rename["to"] for rename in profile.get("renames", []) if rename["from"] == top]
    return [".".join([name, *rest]) for name in tops]


def without(config, profile):
    tops = {name.split(".")[0] for key in profile["settings"] for name in names_of(key, profile)}
    return {key: value for key, value in config.items() if key not in tops}


def choices(profile):
    return {choice["name"] for axis in profile["axes"] for choice in axis["choices"]}


def tried(space):
    """The choices that are in a config, or skipped with a reason."""
    return {name for one in space["variants"] + space["skipped"] for name in one["name"].split("+")}


# Commands of the user. Some variants are skipped without such words.
COMMANDS = {
    "megatron": [["--num-experts", "8", "--moe-grouped-gemm", "--multi-latent-attention", "--use-distributed-optimizer"]],
    "torchtitan": [["--module", "llama3", "--config", "llama3_debugmodel"],
                   ["--module", "graph_trainer.llama3", "--config", "graph_trainer_llama3_debugmodel"]],
}


def is_zero(own):
    """Whether it is a config of accelerate for DeepSpeed, whose keys say nothing of activations."""
    return own is not None and own.stem.endswith("-zero")


def check(trainer, own, print_space, command=()):
    """Returns the number of wrong settings."""
    trainer_parse = functools.partial(asked, globals()[re.sub("[-.]", "_", trainer)])
    parse = lambda path, arguments: trainer_parse(path, arguments if own else [*command, *arguments])  # noqa: E731
    profile = json.loads((HERE / f"../../profiles/trainers/{trainer}.json").read_text())
    releases = [word for package in profile["releases"] for word in ("--release", f"{package}={installed(package)}")]
    space = json.loads(subprocess.run([print_space, trainer, str(own or ""), "--optimizer", *releases, *command],
                                      capture_output=True, text=True, check=True).stdout)
    wrong = [f"{name} is in no config, and not skipped" for name in sorted(choices(profile) - tried(space))]
    wrong += [] if space["exports"] or is_zero(own) else ["nothing is exported"]
    for variant in space["variants"]:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / space["file_name"]
            if own:
                path.write_text(variant["config"])
            try:
                lines = list(differences(parse, profile, own, path if own else None, variant))
                wrong += [f"{variant['name']}: {line}" for line in lines]
            except (Exception, SystemExit) as error:
                wrong.append(f"{variant['name']}: {type(error).__name__}: {error}")
    for export in space["exports"]:
        try:
            wrong += [f"{export['strategy']} exported: {line}" for line in export_differences(trainer, profile, own, export)]
        except (Exception, SystemExit) as error:
            wrong.append(f"{export['strategy']} exported: {type(error).__name__}: {error}")
    for line in wrong:
        print(f"{trainer}: {line}")
    print(f"{own.name if own else trainer}: {len(space['variants'])} variants, {len(space['skipped'])} skipped, "
          f"{len(space['exports'])} exports, {len(wrong)} wrong")
    return len(wrong)


HUGGING_FACE = {"batch": "per_device_train_batch_size", "accumulate": "gradient_accumulation_steps",
                "max-grad-norm": "max_grad_norm", "lr": "learning_rate"}
NATIVE = {
    "transformers": HUGGING_FACE,
    "trl": HUGGING_FACE | {"model": "model_name_or_path", "seq": "max_length"},
    "axolotl": {"batch": "micro_batch_size", "accumulate": "gradient_accumulation_steps", "seq": "sequence_len",
                "model": "base_model", "lr": "learning_rate"},
    "ms-swift": HUGGING_FACE | {"seq": "max_length"},
    "llamafactory": HUGGING_FACE | {"model": "model_name_or_path", "seq": "cutoff_len"},
}
# Flags that depend on more than one key, with their expected values. None: the flag must be missing.
DERIVED = {
    "trl": {
        "dtype": lambda ask: {"bfloat16": "bf16", "float16": "fp16"}.get(ask("dtype"), "fp32"),
        "autocast": lambda ask: "bf16" if ask("bf16") else "fp16" if ask("fp16") else None,
        "pack": lambda ask: "true" if ask("packing") else None,
        "lora": lambda ask: f"r={ask('lora_r')},alpha={ask('lora_alpha')},dropout={ask('lora_dropout')},targets="
                            + "+".join(ask("lora_target_modules") or ["q_proj", "v_proj"]) if ask("use_peft") else None,
    },
    "transformers": {"autocast": lambda ask: "bf16" if ask("bf16") else "fp16" if ask("fp16") else None},
    "axolotl": {
        "dtype": lambda ask: "bf16" if ask("bf16") else "fp16" if ask("fp16") else "fp32",
        "pack": lambda ask: "true" if ask("sample_packing") else None,
        "lora": lambda ask: ask("adapter") and f"r={ask('lora_r')},alpha={ask('lora_alpha')}"
                + (f",dropout={ask('lora_dropout')}" if ask("lora_dropout") else ""),
    },
}
DERIVED["llamafactory"] = {
    "dtype": lambda ask: "fp32" if ask("finetuning_type") == "full" and not ask("pure_bf16") else None,
    "autocast": lambda ask: "bf16" if ask("bf16") else "fp16" if ask("fp16") else None,
    "lora": lambda ask: f"r={ask('lora_rank')},dropout={ask('lora_dropout'):g}"
            + ("" if ask("lora_target") == ["all"] else ",targets=" + "+".join(ask("lora_target"))),
}
SAYS_NOTHING = {"llamafactory": "model_name_or_path: m\noutput_dir: out\nuse_cpu: true\n",
                "trl": "output_dir: out\nuse_cpu: true\nuse_peft: true\n",
                "transformers": "output_dir: out\nuse_cpu: true\n"}


def check_native(trainer, own, print_space):
    """Returns the number of memtune flags that differ from the trainer's settings."""
    parse = functools.partial(asked, globals()[re.sub("[-.]", "_", trainer)])
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        bare = pathlib.Path(folder) / "bare.yaml"
        bare.write_text(SAYS_NOTHING.get(trainer, ""))
        for path in [own] + [bare] * (trainer in SAYS_NOTHING):
            flags = json.loads(subprocess.run([print_space, trainer, str(path), "--native"], capture_output=True, text=True,
                                              check=True).stdout)
            ask = parse(path, None)
            pairs = [(flag, flags[flag], ask(key)) for flag, key in NATIVE[trainer].items() if flag in flags]
            if path == own and not pairs:
                print(f"{trainer}: {path.name}: nothing of training is read")
                wrong += 1
            pairs += [(flag, flags.get(flag), of(ask)) for flag, of in DERIVED.get(trainer, {}).items()]
            for flag, ours, theirs in pairs:
                if ours != theirs and not (is_number(theirs) and is_number(ours) and float(ours) == float(theirs)):
                    print(f"{trainer}: {path.name}: --{flag} is {ours!r} and the trainer has {theirs!r}")
                    wrong += 1
            print(f"{path.name}: {len(pairs)} flags of {trainer}")
    return wrong


def is_number(value):
    try:
        return not isinstance(value, bool) and float(value) == float(value)
    except (TypeError, ValueError):
        return False


def installed(package):
    return importlib.metadata.version(package)


def asked(parse, path, arguments):
    """The result of the parser, as a function of a key."""
    parsed = parse(path, arguments)
    return parsed if callable(parsed) and not hasattr(parsed, "get") else lambda key: plain(at(parsed, key))


def export_differences(trainer, profile, own, export):
    """Yields the differences between an exported config and the parser's result."""
    text = export["text"]
    keys = "".join(line for line in text.splitlines(True) if not line.startswith("#"))
    parser = globals()[re.sub("[-.]", "_", trainer)]
    if trainer == "torchtitan":  # lines of a program, executed with a config as variable
        config = parser(None, [*COMMANDS[trainer][0], "activation-checkpoint:selective"]).config
        exec(keys, {"config": config})
        code = {value: word for word, value in profile["program"].items()}
        said = re.search(r"config.activation_checkpoint = (.*)", keys)[1]
        now = config.activation_checkpoint
        if (now is None) != (said == "None") or (now is not None and type(now).__qualname__ not in said + "()"):
            yield f"{code[said]} became {now!r}"
        return
    with tempfile.TemporaryDirectory() as folder:
        suffix = own.suffix if own else ".toml" if "toml" in profile.get("forms", []) else ".txt"
        path = pathlib.Path(folder) / f"exported{suffix}"
        path.write_text(keys if suffix == ".txt" else text)
        ask = asked(parser, path, None)
        written = {key: at(load(path), name) for key in profile["settings"] for name in names_of(key, profile)
                   if suffix != ".txt" and at(load(path), name) is not None}
        if suffix == ".txt":
            flags = keys.split()
            written = {flag[2:].replace("-", "_"): value for flag, value in zip(flags[::2], flags[1::2])}
        for key, value in written.items():
            off = value is False and ask(key) is None
            if not off and not is_as_written(value, ask(key)):
                yield f"{key} should be {value!r} and is {ask(key)!r} for the trainer"
        if own and without(load(path), profile) != without(load(own), profile):
            yield "what is no memory setting was changed"


def plain(value):
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value


def differences(parse, profile, own, path, variant):
    keys = profile["settings"]
    wanted = {key: value for axis in profile["axes"] for choice in axis["choices"]
              if choice["name"] in variant["name"].split("+") for key, value in choice["set"].items()}
    ask = parse(path, None if own else variant["arguments"])
    if own:
        config = load(path)
        if without(config, profile) != without(load(own), profile):
            yield "what is no memory setting was changed"
        written = {(key, name): at(config, name) for key in keys for name in names_of(key, profile)}
        wanted |= {key: value for (key, _), value in written.items() if value is not None}
    for key, value in wanted.items():
        if not is_as_written(value, ask(key)):
            yield f"{key} should be {value!r} and is {ask(key)!r} for the trainer"
    if not own or not variant["arguments"]:
        return
    by_arguments = parse(own, variant["arguments"])
    for key in keys:
        if by_arguments(key) != ask(key) and (by_arguments(key) or ask(key)):
            yield f"{key} is {ask(key)!r} by the file and {by_arguments(key)!r} by arguments"


def own_configs(trainer):
    profiles = {path.stem for path in (HERE / "../../profiles/trainers").glob("*.json")}
    owns = {path: path.stem.removesuffix("-lora").removesuffix("-zero") for path in sorted((HERE / "own").iterdir())}
    if unknown := [path.name for path, name in owns.items() if name not in profiles]:
        sys.exit(f"own configs of no trainer: {', '.join(unknown)}")
    found = [path for path, name in owns.items() if name == trainer]
    if trainer in NATIVE and not found:
        sys.exit(f"{trainer} has no own config")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--print", required=True, help="memtune-print-space")
    parser.add_argument("--python", help="as scripts/nightly installs one")
    parser.add_argument("trainers", nargs="+")
    options = parser.parse_args()
    if options.python:
        if not pathlib.Path(options.python).parent.with_name(".memtune").exists():
            print(f"skipped: {options.python} is not there; scripts/nightly trainers installs it")
            sys.exit(SKIPPED)
        os.execv(options.python, [options.python, __file__, "--print", options.print, *options.trainers])
    logging.disable(logging.WARNING)
    wrong = 0
    for trainer in options.trainers:
        owns = own_configs(trainer)
        for own in owns or [None]:
            wrong += sum(check(trainer, own, options.print, command) for command in COMMANDS.get(trainer, [()]))
        wrong += sum(check_native(trainer, own, options.print) for own in owns if trainer in NATIVE)
    sys.exit(wrong > 0)


main()
