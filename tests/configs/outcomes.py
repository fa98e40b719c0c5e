"""Runs `memtune sweep --dry-run` and `memtune export --check` on public trainer configs, and writes what came of each.

    outcomes.py CONFIGS MEMTUNE [--jobs 2] [--write TABLE | --check TABLE]
    outcomes.py CONFIGS MEMTUNE --perturb [--files 2] [--only TRAINER]

CONFIGS is a folder with a folder for each source. A model named by a hub id is replaced by a small local folder of the
same model_type, which transformers writes; the rest of a config stays byte for byte. The table has a line for each
file. --check compares it with TABLE, prints the rows that differ and exits with 1. Without either it goes to stdout.

--perturb removes each key of each measured config in turn. It prints the keys whose removal changes no output although
profiles/training does not list them as harmless: trainer, key, files without a change, an example value, files tried,
files that set the key. Such a key is dropped in silence, so the exit code is 1. Each key of a trainer is tried in
--files files (0: all).

Needs PyYAML, and transformers in the Python of --python. Runs on a CPU, with 8 GiB for each call. A refused dry run is
repeated with the options that the refusal asks for, and both outcomes are in the table.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

import yaml

MEMORY = 8 << 30  # bytes for one call: less than memtune would take, and the same on each machine
COLUMNS = ["file", "trainer", "sweep code", "sweep outcome", "notes", "check code", "check outcome"]
TRAINERS = {"axolotl": "axolotl", "torchtune": "torchtune", "swift": "ms-swift", "alignment": "trl", "openr1": "trl",
            "smollm": "nanotron", "llamafactory": "llamafactory", "accelerate": "accelerate", "deepspeed": "deepspeed"}
MODEL_KEYS = {"axolotl": r"^(base_model:[ \t]*)", "trl": r"^(model_name_or_path:[ \t]*)",
              "ms-swift": r"^(model:[ \t]*)", "llamafactory": r"^(model(?:_name_or_path)?:[ \t]*)",
              "torchtune": r"^(checkpointer:[ \t]*\n(?:(?:[ \t].*|#.*|)\n)*?[ \t]+checkpoint_dir:[ \t]*)"}
MODEL_VALUE = r"""("[^"\n]*"|'[^'\n]*'|[^\s#]+)"""

# Keys that a row reads and whose values here change nothing.
EXPLAINED = {("axolotl", "lora_qkv_kernel"): "true is the default",
             ("axolotl", "tf32"): "it is about products of float32, which a config in half precision does not have"}

# A pattern for refusals, and the options that it asks for.
MORE_OPTIONS = [(r"needs a CUDA device", ["--attention", "sdpa"]), (r"--text-only measures", ["--text-only"]),
                (r": --seq does$", ["--seq", "512"]), (r": --batch does$", ["--batch", "1"])]

