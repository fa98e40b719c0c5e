"""Checks that classes stay small enough to draw, and that no constant is a copy of another one.

    python3 classes_test.py [unittest arguments]

A class has at most 14 data members and one source. Exceptions have a reason. Reads core, cli and gui. Data members are
the names that end in _. Structs are records and may have more fields. Needs only the standard library.
"""

import re
import unittest
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST = 14
# Both lists only shrink: an entry that is no longer needed fails.
MANY_MEMBERS = {
    "SavedActivationSimulator": "tables by value and by saved tensor, beside the simulated parts that they use",
    "StepSimulator": "the simulated parts of a step, and how far it was when it last logged",
    "OpAndSavedTensorCostRecorder": "tables from live tensors to numbers in the record, and how far the step is",
    "HostOpAndActivationTraceRecorder": "one buffer for each kind of record, and how far the step is",
    "BatchSearch": "what is searched, within which limits, and what was found so far",
    "SettingSearch": "what is searched, within which limits, and what was found so far",
    "RequestQueue": "a queue with its mutex, three conditions and two threads",
    "AsyncHostStateSnapshot": "what is copied, where to, and what has arrived, for two threads",
}
SEVERAL_SOURCES = {
    "SavedActivationSimulator": "recomputation is apart",
    "OpAndSavedTensorCostRecorder": "medians over steps are apart",
    "Planner": "reasons of a plan are apart",
}


def code(path: Path) -> str:
    text = re.sub(r'R"(\w*)\(.*?\)\1"', '""', path.read_text(), flags=re.DOTALL)
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def files(*suffixes: str):
    return sorted(path for folder in ("core", "cli", "gui") for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)


def scope(text: str, start: str) -> str:
    """What is in the braces that open at `start`, without inner ones."""
    depth, kept = 0, []
    for char in text[start:]:
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return "".join(kept)
        if depth == 1 and char not in "{}" or char == "{" and depth == 2:
            kept.append(char)
    raise ValueError("a brace is not closed")


def data_members(body: str):
    for statement in body.split(";"):
        names = re.findall(r"\b([a-z]\w*_)\b(?=\s*(?:=|$|\{|,|\[))", re.sub(r"\b(public|private|protected):", "", statement).strip())
        if names and "(" not in re.sub(r"<.*>", "", statement.split(names[0])[0]):
            yield from names


def classes():
    """(name, folder, data members) of each class."""
    for path in files(".h", ".cpp", ".cu", ".cuh"):
        text = code(path)
        for found in re.finditer(r"(?<!enum )\bclass\s+(\w+)(?:\s+final)?(?:\s*:[^;{]*)?\s*\{", text):
            yield found[1], path.parent, list(data_members(scope(text, found.end() - 1)))


class Classes(unittest.TestCase):
    def test_a_class_has_few_data_members_or_a_reason(self):
        counts = {name: len(members) for name, _, members in classes()}
        self.assertGreater(len(counts), 300)
        self.assertGreater(counts["ParameterGatherSimulator"], 9)  # members are found
        many = {name: count for name, count in counts.items() if count > MOST}
        self.assertEqual(sorted(many), sorted(MANY_MEMBERS), many)

    def test_a_class_has_one_source_or_a_reason(self):
        sources = defaultdict(set)
        for path in files(".cpp"):
            for name in re.findall(r"^[\w:<>,&*\s~\[\]]*?\b(\w+)::~?\w+\([^;]*?\{", code(path), re.MULTILINE):
                sources[name, path.parent].add(path.name)
        several = {name: sorted(sources[name, folder]) for name, folder, _ in classes() if len(sources[name, folder]) > 1}
        self.assertEqual(sorted(several), sorted(SEVERAL_SOURCES), several)

    def test_no_constant_says_that_it_must_equal_one_of_another_folder(self):
        copies = [f"{path.relative_to(ROOT)}: {line.strip()}" for path in files(".h", ".cpp", ".cu", ".cuh", ".in", ".py")
                  for line in path.read_text().splitlines()
                  if re.search(r"(constexpr|#define|^[A-Z_]+ =).*(//|#).*(must (equal|match)|same as|(core|cli|gui)/)", line)]
        self.assertEqual(copies, [], "share it in a header of the lower group")


if __name__ == "__main__":
    unittest.main()
