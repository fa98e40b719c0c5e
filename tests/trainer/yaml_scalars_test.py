"""Reads random scalars of a YAML config as PyYAML does.

    yaml_scalars_test.py PRINT_SPACE [SEED]

Known differences: a date is text in memtune, and "1e-5" and "-.5" may be numbers, which the trainers' classes make of
them too.
Exit code 77: there is no PyYAML.
"""
import datetime
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    sys.exit(77)

COUNT = 10000
WORDS = ["yes", "no", "on", "off", "true", "false", "null", "Yes", "NO", "tRue", "y", "n", "~", ".inf", "-.INF", ".nan", "inf",
         "0o17", "010", "0x1F", "0b101", "1_000", "1:30", "1:60:00", "2026-11-26", "1e5", "1.5e5", "1.5e+5", "-.5", "+.5"]


def scalar(draw):
    if draw.random() < 0.1:
        return draw.choice(WORDS)
    letters = draw.choice(["0123456789", "01_", "0123456789_.", "+-0123456789.eE", "0x123abcF_", "0b01_", "0:123456789", "ab01.-_/"])
    return draw.choice(["", "", "", "-", "+", "0", "0x", "0b", "."]) + "".join(
        draw.choice(letters) for _ in range(draw.randint(1, 7)))


def number_of(text):
    try:
        return float(text.replace("_", "")) if "e" in text.lower() or text.lstrip("+-").startswith(".") else None
    except ValueError:
        return None


def agrees(text, ours, theirs):
    if isinstance(theirs, (datetime.date, datetime.datetime)) or isinstance(theirs, float) and not math.isfinite(theirs):
        return ours == text
    if isinstance(theirs, str) and number_of(text) is not None:
        return ours == number_of(text) or ours == theirs
    return type(ours) is type(theirs) and ours == theirs


def main():
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    cases = []
    while len(cases) < COUNT:
        text = scalar(draw)
        try:
            value = yaml.safe_load(f"k: {text}\n")
        except (yaml.YAMLError, ValueError, OverflowError):
            continue
        if isinstance(value, dict) and set(value) == {"k"} and not isinstance(value["k"], (dict, list)):
            cases.append((text, value["k"]))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.yaml"
        path.write_text("".join(f"k{number}: {text}\n" for number, (text, _) in enumerate(cases)))
        ours = json.loads(subprocess.run([sys.argv[1], "transformers", str(path), "--values"], capture_output=True, text=True,
                                         check=True).stdout)
    wrong = [(text, ours[f"k{number}"], theirs) for number, (text, theirs) in enumerate(cases)
             if not agrees(text, ours[f"k{number}"], theirs)]
    for text, mine, theirs in wrong[:20]:
        print(f"{text!r} is {mine!r}, and {theirs!r} by PyYAML")
    kinds = {type(theirs).__name__ for _, theirs in cases}
    print(f"{len(cases)} scalars, of {', '.join(sorted(kinds))}: {len(wrong)} differ")
    assert {"bool", "float", "int", "str", "NoneType"} <= kinds
    return 1 if wrong else 0


sys.exit(main())