# A pattern for names of models, and their model_type; the first that matches counts. Behind a slash is the model_type
# of the text model, where it is not the usual one.
MODEL_TYPES = [
    (r"gpt-oss", "gpt_oss"),
    (r"llama-?4", "llama4"),
    (r"llama-3\.2-\d+b-vision", "mllama"),
    (r"moss-vl", "moss_vl"),
    (r"paddleocr-vl", "paddleocr_vl"),
    (r"falcon-h1", "falcon_h1"),
    (r"falcon", "falcon"),
    (r"zephyr-7b-gemma", "gemma"),
    (r"gemma-4-12b", "gemma4_unified"),
    (r"gemma-4", "gemma4"),
    (r"gemma-3n", "gemma3n"),
    (r"gemma-3-1b", "gemma3_text"),
    (r"gemma-3", "gemma3"),
    (r"gemma-2-", "gemma2"),
    (r"gemma", "gemma"),
    (r"mixtral", "mixtral"),
    (r"pixtral", "llava"),
    (r"voxtral", "voxtral"),
    (r"mistral-small-4", "mistral3/mistral4"),
    (r"ministral-3-|mistral-medium-3\.5", "mistral3/ministral3"),
    (r"mistral-7b|ministral-8b|magistral-small-250[67]|devstral-small-2507|zephyr-7b", "mistral"),
    (r"qwen3\.5.*-a\d+b", "qwen3_5_moe"),
    (r"qwen3\.5", "qwen3_5"),
    (r"qwen3-next", "qwen3_next"),
    (r"qwen3-vl", "qwen3_vl"),
    (r"qwen3.*-a\d+b", "qwen3_moe"),
    (r"qwen3|plano-orchestrator", "qwen3"),
    (r"qwen2\.5-vl", "qwen2_5_vl"),
    (r"qwen2-vl", "qwen2_vl"),
    (r"qwen1\.5-moe", "qwen2_moe"),
    (r"qwen-7b", "qwen"),
    (r"qwen2|distill-qwen|preview-qwen|deepcoder", "qwen2"),
    (r"phi-?[34]", "phi3"),
    (r"phi-[12]", "phi"),
    (r"glm-4\.7-flash", "glm4_moe_lite"),
    (r"glm-4\.6v-flash", "glm4v"),
    (r"glm-5", "glm_moe_dsa"),
    (r"nemotron-3-nano", "nemotron_h"),
    (r"nemotron-mini", "nemotron"),
    (r"deepseek-v4", "deepseek_v4"),
    (r"deepseek-v2", "deepseek_v2"),
    (r"kimi-linear", "kimi_linear"),
    (r"smollm3", "smollm3"),
    (r"apertus", "apertus"),
    (r"stablelm", "stablelm"),
    (r"mpt-|replit-code", "mpt"),
    (r"dbrx", "dbrx"),
    (r"cerebras-gpt", "gpt2"),
    (r"starcoder2", "starcoder2"),
    (r"trinity-nano", "afmoe"),
    (r"afm-", "arcee"),
    (r"jamba", "jamba"),
    (r"mimo-7b", "mimo"),
    (r"lfm2-\d+b-a\d+b", "lfm2_moe"),
    (r"lfm2", "lfm2"),
    (r"pythia", "gpt_neox"),
    (r"gpt-j", "gptj"),
    (r"command-r7b", "cohere2"),
    (r"seed-oss", "seed_oss"),
    (r"llama|yi-34b|xgen-7b|smollm2", "llama"),
]

# Runs in the Python of --python: writes a config.json for each model_type into a folder of its name.
WRITE_MODELS = r"""
import json, pathlib, re, sys
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

SIZES = {64: "hidden_size d_model n_embd embed_dim", 128: "intermediate_size", 4: "num_attention_heads n_head n_heads "
         "num_heads num_experts num_local_experts n_routed_experts", 512: "vocab_size", 16: "head_dim kv_lora_rank "
         "q_lora_rank", 32: "moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size",
         2: "num_hidden_layers n_layer n_layers depth num_key_value_heads num_experts_per_tok num_kv_shared_layers",
         2048: "n_positions"}
SMALL = {name: size for size, names in SIZES.items() for name in names.split()}

def shrunk(cls, text=None):
    whole = cls()
    values = whole.to_dict()
    small = {name: size for name, size in SMALL.items() if isinstance(values.get(name), int)}
    if len(set(values.get("layer_types") or ())) > 1:  # some layers of each kind
        small["num_hidden_layers"] = SMALL["num_attention_heads"]
    if "kv_lora_rank" in small:  # all heads have keys of their own
        small["num_key_value_heads"] = small["num_attention_heads"]
    if values.get("num_experts_per_tok", 2) is None:  # its class has no default
        small["num_experts_per_tok"] = SMALL["num_experts_per_tok"]
    tokens = [name for name, value in values.items() if re.search("_token_(id|index)$", name) and
              isinstance(value, int) and value >= SMALL["vocab_size"]]
    small.update((name, SMALL["vocab_size"] - 1 - number) for number, name in enumerate(sorted(tokens)))
    for name in cls.sub_configs:
        inner = getattr(whole, name, None)
        if inner is not None:
            inner = CONFIG_MAPPING[text] if text and name == "text_config" else type(inner)
            small[name] = {**shrunk(inner), "model_type": inner.model_type}
    return small

for name in sys.argv[2:]:
    folder = pathlib.Path(sys.argv[1]) / name.replace("/", "-")
    folder.mkdir(parents=True)
    kind, _, text = name.partition("/")
    if kind in CONFIG_MAPPING:
        cls = CONFIG_MAPPING[kind]
        cls(**shrunk(cls, text), dtype="bfloat16").save_pretrained(folder)
    else:
        (folder / "config.json").write_text(json.dumps({"model_type": kind}))
"""


