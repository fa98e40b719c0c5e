#!/usr/bin/env python3
"""Runs every parser under libFuzzer, several at a time, with seeds from tests/data.

    run.py MEMTUNE_FUZZ [--runs N] [--seconds N] [--jobs N] [--corpus FOLDER] [PARSER...]

Exit code 1: a fault was found. It is printed, and its input is in the corpus folder as crash-....
"""
import argparse
import concurrent.futures
import glob
import io
import json
import os
import re
import struct
import subprocess
import sys
import time
import zipfile

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "h200")
LEAST = 1000  # executions, without a time limit
PROFILES = os.path.join(DATA, "..", "..", "..", "profiles")
ORIGIN = dict.fromkeys(["written", "command", "model", "memtune", "torch", "driver", "machine"], "o")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def read_all(*pattern):
    """The first files of a parser's corpus. Without a valid file the parser would hardly be tested."""
    paths = sorted(glob.glob(os.path.join(*pattern)))
    if not paths:
        sys.exit(f"no seeds: {os.path.join(*pattern)} is no file")
    return [read(path) for path in paths]


def op(i, name, block):
    return {"name": name, "region": f"layers.{block}", "block": block, "class": "matmul", "inputs": [i], "outputs": [i + 1],
            "output_bytes": [1 << 20], "output_saved": [True]}


def archive(names, contents=None):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zip:
        for name in names:
            with zip.open(zipfile.ZipInfo("m/" + name), "w", force_zip64=len(names) > 2) as record:
                record.write(contents[name] if contents else b"_parameters _modules")
    return file.getvalue()


def trace():
    """Two copies and a step, small enough that every number is mutated. The fuzzing program corrects the checksums."""
    record = lambda kind, payload: struct.pack("<IIB", len(payload) + 1, 0, kind) + payload
    event = lambda kind, start, size: struct.pack("<BIIqqqQIBBiB", kind, 0, 0, start, start + 9, size, 0, 0xFFFFFFFF, kind == 7, 0, -1, 0)
    header = {"version": 4, "origin": ORIGIN, "strategy": "none", "device": "d", "budget_bytes": 9, "lost_records": 1, "start_ns": 5,
              "measured_rank": -1, "tracks": [{"role": "copy_out", "stream": 7, "rank": 0}],
              "values": [{"name": "v", "region": "r", "placement": "host", "reason": "", "bytes": 9, "block": 0}],
              "owners": [{"kind": "block", "name": "b", "block": 0}]}
    return (b"MTTRACE3" + record(1, json.dumps(header).encode()) + record(2, struct.pack("<I", 1) + b"c") +
            record(3, event(1, 0, 1 << 20) + event(1, 9, 1 << 20) + event(7, 0, 0)) +
            record(4, struct.pack("<qq", 3, 99)) + record(6, struct.pack("<qIq", 3, 0, 99)) + record(5, b""))


def exported():
    """A small model.json of torch.export, and the config of its weights."""
    meta = {"dtype": 7, "requires_grad": True, "layout": 7, "storage_offset": {"as_int": 0}, "device": {"type": "cpu"},
            "sizes": [{"as_int": 3}, {"as_int": 4}], "strides": [{"as_int": 4}, {"as_int": 1}]}
    symbol = {"as_expr": {"expr_str": "Symbol('s0')", "hint": {"as_int": 2}}}
    tensor = lambda name: {"as_tensor": {"name": name}}
    node = {"target": "torch.ops.aten.linear.default", "outputs": [{"as_tensors": [{"name": "y"}]}],
            "inputs": [{"name": "input", "arg": tensor("x")}, {"name": "weight", "arg": tensor("w")},
                       {"name": "size", "arg": {"as_sym_ints": [{"as_name": "s"}, {"as_int": -1}]}},
                       {"name": "p", "arg": {"as_float": "Infinity"}}, {"name": "d", "arg": {"as_device": {"type": "cpu"}}}],
            "metadata": {"stack_trace": 'File "/a/m.py", line 3, in f\n', "nn_module_stack": "k,,M;k.up,up,a.Linear"}}
    graph = {"inputs": [tensor("x")], "outputs": [tensor("y")], "nodes": [node],
             "tensor_values": {"x": {**meta, "sizes": [symbol, {"as_int": 4}]}}, "sym_int_values": {"n": symbol}}
    inner = {"target": "torch.ops.higher_order.cond", "metadata": {}, "outputs": [tensor("z")],
             "inputs": [{"name": "", "arg": {"as_graph": {"name": "g", "graph": {**graph, "nodes": []}}}}]}
    specs = [{"parameter": {"arg": {"name": "w"}, "parameter_name": "w"}}, {"user_input": {"arg": tensor("x")}},
             {"user_input": {"arg": {"as_sym_int": {"as_name": "n"}}}}, {"constant_input": {"name": "c", "value": {"as_int": 1}}}]
    tree = '[1, {"type": "dict", "context": "[\\"a\\"]", "children_spec": [{"type": null, "context": null, "children_spec": []}]}]'
    model = {"schema_version": {"major": 8}, "verifiers": ["TRAINING"], "range_constraints": {"s0": {"min_val": 2, "max_val": None}},
             "graph_module": {"graph": {**graph, "nodes": [node, inner]}, "treespec_namedtuple_fields": {},
                              "signature": {"input_specs": specs, "output_specs": [{"user_output": {"arg": tensor("y")}}]},
                              "module_call_graph": [{"fqn": "", "signature": {"out_spec": tree}}]}}
    weights = {"config": {"w": {"path_name": "weight_0", "use_pickle": False, "tensor_meta": meta}}}
    return json.dumps(model).encode(), json.dumps(weights).encode()


