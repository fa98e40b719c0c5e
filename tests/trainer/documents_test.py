"""Reads and edits random YAML and TOML as PyYAML and tomllib read it, and matches random patterns as re does.

    documents_test.py MEMTUNE_EDIT_DOCUMENTS [--count N] [--seed N] [--configs FOLDER]

An edit changes the setting that it is for and nothing else. With --configs, also reads and edits all files there. Known
differences: dates, infinity and NaN are text in memtune, "1e-5" is a number, and integers beyond 64 bits are rounded.
Exit code 77: there is no PyYAML or no tomllib.
"""
import argparse
import copy
import datetime
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import warnings

try:
    import tomllib

    import yaml
except ImportError:
    sys.exit(77)

WORDS = ["yes", "no", "on", "off", "true", "False", "null", "~", "", "y", "n", "010", "0x1F", "0b101", "1_000", "1:30", "08", "1e-5", "2.5",
         "-.5", "2026-11-26", "adamw_torch", "org/name", "a b", "a:b", "it's", "x#y", "-1", "${a.b}", ".inf", "a,b", "bf16", "-", "é ü"]
QUOTED = ["'x'", "'it''s'", '"a\\tb"', '"# no"', "''", '""', "'a: b'", '"1"', "'yes'", '"\\u00e9\\x41\\\\"', "'{}'", '"a\\\n   b"']
KEYS = ["aa", "bb", "optim", "use_reentrant", "lr", "my key", "x.y", "'qq'", '"d q"', "it's", "http://x", "22", "on", "model", "args", "k-1", "éé"]  # PyYAML 6.0.4 merges keys of one letter otherwise