def model_type(name):
    return next((kind for pattern, kind in MODEL_TYPES if re.search(pattern, name.lower())), None)


def load(text):
    """Returns the settings of a config, or {} if it is no mapping."""
    try:
        settings = yaml.safe_load(text)
    except yaml.YAMLError:
        settings = None
    return settings if isinstance(settings, dict) else {}


def trainer_of(folder, settings):
    if "compute_environment" in settings or "distributed_type" in settings:
        return "accelerate"
    if "zero_optimization" in settings:
        return "deepspeed"
    return TRAINERS[folder.partition("-")[0]]


def replace_model(text, trainer, models):
    """Returns the text with a folder in `models` in place of its model, or as it is if no model is known."""
    found = trainer in MODEL_KEYS and re.search(MODEL_KEYS[trainer] + MODEL_VALUE, text, re.MULTILINE)
    if not found:
        return text
    name = found[2].strip("\"'")
    if name.startswith("${"):
        named = re.search(rf"^{re.escape(name[2:-1])}:[ \t]*{MODEL_VALUE}", text, re.MULTILINE)
        name = named[1] if named else name
    kind = model_type(name)
    if not kind:
        print(f"no model_type is known for {name}", file=sys.stderr)
        return text
    return text[:found.start(2)] + str(models / kind.replace("/", "-")) + text[found.end(2):]


class Config:
    """A file of CONFIGS with its model replaced."""

    def __init__(self, path, root, models):
        self.name = path.relative_to(root).as_posix()
        self.suffix = path.suffix
        text = path.read_bytes().decode()
        self.settings = load(text)
        self.trainer = trainer_of(path.relative_to(root).parts[0], self.settings)
        self.text = replace_model(text, self.trainer, models)
        self.settings = load(self.text)

    def dump(self, settings):
        if self.suffix == ".json":
            return json.dumps(settings, indent=2)
        return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=100000)


