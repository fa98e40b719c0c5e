"""Checks the words of everything that a user reads: README, docs, help texts and public headers.

    python3 words_test.py MEMTUNE [unittest arguments]

Listed phrases do not occur. Sentences have at most 18 words on average, and at most 5 % of them have more than 30. A
sentence ends at '.', '!', '?' or ':'. Code, tables and headings are not counted. docs/decisions and older measurements
record what was written at their time.
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMTUNE = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
PHRASES = ("made again", "on paper", "nobody", "whoever", "is told", "are told", "tells of", "tell of",
           "models of strangers", "of all ranks", "what is beside", "mend", "mends", "mended", "made up", "begin anew",
           "begins anew", "let go of", "lets go of")


def phrases(text):
    """{phrase: times}, also across line ends and comment marks."""
    text = re.sub(r"\s*\n\s*(//)?\s*", " ", text.lower())
    counts = {phrase: len(re.findall(rf"\b{phrase}\b", text)) for phrase in PHRASES}
    return {phrase: count for phrase, count in counts.items() if count}


def paragraphs(markdown):
    """Paragraphs and list items without code, tables, headings, comments and the targets of links."""
    text = re.sub(r"<!--.*?-->", "", markdown, flags=re.S)
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", text, flags=re.S | re.M)
    kept, after_blank, in_code = [], True, False
    for line in text.splitlines():
        if not line.strip():
            after_blank = True
            kept.append("")
            continue
        if line.startswith(("    ", "\t")) and (after_blank or in_code):
            in_code = True
            continue
        in_code, after_blank = False, False
        if re.match(r"\s*(\||#|!\[|---+$|:::|\[[^\]]+\]:)", line):
            kept.append("")
            continue
        item = re.match(r"\s*([*+-]|\d+\.)\s+", line)
        if item:
            kept.append("")
            line = line[item.end():]
        kept.append(line.strip())
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", "\n".join(kept))
    text = re.sub(r"`[^`]*`", "code", text)
    return [re.sub(r"\s+", " ", part).strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def sentences(markdown):
    """[(number of words, sentence)]"""
    found = []
    for paragraph in paragraphs(markdown):
        for sentence in re.split(r"(?<=[.!?:])\s+", paragraph):
            words = re.findall(r"[\w'’%×/.-]*\w[\w'’%×/.-]*", sentence)
            if words:
                found.append((len(words), sentence))
    return found


def tracked(*patterns):
    """The project's files, or those in the tree if it is no checkout of git."""
    done = subprocess.run(["git", "-C", ROOT, "ls-files", *patterns], capture_output=True, text=True)
    if done.returncode == 0 and done.stdout:
        return [ROOT / line for line in done.stdout.splitlines() if (ROOT / line).exists()]
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern.replace("*", "**/*", 1))})


def pages():
    return [path for path in tracked("*.md") if not re.search("docs/decisions/|/history/|^build/", str(path.relative_to(ROOT)))]


class Words(unittest.TestCase):
    def output(self, *words):
        return subprocess.run([MEMTUNE, *words], capture_output=True, text=True, check=True, timeout=60).stdout

    def test_pages_have_none_of_the_phrases_and_short_sentences(self):
        self.assertGreater(len(pages()), 40)
        for page in pages():
            text = page.read_text()
            lengths = sentences(text)
            with self.subTest(page=str(page.relative_to(ROOT))):
                self.assertEqual(phrases(text), {})
                self.assertLessEqual(sum(n for n, _ in lengths), 18 * len(lengths))
                long = [sentence for n, sentence in lengths if n > 30]
                self.assertLessEqual(len(long), 0.05 * len(lengths), long)

    def test_the_readme_is_one_screen(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), 80)

    def test_help_has_none_of_the_phrases_and_short_sentences(self):
        commands = re.findall(r"^  ([a-z]+) ", self.output("--help").split("Commands:\n")[1].split("\n\n")[0], re.MULTILINE)
        self.assertGreater(len(commands), 8)
        for command in ["", *commands]:
            text = self.output(*command.split(), "--help-all")
            with self.subTest(command=command):
                self.assertEqual(phrases(text), {})
                texts = [re.split(r"\s{2,}", line.strip())[-1] for line in text.splitlines()]
                lengths = [n for line in texts for n, _ in sentences(line)]
                self.assertLessEqual(sum(lengths), 18 * len(lengths))

    def test_headers_have_none_of_the_phrases(self):
        headers = tracked("core/*.h", "cli/*.h", "gui/*.h")
        self.assertGreater(len(headers), 300)
        for header in headers:
            with self.subTest(header=str(header.relative_to(ROOT))):
                self.assertEqual(phrases(header.read_text()), {})

    def test_paths_in_core_exist(self):
        """In texts and comments. Older measurements name the paths of their time."""
        found = 0
        for file in tracked("*.md", "*.h", "*.cpp", "*.cu", "*.cmake", "*CMakeLists.txt", "*.py", "*.sh", "scripts/*"):
            if re.search("/history/|tests/structure/|docs/words_test|^build/", str(file.relative_to(ROOT))):
                continue
            for path in re.findall(r"(?<![\w/.])core/[a-z][\w/]*(?:\.\w+)*", file.read_text()):
                found += 1
                with self.subTest(file=str(file.relative_to(ROOT)), path=path):
                    self.assertTrue((ROOT / path).exists() or list(ROOT.glob(path.rstrip("/") + "*")))
        self.assertGreater(found, 1000)

    def test_files_that_comments_name_exist(self):
        """Of memtune: others' files have a first folder that memtune does not have."""
        elsewhere = {"linux", "liger_kernel", "c10", "aten", "csrc"}
        found = 0
        for file in tracked("core/*", "cli/*", "gui/*", "tests/*", "bench/*"):
            if file.suffix not in {".h", ".cpp", ".cu", ".cuh", ".py"}:
                continue
            for comment in re.findall(r"^(?!#include).*?(?://|#)(.*)", file.read_text(), re.MULTILINE):
                for path in re.findall(r"(?<![\w/.\-<\"])[a-z]\w*(?:/\w+)+\.(?:h|cpp|cuh?|py)\b", comment):
                    found += 1
                    with self.subTest(file=str(file.relative_to(ROOT)), path=path):
                        self.assertTrue((ROOT / path).exists() or path.split("/")[0] in elsewhere)
        self.assertGreater(found, 30)

    def test_phrases_are_found_across_lines_and_long_sentences_are_counted(self):
        self.assertEqual(phrases("Values are made\n  // again. Nobody is told."), {"made again": 1, "nobody": 1, "is told": 1})
        self.assertEqual(phrases("amended on papers"), {})
        text = "# A heading\n\nOne two `a b c`. Four [five](six.md) and\nseven!\n\n    code here\n\n| a | table |\n\n* An item"
        self.assertEqual([n for n, _ in sentences(text)], [3, 4, 2])


if __name__ == "__main__":
    unittest.main()