class Yaml:
    """Writes a random YAML document. Some are not valid; PyYAML decides that."""

    def __init__(self, draw):
        self.draw = draw
        self.anchors = []  # name, whether it is a mapping
        self.comments = 0

    def chance(self, share):
        return self.draw.random() < share

    def comment(self, share=0.2):
        self.comments += 1
        return f"  # c{self.comments}: 'x" if self.chance(share) else ""

    def between(self, indent):
        """Comments and blank lines between members."""
        lines = []
        if self.chance(0.08):
            lines.append("")
        if self.chance(0.08):
            lines.append(" " * self.draw.choice([0, indent, indent + 3]) + self.comment(1).strip())
        return lines

    def plain(self, flow):
        word = self.draw.choice(WORDS)
        return "w" if flow and any(letter in word for letter in ",{}[]") or flow and word in ("", "-") else word

    def scalar(self, flow=False):
        if self.anchors and self.chance(0.12):
            return "*" + self.draw.choice(self.anchors)[0] + (" " if flow else "")
        text = self.draw.choice(QUOTED) if self.chance(0.3) else self.plain(flow)
        if self.chance(0.04):
            text = self.draw.choice(["!!str ", "!!float ", "! "]) + (text or "1")
        return self.anchor(False) + text

    def anchor(self, is_mapping):
        if not self.chance(0.1):
            return ""
        self.anchors.append((f"n{len(self.anchors)}", is_mapping))
        return f"&{self.anchors[-1][0]} "

    def flow(self, depth, indent):
        """A collection in brackets, at times over several lines."""
        wrap = self.chance(0.3)

        def gap():
            if wrap and self.chance(0.5):
                return self.comment(0.1) + "\n" + " " * self.draw.choice([0, indent, indent + 2, indent + 5])
            return " " * self.draw.randint(0, 1)

        def value():
            return self.flow(depth - 1, indent) if depth > 0 and self.chance(0.3) else self.scalar(flow=True)

        count = self.draw.randint(0, 3)
        comma = "," if count and self.chance(0.1) else ""
        if self.chance(0.5):
            items = [gap() + self.draw.choice(["aa", "bb", "'qq'", '"zz" ', "lr", "mm"]) + (":" + " " + value() if self.chance(0.93) else "")
                     for _ in range(count)]
            return "{" + ",".join(items) + comma + gap() + "}"
        return "[" + ",".join(gap() + (value() or "w") for _ in range(count)) + comma + gap() + "]"

    def block_text(self, indent):
        inner = indent + self.draw.randint(1, 4)
        lines = [" " * inner + self.draw.choice(["one", "two: x", "# three", "- y", "a  b", " d", "\td"]) if self.chance(0.8) else ""
                 for _ in range(self.draw.randint(1, 4))]
        lines[0] = " " * inner + "begin"
        if self.chance(0.3):
            lines.append(" " * (inner + 2) + "deeper")
        return self.draw.choice("|>") + self.draw.choice(["", "", "-", "+"]) + self.comment(0.1), lines

    def value(self, depth, indent):
        """(text on the line of the key, lines below)"""
        kind = self.draw.random()
        if depth > 0 and kind < 0.2:
            inner = indent + self.draw.randint(1, 4)
            comment, below = self.comment(0.15), self.mapping(depth - 1, inner)  # without aliases of the mapping itself
            return (self.anchor(True) + comment).rstrip(), below
        if depth > 0 and kind < 0.35:
            inner = self.draw.choice([0, 2, 3])
            below = self.items(depth - 1, indent + inner)
            # libfyaml refuses an empty item in a list that is not indented.
            return self.comment(0.1), [line + "~" if not inner and line.strip() == "-" else line for line in below]
        if kind < 0.55:
            flow = self.flow(depth, indent)
            return self.anchor(False) + flow + self.comment(), []
        if kind < 0.62:
            return self.block_text(indent)
        if kind < 0.67:
            return "one two", [" " * (indent + self.draw.randint(1, 3)) + "three" + self.comment(0.2)]
        if kind < 0.7:
            return "'one", ["", " " * (indent + 1) + "two # no'" + self.comment(0.2)]
        return self.scalar() + self.comment(), []

    def mapping(self, depth, indent):
        lines = []
        mappings = [name for name, is_mapping in self.anchors if is_mapping]
        if mappings and self.chance(0.5):
            merged = "*" + self.draw.choice(mappings)
            if self.chance(0.3):
                merged = f"[{merged}, *{self.draw.choice(mappings)} ]"
            lines.append(" " * indent + "<<: " + merged + self.comment())
        for key in self.draw.sample(KEYS, self.draw.randint(1, 5)):
            lines += self.between(indent)
            on_line, below = self.value(depth, indent)
            if self.chance(0.01):
                lines.append(" " * indent + "? " + key)
                key = ""
            lines.append(" " * indent + key + (" " if self.chance(0.1) and key else "") + (":" + " " + on_line if on_line else ":"))
            lines += below
        return lines

    def items(self, depth, indent):
        lines = []
        for _ in range(self.draw.randint(1, 3)):
            lines += self.between(indent)
            kind = self.draw.random()
            if depth > 0 and kind < 0.2:
                below = self.mapping(depth - 1, indent + 2)
            elif depth > 0 and kind < 0.35:
                below = self.items(depth - 1, indent + 2)
            else:
                on_line, below = self.value(0, indent)
                below = ["  " + " " * indent + on_line, *below]
            while below and (not below[0].strip() or below[0].strip().startswith("#")):
                below = below[1:]
            lines += [" " * indent + "- " + below[0][indent + 2:], *below[1:]] if below else [" " * indent + "-"]
        return lines

    def text(self):
        lines = []
        if self.chance(0.1):
            lines += ["%YAML 1.1", "---"]
        elif self.chance(0.15):
            lines.append(self.draw.choice(["---", "--- # start", "# first"]))
        if self.chance(0.1):
            lines.append("{a: 1, b: " + self.flow(2, 0) + ", c: " + self.scalar(flow=True) + " }")
        else:
            lines += self.mapping(3, self.draw.choice([0, 0, 0, 2]))
        if self.chance(0.1):
            lines.append("...")
        end = "\r\n" if self.chance(0.1) else "\n"
        text = "\n".join(lines).replace("\n", end) + (end if self.chance(0.9) else "")
        return "\ufeff" + text if self.chance(0.05) else text


