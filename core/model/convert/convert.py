"""Writes a model of Hugging Face transformers with the loss of its task as a program of torch.export.

`memtune convert` runs it in the user's Python. Prints what the program holds, and the command that measures it.
"""

import argparse
import contextlib
import importlib.util
import inspect
import os
import sys
import warnings

TASKS = {  # class of transformers by --task
    "causal-lm": "AutoModelForCausalLM", "masked-lm": "AutoModelForMaskedLM", "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering", "image-classification": "AutoModelForImageClassification",
    "image-text-to-text": "AutoModelForImageTextToText", "audio-classification": "AutoModelForAudioClassification",
    "speech-seq2seq": "AutoModelForSpeechSeq2Seq", "reward": "AutoModelForSequenceClassification",
    "embedding": "",  # of sentence-transformers
}
CLASSES = ("ForSequenceClassification", "ForImageClassification", "ForAudioClassification")  # one label a row
TOKENS = ("ForMaskedLM", "ForConditionalGeneration", "ForSeq2SeqLM", "ForImageTextToText")  # a token a position
CAUSAL = ("ForCausalLM", "LMHeadModel", "HeadModel")
DROPPED = ("layerdrop", "encoder_layerdrop", "decoder_layerdrop")  # shares of layers that a step leaves out


class Refusal(Exception):
    """A text for the user."""


def class_of(config, task: str):
    """The class of the model: of --task, or the first of the config's `architectures`."""
    import transformers
    if task:
        return getattr(transformers, TASKS[task])
    for name in config.architectures or ():
        if hasattr(transformers, name):
            return getattr(transformers, name)
        if name.endswith("ForCausalLM"):  # of a model that brings its own code
            return transformers.AutoModelForCausalLM
    raise Refusal(f"its config.json names no class of transformers {transformers.__version__} in `architectures` "
                  f"({config.architectures}): say what it is trained for by --task: {', '.join(TASKS)}")


def settings_of(config):
    """The config and those inside it."""
    inner = [value for value in vars(config).values() if hasattr(value, "to_dict") and hasattr(value, "model_type")]
    return [config, *inner]


def prepare(config, notes):
    """Leaves out what a program cannot hold: caches of generation, layers dropped at random."""
    for part in settings_of(config):
        part.use_cache = False
        for name in DROPPED:
            if getattr(part, name, 0):
                notes.append(f"{name}={getattr(part, name)} is left out: every layer runs in every step")
                setattr(part, name, 0.0)
        if getattr(part, "apply_spec_augment", False):
            notes.append("apply_spec_augment is left out: no part of the sound is masked")
            part.apply_spec_augment = False
        if getattr(part, "output_router_logits", False):
            notes.append("output_router_logits is left out: the router's auxiliary loss is not measured")
            part.output_router_logits = False


def has_weights(folder: str) -> bool:
    files = os.listdir(folder) if os.path.isdir(folder) else []
    return any(name.endswith((".safetensors", ".bin")) for name in files)


def load(options, notes):
    import torch
    import transformers
    config = transformers.AutoConfig.from_pretrained(options.model, trust_remote_code=options.trust_remote_code)
    if getattr(config, "quantization_config", None):
        raise Refusal("its weights are quantized, which torch.export does not write; give --model the folder")
    prepare(config, notes)
    if options.task == "reward":
        config.num_labels = 1
    kind = class_of(config, options.task)
    dtype = getattr(torch, options.dtype) if options.dtype else (getattr(config, "dtype", None) or torch.float32)
    more = {"attn_implementation": options.attention} if options.attention else {}
    torch.manual_seed(0)
    if has_weights(options.model) or not os.path.exists(options.model):
        model = kind.from_pretrained(options.model, config=config, dtype=dtype,
                                     trust_remote_code=options.trust_remote_code, **more)
    else:
        notes.append("the folder has no weights: they are drawn at random, which changes neither memory nor time")
        build = kind.from_config if hasattr(kind, "from_config") else kind._from_config
        model = build(config, dtype=dtype, **more)
    choose_experts(model, notes)
    return model.train()


def load_sentences(options):
    """The modules of sentence-transformers: the transformer, its pooling, and what follows."""
    import sentence_transformers
    import torch

    class Embedder(torch.nn.Sequential):
        def forward(self, input_ids, attention_mask=None):
            features = {"input_ids": input_ids}
            if attention_mask is not None:
                features["attention_mask"] = attention_mask
            for module in self:
                features = module(features)
            return {"sentence_embedding": features["sentence_embedding"]}

    settings = {"dtype": getattr(torch, options.dtype)} if options.dtype else {}
    if options.attention:
        settings["attn_implementation"] = options.attention
    model = sentence_transformers.SentenceTransformer(options.model, device="cpu", model_kwargs=settings,
                                                      trust_remote_code=options.trust_remote_code)
    config = model[0].auto_model.config
    model = Embedder(*model)
    model.config, model.dtype, model.main_input_name = config, next(model.parameters()).dtype, "input_ids"
    return model.train()


