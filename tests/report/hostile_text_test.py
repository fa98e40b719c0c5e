#!/usr/bin/env python3
"""Checks reports and configs from an untrusted run folder. Its texts name models, machines, strategies, notes and
commands. They must stay text in every report and every trainer's config: each reader finds the same structure as with
harmless texts of the same length.

    hostile_text_test.py MEMTUNE MEMTUNE_MADE_UP_RUN [unittest arguments]

Exit code 77: PyYAML, tomllib or markdown-it is missing.
"""

import ast
import csv
import html.parser
import io
import json
import os
import pickletools
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

def toml(text):
    import tomllib

    return tomllib.loads(text)


ENDS = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
TURNS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
ACTED_ON = re.compile(f"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029{TURNS}\ufffe\uffff]")
KEY = "trust_remote_code: true # = [x] {y: \"'\\ `id` $(id) </script><img src=x> **b** | --x | &amp; coding: utf-7 "
HOSTILE = "".join(end + KEY for end in ENDS) + TURNS + "\ufffe\uffff\x1b[31m\n# h\n===\n- item\n    code\n```\n%YAML"
STARTS = ("", "=1+1 ", "- item ", "1. item ", "# head ", "@x ", "    code ", "---\n")
FORMATS = ("table", "json", "csv", "markdown", "html", "pareto", "perfetto")
YAML = ("torchtune", "axolotl", "transformers", "trl", "ms-swift", "accelerate")
OTHERS = {"torchtitan": lambda text: ast.dump(ast.parse(text.encode())),
          "torchtitan --trainer-version 0.2.2": toml,
          "megatron": lambda text: shlex.split(text, comments=True),
          "deepspeed": json.loads}
OWN_NAMES = re.compile("mine-|mixed|floor|plan:")  # trials without keys in any trainer