class Runner:
    """Calls memtune on texts of configs, each in a folder of its own."""

    def __init__(self, memtune, folder, models, limit):
        self.memtune, self.folder, self.models, self.limit = memtune, folder, models, limit
        self.times = []  # seconds of a call, and its config
        self.environment = {**os.environ, "HF_HOME": str(folder / "hub"), "CUDA_VISIBLE_DEVICES": "", "NO_COLOR": "1"}

    def call(self, config, text, *arguments):
        """Returns the exit code and the lines of stdout and of stderr, without paths of the temporary folder."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            name = pathlib.PurePosixPath(config.name).name
            path = pathlib.Path(folder) / name
            path.write_bytes(text.encode())
            command = [self.memtune, *(str(path) if argument == "{}" else argument for argument in arguments)]
            start = time.monotonic()
            try:
                done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=folder,
                                      env=self.environment, timeout=self.limit)
                code, outputs = done.returncode, (done.stdout, done.stderr)
            except subprocess.TimeoutExpired:
                code, outputs = "timeout", ("", "")
            self.times.append((time.monotonic() - start, config.name))
            for old, new in ((str(path), name), (str(self.models), "MODELS"), (folder, "FOLDER")):
                outputs = [output.replace(old, new) for output in outputs]
            return code, *(output.splitlines() for output in outputs)

    def sweep(self, config, text):
        """Returns the options that refusals asked for, and the result, of a dry run and of each repeated one."""
        options, results = [], []
        while True:
            result = self.call(config, text, "sweep", "--trainer", config.trainer, "--config", "{}", "--dry-run",
                               *options)
            results.append((" ".join(options), result))
            more = [] if result[0] == 0 else next((more for pattern, more in MORE_OPTIONS if more[0] not in options and
                                                   any(re.search(pattern, line) for line in result[2])), [])
            if not more:
                return results
            options = options + more

    def check(self, config):
        return self.call(config, config.text, "export", "--trainer", config.trainer, "--check", "{}")


def shortened(text):
    """Cuts what is the same in many lines: the list of known names, the advice and the origin of each flag."""
    text = re.sub(r"Known: [\w-]+(, [\w-]+)*\. ", "", text)
    text = re.sub(r"Measure its own command instead: memtune sweep .*", "Measure its own command instead", text)
    return re.sub(r"(--\S+( \S+)?) \([^)]*\)", r"\1", text)


def describe(config, result):
    """Returns the outcome of a dry run, and its notes."""
    code, _, errors = result
    start = pathlib.PurePosixPath(config.name).name + ": "
    notes = [line.removeprefix(start) for line in errors if line.startswith(start)]
    errors = [line for line in errors if not line.startswith(start)]
    if code == "timeout":
        return "no answer in time", ""
    if code != 0:
        errors = [re.sub(r"[\d.]+ [KMGT]iB", "N bytes", line) for line in errors]
        return "refused: " + shortened(" | ".join(line.removeprefix("memtune: ") for line in errors)), " | ".join(notes)
    flags = [line.removeprefix("from " + start) for line in errors if line.startswith("from " + start)]
    usual = re.compile(r"from |\d+ trials? in |next: ")
    notes += [line for line in errors if not usual.match(line)]
    return "measured: " + shortened(" | ".join(flags)), " | ".join(notes)


def row_of(runner, config):
    results = runner.sweep(config, config.text)
    outcomes = []
    for options, result in results:
        outcome, notes = describe(config, result)
        outcomes.append(f"with {options} {outcome}" if options else outcome)
    code, lines, errors = runner.check(config)
    lines = [line for line in lines + errors if line != "not measured: there is no sweep in ./memtune-run"]
    row = [config.name, config.trainer, str(results[0][1][0]), "; ".join(outcomes), notes, str(code), " | ".join(lines)]
    return [re.sub(r"\s+", " ", cell) for cell in row]


def leaves(settings, path=()):
    """Yields the paths and values of keys that are not null. A list is one value."""
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        elif value is not None:
            yield (*path, key), value


def without(settings, path):
    copy = dict(settings)
    if len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = without(copy[path[0]], path[1:])
    return copy


class Profile:
    """The keys of profiles/training that change neither memory nor time."""

    def __init__(self, trainer):
        self.trainer = trainer
        folder = pathlib.Path(__file__).resolve().parents[2] / "profiles" / "training"
        data = json.loads((folder / f"{trainer}.json").read_text())
        like = json.loads((folder / f"{data['like']}.json").read_text()) if "like" in data else {}
        self.patterns = data["no_effect"] + like.get("no_effect", [])
        self.values = {**like.get("harmless", {}), **data["harmless"]}
        self.rows = data["rows"]
        trainer_data = json.loads((folder.parent / "trainers" / f"{trainer}.json").read_text())
        self.strategies = {key for one in trainer_data["strategies"] for part in ("set", "also", "when")
                           for key in one.get(part, {})}

    def is_harmless(self, path, value):
        names = path.split(".")
        paths = [".".join(names[:end]) for end in range(1, len(names) + 1)]
        if any(fnmatch.fnmatchcase(one, pattern) for one in paths for pattern in self.patterns):
            return True
        values = value if isinstance(value, list) else [value]
        off = value in (False, "", [], {})
        if path in self.strategies or (self.trainer, path) in EXPLAINED:
            return True
        return off and self.reads(path) or all(one in self.values.get(path, ()) for one in values)

    def reads(self, path):
        """Whether a row depends on the key: a value that turns it off is its default."""
        return any(path in row.get("when", {}) or path in row.get("any", ()) or "{" + path + "}" in str(row)
                   for row in self.rows)

    def notes(self, path):
        """Whether a note of a row is about a mapping that holds the key."""
        return any("note" in row and any(path.startswith(key + ".") for key in row.get("when", {})) for row in self.rows)


def perturb(runner, configs, pool, files):
    def outputs(config, settings):
        return runner.sweep(config, config.dump(settings))

    def start(config):
        found = runner.sweep(config, config.text)
        if found[-1][1][0] != 0:
            return None
        dumped = outputs(config, config.settings)
        if dumped != found:
            print(f"{config.name}: written by PyYAML it gives other output", file=sys.stderr)
        return dumped

    tried, setters = {}, {}
    for config, base in zip(configs, list(pool.map(start, configs))):
        for path, value in leaves(config.settings) if base else ():
            key = (config.trainer, ".".join(map(str, path)))
            setters[key] = setters.get(key, 0) + 1
            if not files or setters[key] <= files:
                result = pool.submit(lambda c, p, b: outputs(c, without(c.settings, p)) == b, config, path, base)
                tried.setdefault(key, []).append((value, result))
    silent = 0
    profiles = {trainer: Profile(trainer) for trainer, _ in tried}
    for (trainer, key), results in sorted(tried.items()):
        profile = profiles[trainer]
        values = [value for value, same in results if same.result() and not profile.is_harmless(key, value)]
        if values and not profile.notes(key):
            silent += 1
            value = json.dumps(values[0], default=str).replace(str(runner.models), "MODELS")
            print(trainer, key, len(values), value[:80], len(results), setters[trainer, key], sep="\t")
    tries = sum(map(len, tried.values()))
    print(f"{len(tried)} keys tried in {tries} configs: {silent} are dropped in silence", file=sys.stderr)
    return silent > 0


def compare(table, path):
    old = path.read_text().splitlines()
    new = table.splitlines()
    for line in sorted(set(old) ^ set(new), key=lambda line: (line.split("\t")[0], line not in old)):
        print("-" if line in old else "+", line)
    return old != new


def newest_python():
    found = sorted(pathlib.Path.home().glob(".cache/memtune/python-*/bin/python3"))
    return str(found[-1]) if found else sys.executable


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", type=pathlib.Path)
    parser.add_argument("memtune", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--python", default=newest_python(), help="with transformers (default: memtune's newest one)")
    parser.add_argument("--only", help="only configs of this trainer")
    parser.add_argument("--files", type=int, default=2, help="files to try a key in (default: 2; 0: all)")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one call (default: 300)")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", type=pathlib.Path, metavar="TABLE")
    action.add_argument("--check", type=pathlib.Path, metavar="TABLE")
    action.add_argument("--perturb", action="store_true")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        folder = pathlib.Path(name)
        kinds = sorted({kind for _, kind in MODEL_TYPES})
        subprocess.run([options.python, "-c", WRITE_MODELS, folder / "models", *kinds], check=True,
                       stderr=subprocess.DEVNULL)
        paths = sorted(path for path in options.configs.rglob("*") if path.suffix in (".json", ".yaml", ".yml"))
        configs = [Config(path, options.configs, folder / "models") for path in paths]
        configs = [config for config in configs if options.only in (None, config.trainer)]
        runner = Runner(options.memtune.absolute(), folder, folder / "models", options.limit)
        if options.perturb:
            return perturb(runner, configs, pool, options.files)
        rows = [COLUMNS, *pool.map(lambda config: row_of(runner, config), configs)]
        table = "".join("\t".join(row) + "\n" for row in rows)
    slowest = ", ".join(f"{seconds:.0f} s {name}" for seconds, name in sorted(runner.times)[:-4:-1])
    total = sum(seconds for seconds, _ in runner.times)
    print(f"{len(runner.times)} calls in {total:.0f} s; slowest: {slowest}", file=sys.stderr)
    if options.check:
        return compare(table, options.check)
    if options.write:
        options.write.write_text(table)
    else:
        print(table, end="")
    return 0


sys.exit(main())