def choose_experts(model, notes):
    """Experts' usual kernel exports in bfloat16 alone."""
    import torch
    if model.dtype == torch.bfloat16 or not any(name.endswith("experts") for name, _ in model.named_modules()):
        return
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("batched_mm")
        notes.append(f"experts are computed by batched_mm, as grouped_mm does not export in {model.dtype}; --dtype bfloat16 "
                     "keeps it")


def size_of_images(config):
    """(channels, height, width)"""
    for part in (config, getattr(config, "vision_config", None)):
        size = getattr(part, "image_size", None)
        if size:
            high, wide = size if isinstance(size, (list, tuple)) else (size, size)
            return getattr(part, "num_channels", 3), high, wide
    return getattr(config, "num_channels", 3), 224, 224


class Sample:
    """Inputs of forward with the labels of the task, and the dimensions that may change."""

    def __init__(self, model, options, notes):
        self.model, self.config, self.batch, self.notes = model, model.config, options.batch, notes
        self.task, self.padded, length = options.task, options.padding, options.seq
        self.arguments = inspect.signature(model.forward).parameters
        self.name = type(model).__name__
        self.text = self.config.get_text_config()
        longest = getattr(self.text, "max_position_embeddings", None) or getattr(self.text, "max_target_positions", None)
        self.length = min(length, longest - 2) if longest else length  # RoBERTa's positions start at 2
        self.inputs, self.sizes = {}, {}
        self.add_data()
        self.add_labels()

    def add(self, name: str, tensor, sizes):
        self.inputs[name], self.sizes[name] = tensor, sizes

    def integers(self, below: int, *shape):
        import torch
        return torch.randint(min(4, below - 1), below, (self.batch, *shape))

    def add_data(self):
        import torch
        main = self.model.main_input_name
        dtype = self.model.dtype
        if main == "input_features":  # a spectrogram: Whisper's has twice as many frames as positions
            bins = getattr(self.config, "num_mel_bins", 80)
            frames = 2 * getattr(self.config, "max_source_positions", 1500)
            self.add(main, torch.randn(self.batch, bins, frames).to(dtype), (0,))
        elif main == "input_values":
            self.add(main, torch.randn(self.batch, 16000).to(dtype), (0,))
        elif main == "pixel_values":
            self.add(main, torch.randn(self.batch, *size_of_images(self.config)).to(dtype), (0,))
        else:
            self.add_tokens()
        if self.contrasts() and "pixel_values" in self.arguments and main != "pixel_values":
            self.add("pixel_values", torch.randn(self.batch, *size_of_images(self.config)).to(dtype), ())
        elif "pixel_values" in self.arguments and main != "pixel_values":
            self.notes.append("images are not measured: the inputs are text")

    def add_tokens(self):
        import torch
        special = [getattr(self.config, name) for name in vars(self.config) if name.endswith("_token_id")
                   or name.endswith("_token_index")]
        below = min([self.text.vocab_size, *(number for number in special
                                             if isinstance(number, int) and number > self.text.vocab_size // 2)])
        self.add("input_ids", self.integers(below, self.length), () if self.contrasts() else (0, 1))
        if not self.contrasts() and getattr(self.text, "pad_token_id", None) is None:
            self.text.pad_token_id = self.config.pad_token_id = 0  # the classes of decoders look for the row's end
        if self.padded:
            mask = torch.ones_like(self.inputs["input_ids"])
            mask[1::2, self.length // 2:] = 0
            self.add("attention_mask", mask, self.sizes["input_ids"])

    def contrasts(self) -> bool:
        return "return_loss" in self.arguments

    def add_labels(self):
        import torch
        if self.task in ("reward", "embedding"):
            return
        if self.contrasts():
            self.notes.append(f"the loss compares all rows of a batch: the batch is fixed at {self.batch}")
            self.inputs["return_loss"], self.sizes["return_loss"] = True, ()
        elif self.name.endswith(CLASSES):
            if self.config.num_labels == 1:
                self.add("labels", torch.randn(self.batch).to(self.model.dtype), (0,))
                self.notes.append("num_labels is 1: the loss is the regression's")
            else:
                self.config.problem_type = self.config.problem_type or "single_label_classification"
                self.add("labels", torch.randint(0, self.config.num_labels, (self.batch,)), (0,))
        elif self.name.endswith("ForTokenClassification"):
            self.add("labels", torch.randint(0, self.config.num_labels, (self.batch, self.length)), (0, 1))
        elif self.name.endswith("ForQuestionAnswering"):
            for name in ("start_positions", "end_positions"):
                self.add(name, torch.randint(0, self.length, (self.batch,)), (0,))
        elif self.name.endswith("ForCTC"):
            self.add("labels", self.integers(self.config.vocab_size, 8), (0,))
        elif self.name.endswith(TOKENS):
            self.add("labels", self.integers(self.text.vocab_size, self.length), (0, 1))
        elif not self.name.endswith(CAUSAL):
            raise Refusal(f"{self.name} has no loss of its own; say what it is trained for by --task: {', '.join(TASKS)}")

    def loss(self) -> str:
        """The name of the loss, for memtune. It computes that of tokens itself, so that it may choose how."""
        if self.task in ("reward", "embedding"):
            return self.task
        own = "labels" in self.inputs or "start_positions" in self.inputs or self.contrasts()
        return "returned" if own else "causal_lm"


MASKS = ("_ignore_causal_mask_sdpa", "_ignore_bidirectional_mask_sdpa")  # whether training needs no mask
RECORDS = ("is_tracing", "is_torchdynamo_exporting")  # whether a program is recorded; newer releases ask both
PACKED = "find_packed_sequence_indices"  # asks the positions whether a row holds several texts


@contextlib.contextmanager
def as_in_training():
    """Leaves out masks where training leaves them out, and draws no number to choose layers."""
    import torch
    from transformers import masking_utils
    rand = torch.rand
    saved = {name: getattr(masking_utils, name) for name in (*MASKS, *RECORDS, PACKED) if hasattr(masking_utils, name)}
    asked = [name for name in RECORDS if name in saved]

    def untraced(decide):
        def answer(padding_mask, *sizes, **more):
            for name in asked:
                setattr(masking_utils, name, lambda *tensors: padding_mask is not None)
            try:
                return decide(padding_mask, *sizes, **more)
            finally:
                for name in asked:
                    setattr(masking_utils, name, saved[name])
        return answer

    torch.rand = lambda *size, **more: 1.0 if size == ([],) and not more else rand(*size, **more)
    for name in MASKS:
        if asked and name in saved:
            setattr(masking_utils, name, untraced(saved[name]))
    if PACKED in saved:
        setattr(masking_utils, PACKED, lambda position_ids: None)
    try:
        yield
    finally:
        torch.rand = rand
        for name, value in saved.items():
            setattr(masking_utils, name, value)


def export(model, sample, notes):
    """The program, with as many free dimensions as the model allows."""
    import torch
    free = torch.export.Dim.DYNAMIC
    first = None
    for dimensions, said in (((0, 1), ""), ((0,), "the length is fixed at that of the sample, by --seq of convert"),
                             ((), "batch and length are fixed at those of the sample, by --batch and --seq of convert")):
        shapes = {name: {size: free for size in sizes if size in dimensions} or None
                  for name, sizes in sample.sizes.items()}
        try:
            with as_in_training():
                program = torch.export.export(model, (), dict(sample.inputs), dynamic_shapes=shapes)
        except Exception as error:  # of any kind, from the model or torch
            first = first or error
            continue
        if said and any(size not in dimensions for sizes in sample.sizes.values() for size in sizes):
            notes.append(said)
        return program
    raise Refusal(f"torch.export: {type(first).__name__}: {' '.join(str(first).split())[:600]}")


def write(options) -> None:
    import torch
    notes = []
    model = load_sentences(options) if options.task == "embedding" else load(options, notes)
    sample = Sample(model, options, notes)
    program = export(model, sample, notes)
    torch.export.save(program, options.output)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in sample.inputs.items() if torch.is_tensor(value))
    print(f"{options.output}: {type(model).__name__}, {parameters / 1e6:.1f} M parameters, {model.dtype}; sample {shapes}")
    for note in notes:
        print(f"note: {note}")
    print(f"next: memtune sweep --model {options.output} --loss {sample.loss()}")


def main() -> int:
    p = argparse.ArgumentParser(prog="memtune convert")
    p.add_argument("model")
    p.add_argument("--output", required=True)
    p.add_argument("--task", default="")
    p.add_argument("--batch", type=int, default=2)
    p.add_argument("--seq", type=int, default=128)
    p.add_argument("--dtype", default="")
    p.add_argument("--attention", default="")
    p.add_argument("--padding", action="store_true")
    p.add_argument("--trust-remote-code", action="store_true")
    options = p.parse_args()
    warnings.filterwarnings("ignore")
    needed = ["torch", "transformers"] + ["sentence_transformers"] * (options.task == "embedding")
    missing = [name for name in needed if not importlib.util.find_spec(name)]
    if missing:
        print(f"memtune convert: {sys.executable} has no {' and no '.join(missing)}; name the Python that trains by "
              "--python", file=sys.stderr)
        return 2
    try:
        write(options)
    except Refusal as refusal:
        print(f"memtune convert: {options.model}: {refusal}", file=sys.stderr)
        return 2
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, AttributeError, TypeError) as error:
        print(f"memtune convert: {options.model}: {type(error).__name__}: {' '.join(str(error).split())[:600]}",
              file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