class Toml:
    """Writes a random TOML document. Some are not valid; tomllib decides that."""

    SCALARS = ["1", "-17", "+0", "1_000", "0x1F", "0o17", "0b11", "1.5", "-2.5e-5", "1e5", "inf", "true", "false", '"a # b"', "'x'", '"\\u00e9\\t\\\\"',
               "''", "'''a\nb = 1'''", '"""\n[no]\nk = 1\n"""', '"""a\\\n   b"""', '"""""x"""""', "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00", '"é"']
    KEYS = ["a", "b", "c", "mode", "steps", "k-1", "lr_2", '"q k"', "'l'", "1", "é".encode("unicode_escape").decode().replace("\\", "u"), '"é.x"']

    def __init__(self, draw):
        self.draw = draw

    def chance(self, share):
        return self.draw.random() < share

    def value(self, depth=2):
        if depth and self.chance(0.15):
            gap = self.draw.choice(["", " ", "\n  ", " # c\n"])
            return "[" + ",".join(gap + self.value(depth - 1) for _ in range(self.draw.randint(0, 3))) + gap + "]"
        if depth and self.chance(0.15):
            keys = self.draw.sample(self.KEYS, self.draw.randint(0, 3))
            return "{" + ", ".join(self.key(key) + " = " + self.value(depth - 1) for key in keys) + self.draw.choice(["", " "]) + "}"
        return self.draw.choice(self.SCALARS)

    def key(self, key):
        while self.chance(0.1):
            key += self.draw.choice([".", " . "]) + self.draw.choice(self.KEYS)
        return key

    def settings(self, indent):
        lines = []
        for key in self.draw.sample(self.KEYS, self.draw.randint(0, 4)):
            if self.chance(0.1):
                lines.append(self.draw.choice(["", "# c ]", "  # d = 1"]))
            lines.append(indent + self.key(key) + self.draw.choice([" = ", "=", "  =  "]) + self.value() + self.draw.choice(["", "", "  # why"]))
        return lines

    def text(self):
        lines = self.settings("")
        for _ in range(self.draw.randint(0, 4)):
            name = self.draw.choice([".", " . "]).join(self.draw.sample(["t", "u", "job", '"v w"'], self.draw.randint(1, 3)))
            many = self.chance(0.2)
            lines += ["", ("[[" if many else "[") + name + ("]]" if many else "]") + self.draw.choice(["", " # table"])]
            lines += self.settings(self.draw.choice(["", "  "]))
        text = "\n".join(lines) + ("\n" if self.chance(0.9) else "")
        return text.replace("\n", "\r\n") if self.chance(0.1) else text