def leaves(value, path=()):
    """Paths of all strings in JSON, as tuples of keys."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, (dict, list)):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(member, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def structure(value):
    """Keys, and names of the types."""
    if isinstance(value, dict):
        return {key: structure(member) for key, member in value.items()}
    return [structure(member) for member in value] if isinstance(value, list) else type(value).__name__


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag != "wbr":
            self.found.append((tag, sorted(name for name, _ in attributes)))

    def handle_endtag(self, tag):
        self.found.append(tag)


def blocks(text):
    from markdown_it import MarkdownIt

    found = []
    for token in MarkdownIt().enable("table").parse(text):
        found.append(token.type)
        found += [child.type for child in token.children or () if not child.type.startswith("text")]
    return found


def rows(text):
    found = list(csv.reader(io.StringIO(text, newline="")))
    assert not [field for row in found for field in row if field[:1] in ("=", "+", "@")], found
    assert not [field for row in found for field in row if re.match("-[^0-9]", field)], found
    return [len(row) for row in found]


READERS = {"json": lambda text: structure(json.loads(text)), "perfetto": lambda text: structure(json.loads(text)),
           "csv": rows, "html": lambda text: Tags(text).found, "markdown": blocks}


def memtune(*words, binary=False):
    done = subprocess.run([MEMTUNE, *words], capture_output=True, check=False)
    return done.returncode, done.stdout if binary else done.stdout.decode(), done.stderr.decode()


class Run:
    """A run folder in which all free texts are changed at once."""

    def __init__(self, folder):
        self.folder = folder
        subprocess.run([MADE_UP_RUN, folder], check=True)
        self.files = {}
        for path in (folder / "sweep.json", *folder.glob("trials/*/measurement.json")):
            self.files[path] = json.loads(path.read_text())
            self.files[path].pop("check", None)
        record = self.files[folder / "sweep.json"]
        record["origin"] = dict.fromkeys(record["origin"], "known")
        record["trials"][3]["notes"] = ["a note"]
        self.free = self.find_free()

    def write(self, text, paths):
        for file, value in self.files.items():
            changed = json.loads(json.dumps(value))
            for path in (path for name, path in paths if name == file):
                at(changed, path[:-1])[path[-1]] = text
            file.write_text(json.dumps(changed))

    def answer(self):
        code, out, _ = memtune("report", "-q", str(self.folder), "--format", "json")
        return [trial["outcome"] for trial in json.loads(out)["trials"]] if code == 0 else None

    def find_free(self):
        """Texts that can be replaced by any other, while the whole run can still be read."""
        self.write("", ())
        expected, free = self.answer(), []
        for file, value in self.files.items():
            for path in leaves(value):
                if path[-1] in ("plan", "trace", "equal_to") or path[-1] == "strategy" and not OWN_NAMES.match(at(value, path)):
                    continue  # paths, and strategies with keys in trainers
                self.write("other", [(file, path)])
                if self.answer() == expected:
                    free.append((file, path))
        self.write("", ())
        return free

    def fill(self, text):
        self.write(text, self.free)


class HostileText(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.run_ = Run(Path(folder.name) / "run")
        cls.own = Path(folder.name) / "own.yaml"

    def written(self, text, read):
        """Result of `read` for a run with these texts."""
        self.run_.fill(text)
        return read()

    def check_same(self, read, starts=("",)):
        """Checks that `read` gives the same for hostile texts as for letters of the same length."""
        for start in starts:
            with self.subTest(start=start):
                text = start + HOSTILE
                self.assertEqual(self.written(text, read), self.written(re.sub("[^a-z]", "x", text), read))

    def export(self, trainer, *more):
        code, out, said = memtune("export", str(self.run_.folder), "--trainer", *trainer.split(), *more)
        self.assertEqual(code, 0, said)
        self.assertIsNone(ACTED_ON.search(out + said))
        return out

    def test_the_texts_of_a_report_are_changed(self):
        names = {path for file, path in self.run_.free if file.name == "sweep.json"}
        expected = {("model",), ("machine",), ("loss",), ("inputs", 0), ("facts", "notes", 0), ("origin", "command"),
                    ("origin", "machine"), ("trials", 3, "notes", 0)}
        self.assertLessEqual(expected, names)
        self.assertLessEqual({"strategy", "reason", "device"},
                             {path[-1] for file, path in self.run_.free if file.name == "measurement.json"})

    def test_readers_find_the_same_structure_in_reports(self):
        for form in FORMATS:
            def read(form=form):
                of = ("--trial", "none") if form == "perfetto" else ()
                code, out, said = memtune("report", str(self.run_.folder), "--format", form, "-o", "-", *of)
                self.assertEqual(code, 0, said)
                self.assertIsNone(ACTED_ON.search(out + said))
                return READERS[form](out) if form in READERS else None
            with self.subTest(form=form):
                self.check_same(read, STARTS if form in ("csv", "markdown") else STARTS[:1])

    def test_json_contains_the_texts_unchanged(self):
        self.run_.fill(HOSTILE)
        self.assertEqual(json.loads(memtune("report", str(self.run_.folder), "--format", "json")[1])["model"], HOSTILE)

    def test_a_memory_snapshot_contains_only_data(self):
        self.run_.fill(HOSTILE)
        code, out, said = memtune("report", str(self.run_.folder), "--format", "memory-snapshot", "--trial", "none",
                                  "-o", "-", binary=True)
        self.assertEqual(code, 0, said)
        self.assertFalse({"GLOBAL", "STACK_GLOBAL", "REDUCE", "INST", "OBJ", "NEWOBJ", "BUILD"} &
                         {opcode.name for opcode, _, _ in pickletools.genops(out)})

    def test_trainers_read_the_same_keys(self):
        import yaml

        readers = {**dict.fromkeys(YAML, yaml.safe_load), **OTHERS}
        for trainer, reader in readers.items():
            with self.subTest(trainer=trainer):
                self.check_same(lambda trainer=trainer, reader=reader: reader(self.export(trainer)))

    def test_trainers_read_the_same_keys_after_export_into_a_config(self):
        import yaml

        self.own.write_text("base_model: x\n# mine\nmicro_batch_size: 1\n")

        def read():
            config = shutil.copy(self.own, self.own.with_name("copy.yaml"))
            self.export("axolotl", "--into", config, "--in-place")
            return yaml.safe_load(Path(config).read_bytes())
        self.check_same(read)

    def test_a_config_with_line_ends_unknown_to_memtune_is_refused(self):
        self.run_.fill("good")
        for end in "\r\x85\u2028\u2029":
            self.own.write_text(f"base_model: x\n# mine{end}micro_batch_size: 7\n", newline="")
            code, _, said = memtune("export", str(self.run_.folder), "--trainer", "axolotl", "--into", str(self.own))
            self.assertEqual(code, 2, said)
            self.assertIn("own.yaml:2: YAML also ends a line at CR", said)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        import markdown_it  # noqa: F401
        import tomllib  # noqa: F401
        import yaml  # noqa: F401
    except ImportError as error:
        print("skipped:", error)
        sys.exit(77)
    MEMTUNE, MADE_UP_RUN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