def seeds():
    """The texts for each parser."""
    sweep = json.loads(read(os.path.join(DATA, "sweep.json")))
    measurements = [json.loads(text) for text in read_all(DATA, "trials/*/measurement.json")]
    facts = {**sweep["facts"], "ops": [op(i, "aten::linear", i // 2) for i in range(4)],
             "blocks": [{"path": "layers.0"}, {"path": "layers.1"}], "owner": [-1, 0, 1, 2, 3]}
    dump = lambda value: json.dumps(value).encode()
    trials = [{**m, "pareto": True, "recommended": False, "batch": 2,
               "predicted": {"step_ms": 268.1, "peak_bytes": 1 << 34}} for m in measurements[:3]]
    frontiers = [{"plans": [{"step_ms": 270.5, "peak_bytes": 1 << 33, "least_ms": 269}, {"step_ms": 261, "peak_bytes": 1 << 35}]},
                 {"batch": 2, "sequence": 8, "plans": [{"step_ms": 1, "peak_bytes": 2}]}]
    advice = {"strategy": measurements[0]["strategy"], "reason": "fastest", "fits": True}
    plans = read_all(DATA, "trials/*/plan.json")
    rules = {"version": 1, "name": "mine", "strategy": "checkpoint:full", "saved_min_bytes": 1024, "transfer": {},
             "rules": [{"blocks": "0-1", "op": "linear", "outputs": "host"}, {"region": "layers.*", "saved": "recompute"}]}
    model, weights = exported()
    pt2 = {"data/weights/weight_0": bytes(48), "data/weights/model_weights_config.json": weights, "models/model.json": model,
           "archive_format": b"pt2"}
    tensor = (b"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nLongStorage\nX\1\0\0\0" b"0X\3\0\0\0cpuK\6tQK\0"
              b"K\2K\3\x86K\3K\1\x86\x89ccollections\nOrderedDict\n)RtR")
    samples = {"data.pkl": b"\x80\2" + tensor + b"\x85}X\1\0\0\0m" + tensor + b"s\x86.", "data/0": bytes(48)}
    transformers = {"model_type": "llama", "vocab_size": 9, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2,
                    "num_attention_heads": 2, "rms_norm_eps": 1e-5, "hidden_act": "silu", "layer_types": ["full_attention"],
                    "rope_scaling": {"type": "llama3", "factor": 2, "low_freq_factor": 1}, "pad_token_id": None}
    gemma3 = {**transformers, "model_type": "gemma3_text", "hidden_activation": "gelu_new", "query_pre_attn_scalar": 4,
              "sliding_window_pattern": 2, "sliding_window": 4, "layer_types": None, "rope_scaling": None, "rope_parameters": {
                  "full_attention": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16},
                  "sliding_attention": {"rope_theta": 9}}}
    experts = {**transformers, "model_type": "qwen2_moe", "num_experts": 4, "num_experts_per_tok": 2, "layer_types": None,
               "moe_intermediate_size": 4, "shared_expert_intermediate_size": 4, "decoder_sparse_step": 2,
               "mlp_only_layers": [1], "max_position_embeddings": 64, "num_key_value_heads": 1, "rope_scaling": {
                   "type": "longrope", "short_factor": [1, 2], "original_max_position_embeddings": 16}}
    gpt2 = {"model_type": "gpt2", "vocab_size": 9, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 8,
            "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "resid_pdrop": 0.1}
    adapter = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "use_rslora": True, "bias": "all",
               "target_modules": ["q_proj", "layers.0.x"], "exclude_modules": "a{,2}", "layers_to_transform": [1, 2],
               "layers_pattern": "layers", "init_lora_weights": "gaussian", "rank_pattern": {"(?P<a>x)(?P=a)": 2},
               "alpha_pattern": {"[]a-]": 0.5}, "use_dora": False, "revision": None}
    pattern = {"peft_type": "LORA", "target_modules": r"(?i).*\.(?!0)(\d+)\.[^]q](?:a|b)?\Z(?#c)"}
    habits = {"learns": False, "prefetch_ops": 1, "stash_saves": 5, "counts_all": True, "empties_stash": True, "one_stream": True,
              "host_waits": False, "power_of_two": True, "parameter_views": True, "flat_broadcasts": True,
              "whole_blocks": True, "repeats": "share"}
    other = dump({"version": 1, "strategy": "offload:trl", "saved_min_bytes": 1, "nested": False, "transfer": {"habits": habits},
                  "placements": [{"op": 1, "name": "layers.0/aten::silu", "outputs": ["keep"], "saved": "keep", "saves": "host"}]})
    plans.append(other)
    share = {"rank": 1, "step_ms": {"median": 2, "samples": [2, 3]}, "peak_bytes": {"allocated": 9}, "optimizer_ms": 1,
             "loss": [1.5], "exposed_communication_ms": 0.5}
    of_ranks = {**measurements[0], "ranks": [{**share, "rank": 0}, share],
                "communication": {"gathered_bytes": 9, "reduced_bytes": 4, "exposed_ms": 0.5, "collectives_ms": 2.5}}
    request = {**sweep["request"], "rank": 1, "rendezvous": "/tmp/m", "plan": json.loads(other), "training": {
        **sweep["request"]["training"], "device": "cpu", "ranks": 4, "reshard": "after-backward", "rank_timeout_ms": 500}}
    commands = {key: value for key, value in sweep.items() if key not in ("request", "facts", "inputs", "loss")}
    commands.update(format=2, mtbf_s=3600, keep_last=2, global_batch=8, command={
        "command": ["python", "t.py"], "trainer": "trl", "variants": [{"name": "own", "command": ["python"], "file_name": "", "planned": False}],
        "skipped": [{"name": "x", "reason": "y"}], "warmup": 2, "steps": 5, "memory_cap_bytes": 9})
    start = {"event": "start", "key": "k", "folder": "trials/1-none", "strategy": "none"}
    machine = {"version": 1, "name": "m", "devices": ["NVIDIA X"], "basis": "measured", "memory_bytes": 9, "emulated": True,
               "tflops": {"float32": 1.5, "bfloat16": 9}, "memory_gb_per_s": 7, "link_in_gb_per_s": 5, "sources": {"tflops": "s"}}
    frames = [{"frame": "phase", "name": "measure", "step": 1, "steps": 5},
              {"frame": "facts", "facts": facts, "inputs": ["x:float32[2]"], "loss": "mse", "origin": ORIGIN},
              {"frame": "result", "measurement": of_ranks}, {"frame": "usage", "message": "no"},
              {"frame": "trained", "training": {"device": "d", "torch": "2.11.0", "first_step": 1, "loss": [1.5, None], "times_ms": [2, 3], "step_ms": 2.5,
               "saves": [{"step": 1, "blocked_ms": 1, "durable_ms": 2, "bytes": 9}], "save_host_bytes": 9, "save_prepare_ms": 1,
               "samples_per_s": 4, "tokens_per_s": 5, "deterministic": True, "stopped": False}},
              {"frame": "rank", "timed_out": True, "message": "rank 1 waited"},
              {"frame": "saves", "saves": {"mode": "async", "outcome": "ok", "reason": "", "saves": 4, "bytes": 9, "first_blocked_ms": 9,
               "first_durable_ms": 9, "blocked_ms": 1, "most_blocked_ms": 2, "durable_ms": 3, "total_ms": 4, "step_ms": 5,
               "slowdown": 1.1, "no_slowdown": "", "slowed_ms": 0, "steps_beside": 3, "load_ms": 1, "host_bytes": 9}},
              {"frame": "doctor", "checks": [{"name": "a", "status": "ok"}]}, {"frame": "machine", "machine": machine}]
    tensors = {"__metadata__": {"a": "b"}, "x": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
               "y": {"dtype": "I64", "shape": [2], "data_offsets": [32, 48]}}
    data = "shard-00001-model-00001-of-00001.safetensors"
    manifest = {"format": 1, "step": 4, "files": [{"name": data, "bytes": 4128, "xxh3": "00"}],
                "tensors": [{"name": "x", "dtype": "F32", "shape": [2, 4], "file": 0, "xxh3": "11"}]}
    sharded = {**manifest, "format": 2, "files": [*manifest["files"], {"name": data.replace("1", "2", 1), "bytes": 4112, "xxh3": "01"}],
               "tensors": [{"name": "x", "dtype": "F32", "shape": [5], "whole": [2, 4], "begin": 0, "order": [1, 0], "file": 0, "xxh3": "11"},
                           {"name": "x", "dtype": "F32", "shape": [3], "whole": [2, 4], "begin": 5, "order": [1, 0], "file": 1, "xxh3": "12"}]}
    yaml = [b"x: 1  # why\n\na:\n  # c\n  b: 1\n  d:\n    e: 'f'\nl:\n- 1\nt: |\n  a: 1\n", b"a: {b: [1, 'x'], \"c\": {d: null}}  # y\n",
            b'{\n  "a": {"b": 1.5, "c": [true, {}]},\n  "d": null\n}\n', b"---\na: &x {c: 1,\n  d: *y}\n<<: *z\n# end\n",
            b"%YAML 1.1\n---\nx: &x {b: 1}\na:\n  <<: [*x, {c: 2}]\n  ? k\n  : >-\n    d\n\n     e\nl:\n- - 1\n  - !!str 2\ny: *x\n...\n"]
    records = [{"record": "process", "pid": 7, "rank": 1, "world": 2, "cuda": False, "device": "", "torch": "2.11", "python": "3"},
               *({"record": "step", "step": i, "phase": phase, "skipped": i == 1, "ms": i, "optimizer_ms": 0.5, "save_ms": 0,
                  "loss": [1.5, None], "allocated": 9, "reserved": 9, "device": 9} for i, phase in
                 enumerate(["warmup", "measured", "measured", "traced"], 1)),
               *({"record": "save", "step": 1, "ms": 2, "bytes": size} for size in (9, 1 << 50, 1 << 50)), {"record": "note", "text": "n"},
               {"record": "trace", "file": "7.mttrace", "steps": 2, "start_ns": 5, "blocks": ["a"],
                "regions": [["step", "forward", -1, 1, 9], ["block", "backward", 0, 2, 3]]}, {"record": "done"},
               {"record": "exception", "time_s": 1.5, "type": "KeyError", "text": "Signal 9 (SIGKILL)"}]
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()
    own = [b"# mine\noptim: 'adamw_torch'\ngradient_checkpointing_kwargs: {use_reentrant: false}\n%%\n--torch_compile\ntrue\n",
           b'{"zero_optimization": {"stage": 2},\n "activation_checkpointing": {}}', b"per_device_train_batch_size: 4\n"]
    costs = {"version": 2, "grain_bytes": 512, "start_bytes": 9, "step_ms": 3.5, "rerun_ms": 0.5, "out_gb_per_s": 1,
             "in_gb_per_s": 2, "copy_slowdown": 0.3, "rerun_ratio": 1.1, "passes": 2, "plan": {
                 "version": 1, "strategy": "x", "placements": [{"op": 1, "name": "aten::mul", "outputs": ["recompute"]}]},
             "values": {"columns": ["run", "output", "bytes", "cast_of"], "rows": [[0, 0, 9, -2], [1, -1, 8, 0], [1, 0, 9, -2]]},
             "runs": {"columns": [*"abcdefghij"], "rows": [[0, 1, 0.5, 9, 9, 0, [], [0], [], []],
                                                           [1, 2, 0.5, 18, 9, 0, [0], [1, 2], [0], [0, 1]]]},
             "saved": {"columns": ["value", "run"], "rows": [[0, 1], [1, 1]]},
             "moments": {"columns": [*"abcdef"], "rows": [[0, 1, 1, 1, 18, 20], [1, 1, 0, 0, 18, 18], [0, 0, 1, 1, 9, 9]]}}
    large = json.loads(json.dumps(costs))  # large activations get their own block of the allocator
    for table, bytes_at in (("values", [2]), ("runs", [3, 4]), ("moments", [4, 5])):
        for row in large[table]["rows"]:
            for i in bytes_at:
                row[i] <<= 20
    return {
        "machine": [dump(machine), *read_all(PROFILES, "machines/*.json")],
        "records": [lines, lines[:300] + b"\f" + lines, b"\f" + lines, lines.replace(b'"ms": 2,', b'"ms": 0,')],
        "own_config": own,
        "check": yaml + own + [b"[activation_checkpoint]\nmode = 'selective'  # why\nselective_ac_option = '2'\n",
                               b"gradient_checkpointing: true\nactivation_ofloading: false\n"],
        "reference": [dump({"strategy": "none", "loss": "0x1.8p+0", "loss_noise": "0x0p+0", "relative_noise": "nan",
                            "has_gradients": True, "gradients": [
            {"name": "w", "dtype": "Float", "shape": [3, 4], "defined": True, "offset": 0, "bytes": 48, "hash": "00", "noise": "0x1p-9"}]})],
        "run_request": [dump({"trial": request, "folder": "r", "save_every": 1, "save": "async", "keep_last": 2, "resume": True,
                              "saves": 4, "from": 3})],
        "toml": [b"x = 1  # why\n\n[a]\nc = 'd'\nl = [\n  1,\n]\n[[t]]\ns = \"\"\"\na = 1\n\"\"\"\n", b"a.b = {c = 1}\n"],
        "yaml": yaml,
        "python_plan": [b'\nPLAN: dict[str, Any] = {\n    "name": "a", "path": "b", "blocks": 2, "parameters": 9,\n    "input": "host",  # x\n'
                        b'    "regions":\n        "m "\n        "n",\n    "treatments": [{"blocks": [0], "others": "keep keep", "ops": '
                        b'{"host recompute": "m/f#0"}},],\n    "min_bytes": 1, "stash_bytes": 2, "prefetch_blocks": 1,\n'
                        b'    "saved_min_bytes": 3,\n}\n',
                        b'\nPLAN: dict[str, Any] = {\n    "name": "a", "path": "b", "blocks": 2, "parameters": 9, "min_bytes": 1,\n'
                        b'    "stash_bytes": 2, "prefetch_blocks": 1, "compile": {"left_bytes": 4, "hidden_bytes": 5}, "peak_bytes": 6,\n}\n'],
        "trace": [text[:1500] for text in read_all(DATA, "trials/*/trace.mttrace")] + [b"MTTRACE3", trace()],
        "plan": plans + [b'{"version":1,"strategy":"none","placements":[]}'],
        "plan_file": [dump(rules), *plans],
        "profile": [dump({"description": "d", "batch": 2, "sequence": 128, "config": transformers})],
        "transformers": [dump(transformers), dump(gemma3), dump(experts), dump(gpt2)],
        "adapter": [dump(adapter), dump(pattern)],
        "pt2": [model],
        "pt2_tensors": [weights],
        "pt2_archive": [archive(pt2, pt2)],
        "pt2_samples": [archive(samples, samples)],
        "pickle": [samples["data.pkl"]],
        "costs": [dump(costs), dump(large)],
        "facts": [dump(sweep["facts"]), dump(facts)],
        "sweep": [dump(sweep), dump({**sweep, "frontiers": frontiers}), dump({**sweep, "request": request}), dump(commands)],
        "report": [dump({"frontiers": frontiers, "version": "0", "model": "m", "device": "d", "trials": trials, "recommendation": advice})],
        "measurement": [dump(m) for m in [*measurements, of_ranks]],
        "journal": ["\n".join(map(json.dumps, [{"file": "memtune journal", "version": 1}, start,
                                               {"event": "end", "key": "k", "outcome": "ok"}])).encode(), b"!0123 x\n"],
        "safetensors": [dump(tensors)],
        "manifest": [dump(manifest), dump(sharded)],
        "strategy": [b"none", b"checkpoint:full,segment=2+offload:stream,fraction=0.5,min=1MiB", b"checkpoint:every=2",
                     b"checkpoint:cheap,keep=matmul",
                     b"checkpoint:titan-full+offload:trl", b"checkpoint:megatron-block,layers=2", b"offload:swift"],
        "words": [b"tokens:int64[4,4096]<32000", b"1.5GiB", b"0-3,7", b"layers.*.w?", b"-12", b"1e300", b"\xc2\x9b31m"],
        "frames": ["\n".join(map(json.dumps, frames)).encode(), *map(dump, frames)],
        "launch": [b"RANK=1\nWORLD_SIZE=2\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=a\nMASTER_PORT=29500\n"
                   b"TORCHELASTIC_USE_AGENT_STORE=True\nTORCHELASTIC_RUN_ID=none",
                   b"OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_SIZE=2\nPMIX_NAMESPACE=1",
                   b"PMI_RANK=5\nPMI_SIZE=6\nSLURM_JOB_ID=7\nSLURM_PROCID=5\nSLURM_STEP_NUM_TASKS=6\nSLURM_NODEID=1\n"
                   b"SLURM_STEP_TASKS_PER_NODE=2(x2),2\nSLURM_STEP_NODELIST=gpu[07-08,9]-a,b"],
        "request": [dump(sweep["request"]), dump(request)],
        "model_file": [archive(["data.pkl"]), archive(["data.pkl", "code/a.py", "constants.pkl"]), b"GGUF",
                       b'{"model_type": "x"}', b"\x08\0\0\0\0\0\0\0{}      "],
    }


def parsers_of(program):
    """Parsers of the program. It lists them if it gets an unknown name."""
    done = subprocess.run([program, "--parser=?"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return set(done.stdout.split())


def write_seeds(folder, texts):
    os.makedirs(folder, exist_ok=True)
    for i, text in enumerate(texts):
        with open(os.path.join(folder, f"seed-{i}"), "wb") as file:
            file.write(text)


def fuzz(program, parser, texts, corpus, runs, seconds):
    """Returns (executions, fault). LEAST executions have no time limit. More follow within `seconds`."""
    if not any(texts):
        return 0, "it has no seeds"
    folder = os.path.join(corpus, parser)
    write_seeds(folder, texts)
    least = max(1, min(runs, LEAST) if seconds else runs)
    start = time.monotonic()
    executions, problem = execute(program, parser, folder, least, 0, seed=1)
    if not problem and executions < least:
        problem = f"it ended after {executions} of at least {least} executions"
    left = int(seconds - (time.monotonic() - start))
    if not problem and left > 0 and executions < runs:
        more, problem = execute(program, parser, folder, runs - executions, left, seed=2)
        executions += more
    return executions, problem


def execute(program, parser, folder, runs, seconds, seed):
    """Returns (executions, fault) of one process, which executes the corpus first. seconds 0: no limit."""
    command = [program, f"--parser={parser}", folder, f"-runs={runs}", f"-max_total_time={seconds}", f"-seed={seed}",
               "-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-print_final_stats=1", f"-artifact_prefix={folder}/../{parser}-", "-verbosity=0"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    count = re.search(r"number_of_executed_units: *(\d+)", done.stdout)
    executions = int(count.group(1)) if count else 0
    if done.returncode == 0:
        return executions, ""
    end = f"it was killed by signal {-done.returncode}" if done.returncode < 0 else f"it ended with {done.returncode}"
    return executions, f"{end} after {executions} executions\n{done.stdout[-3000:]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--seconds", type=int, default=0, help="a parser has at most; 0: until its runs are over")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--corpus", default="fuzz-corpus")
    parser.add_argument("parsers", nargs="*")
    options = parser.parse_intermixed_args()
    texts = seeds()
    there = parsers_of(options.program)
    if there != set(texts):
        sys.exit(f"without seeds here: {sorted(there - set(texts))}; not in the program: {sorted(set(texts) - there)}")
    names = options.parsers or list(texts)
    if not there.issuperset(names):
        sys.exit(f"no parsers: {sorted(set(names) - there)}")
    failed, total = False, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = {name: pool.submit(fuzz, options.program, name, texts[name], options.corpus, options.runs,
                                  options.seconds) for name in names}
        for name, job in jobs.items():
            executions, problem = job.result()
            failed |= bool(problem)
            total += executions
            print(f"{name:12} {executions:12,} executions  {'FAULT' if problem else 'none'}", flush=True)
            if problem:
                print(problem)
    print(f"{'all':12} {total:12,} executions of {len(names)} parsers")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