class Pattern:
    """Writes a random regular expression, and texts that it may match. Some are not valid; re decides that."""

    ATOMS = ["a", "b", "q", ".", r"\.", r"\d", r"\w", r"\D", r"\s", "[ab]", "[^a.]", "[]a]", "[[:alpha:]]", r"[\w-]", "[a-q0-9]", "é", "[é-ê]", r"\x61",
             r"\u0062", r"\141", r"\b", "^", "$", r"\Z", r"\A", r"\-", r"\_", "0", "1", "-", "_", r"\1", r"\2", "(?P=n)", "]", "}", "{", r"\v", "B"]
    ODD = [r"\h", r"\K", r"\Q", "(?R)", "(?i)", "(", ")", "[", "*", "(?#x)", r"\N", r"\8", r"\z", "(*F)", "a++", "{,}"]

    def __init__(self, draw):
        self.draw = draw

    def chance(self, share):
        return self.draw.random() < share

    def group(self, depth):
        begin = self.draw.choice(["(", "(", "(?:", "(?:", "(?P<n>", "(?P<m>", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:", "(?(1)"])
        return begin + self.text(depth - 1) + ")"

    def text(self, depth=3):
        parts = []
        for _ in range(self.draw.randint(1, 3)):
            part = self.group(depth) if depth and self.chance(0.3) else self.draw.choice(self.ATOMS)
            if self.chance(0.3) and not part.startswith(("(?=", "(?!", "(?<")):  # which PCRE2 does not repeat in a look-behind
                part += self.draw.choice(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}", "{1,}", "{,2}?", "++"])
            parts.append(part if self.chance(0.99) else self.draw.choice(self.ODD))
        text = "".join(parts)
        return text + "|" + self.text(depth - 1) if depth and self.chance(0.15) else text

    def subject(self):
        return "".join(self.draw.choice("aabbq.01-_éBA]{}\n") for _ in range(self.draw.randint(0, 4)))


def load_yaml(text):
    return yaml.safe_load(text) or {}


def number_of(text):
    try:
        return float(text.replace("_", "")) if "e" in text.lower() or text.lstrip("+-").startswith(".") else None
    except ValueError:
        return None


def as_json(value):
    """The value as memtune reads it; keys as json.dumps() writes them; a set has keys without values."""
    if isinstance(value, set):
        value = dict.fromkeys(value)
    if isinstance(value, dict):
        if any(not isinstance(key, (str, int, float, bool, type(None))) for key in value):
            raise ValueError("a key that is no scalar")
        return {key if isinstance(key, str) else json.dumps(key): as_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(one) for one in value]
    return value


def agrees(ours, theirs):
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return set(ours) == set(theirs) and all(agrees(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(agrees, ours, theirs))
    if isinstance(theirs, (datetime.date, datetime.time)) or isinstance(theirs, float) and not math.isfinite(theirs):
        return isinstance(ours, str)
    if isinstance(theirs, str) and not isinstance(ours, str):
        return ours == number_of(theirs)
    if isinstance(theirs, int) and abs(theirs) >= 1 << 63:
        return ours == float(theirs)
    return type(ours) is type(theirs) and ours == theirs


def load(form, text):
    """None if Python cannot read it as a mapping."""
    try:
        value = tomllib.loads(text.lstrip("\ufeff")) if form == "toml" else json.loads(text) if form == "json" else load_yaml(text)
        return as_json(value) if isinstance(value, dict) else None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError, TypeError, AttributeError, IndexError):
        return None


def answers(program, questions):
    done = subprocess.run([program], input="".join(json.dumps(question) + "\n" for question in questions), capture_output=True, text=True,
                          check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def random_value(draw, form):
    values = [7, -1, 2.5, True, "word", "two words # x", "1", "", ["a", 1], [], "it's", "é", "a\nb\tc"]
    return draw.choice(values + ([None, {"k": 1, "m": {"n": "x"}}, {}] if form != "toml" else []))


def random_edit(draw, form, value):
    """A question without its text: a setting in `value`, or a new one, and what becomes of it."""
    path, at = [], value
    while True:
        keys = [key for key in at if key]
        if not keys or draw.random() < 0.3:
            path.append(draw.choice(["new", "new key", "n.1", "gradient_checkpointing"]))
        else:
            path.append(draw.choice(keys))
            if isinstance(at[path[-1]], dict) and draw.random() < 0.8:
                at = at[path[-1]]
                continue
        break
    if draw.random() < 0.1:
        path.append("inner")
    return {"form": form, "path": path} | ({} if draw.random() < 0.25 else {"value": random_value(draw, form)})


def expected(value, edit):
    """The settings after the edit; None if it is none of a mapping."""
    value = copy.deepcopy(value)
    at = value
    for key in edit["path"][:-1]:
        if "value" not in edit and (at is None or isinstance(at, dict) and key not in at):
            return value
        if not isinstance(at, dict):
            return None
        if at.get(key) is None:
            if "value" not in edit:
                return value
            at[key] = {}
        at = at[key]
    if not isinstance(at, dict):
        return None
    if "value" in edit:
        at[edit["path"][-1]] = edit["value"]
    else:
        at.pop(edit["path"][-1], None)
    return value


def same_begin(one, other):
    return len(os.path.commonprefix([one, other]))


def keeps_text(old, new):
    """Whether the new text is the old one with a piece put in."""
    return same_begin(old, new) + same_begin(old[::-1], new[::-1]) >= len(old)


class Comparison:
    def __init__(self, program, draw):
        self.program, self.draw = program, draw
        self.faults = 0

    def fault(self, what, text):
        self.faults += 1
        if self.faults <= 10:
            print(f"{what}\n----\n{text}\n----")

    def read(self, form, texts):
        """Returns the texts that Python reads, with their values."""
        known = [(text, value) for text in texts if (value := load(form, text)) is not None]
        for (text, theirs), answer in zip(known, answers(self.program, [{"form": form, "text": text} for text, _ in known])):
            if "merges different values" in answer.get("error", ""):
                continue  # of which releases of PyYAML choose different ones
            if "error" in answer:
                self.fault(f"refused: {answer['error']}", text)
            elif not agrees(answer["value"], theirs):
                self.fault(f"reads {answer['value']}\ninstead of {theirs}", text)
        print(f"{form}: {len(known)} documents of {len(texts)} are valid")
        return known

    def edit(self, form, known):
        """At most a tenth of the edits that can be made is refused."""
        edits = [random_edit(self.draw, form, value) for _, value in known]
        done = refused = 0
        for (text, value), edit, answer in zip(
                known, edits, answers(self.program, [edit | {"text": text} for (text, _), edit in zip(known, edits)])):
            wanted = expected(value, edit)
            shown = f"{edit['path']} = {edit.get('value', 'removed')!r}"
            if "error" in answer:
                refused += wanted is not None and not is_table(form, value, edit["path"])
                continue
            done += 1
            read = load(form, answer["text"])
            if wanted is None or read is None or not agrees(as_read(read), as_read(wanted)):
                self.fault(f"{shown} gives {read}\ninstead of {wanted}\n{answer['text']}", text)
            elif "value" in edit and is_new(value, edit["path"]) and not keeps_text(text, answer["text"]):
                self.fault(f"{shown} changes other text\n{answer['text']}", text)
        print(f"{form}: {done} edits, {refused} more refused")
        if refused > 0.1 * done:
            self.fault(f"{refused} edits of {form} are refused", "")


    def match(self, count):
        """Patterns of Python match the same texts. PCRE2 may take some that Python refuses."""
        writer = Pattern(self.draw)
        questions, theirs = [], []
        while len(questions) < count:
            text = self.draw.choice(["", "", "", "(?i)", "(?s)", "(?m)(?i)", "(?u)"]) + writer.text()
            subjects = [writer.subject() for _ in range(8)]
            try:
                results = [re.fullmatch(text, subject) is not None for subject in subjects]
            except (re.error, OverflowError):
                results = [None]
            questions += [{"form": "pattern", "text": text, "subject": subject} for subject in subjects[:len(results)]]
            theirs += results
        taken = 0
        for question, answer, result in zip(questions, answers(self.program, questions), theirs):
            if result is None:
                taken += "error" not in answer
            elif answer.get("value") is not result and "lookbehind assertion" not in answer.get("error", ""):  # repeats of nothing in it
                self.fault(f"{answer} instead of {result} for {question['subject']!r}", question["text"])
        invalid = theirs.count(None)
        print(f"patterns: {len(theirs) - invalid} matches, {theirs.count(True)} of them true; of {invalid} invalid ones {taken} are taken")


def as_read(value):
    """Comparable with agrees(): values of Python's own types as memtune's."""
    if isinstance(value, dict):
        return {key: as_read(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_read(one) for one in value]
    return str(value) if isinstance(value, (datetime.date, datetime.time)) or isinstance(value, float) and not math.isfinite(value) else value


def is_table(form, value, path):
    """Whether the setting is a table, or list of tables, which memtune does not replace, or an inline table."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return form == "toml" and (isinstance(value, dict) or isinstance(value, list) and any(isinstance(one, dict) for one in value))


def is_new(value, path):
    """Whether the last key alone is new in a mapping that has keys."""
    for key in path[:-1]:
        value = value.get(key) if isinstance(value, dict) else None
    return isinstance(value, dict) and bool(value) and path[-1] not in value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--configs", type=pathlib.Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)  # of re, for "[[": a later Python may read sets in sets
    draw = random.Random(options.seed)
    comparison = Comparison(options.program, draw)
    for form, writer in ("yaml", Yaml), ("toml", Toml):
        known, tried = [], 0
        while len(known) < options.count:
            texts = [writer(draw).text() for _ in range(options.count)]
            tried += 1
            known += comparison.read(form, texts)
            assert tried < 10, f"few documents of {form} are valid"
        comparison.edit(form, known)
    comparison.match(10 * options.count)
    if options.configs:
        paths = [path for path in sorted(options.configs.rglob("*")) if path.suffix in (".yaml", ".yml", ".json", ".toml")]
        for form in "yaml", "json", "toml":
            texts = [path.read_bytes().decode() for path in paths if path.suffix.lstrip(".").replace("yml", "yaml") == form]
            if not texts:
                continue
            known = comparison.read("yaml" if form == "json" else form, texts)
            known = [(text, value) for text, value in known if load(form, text) is not None]
            for _ in range(5):
                comparison.edit(form, known)
    return 1 if comparison.faults else 0


if __name__ == "__main__":
    sys.exit(main())
