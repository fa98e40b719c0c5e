#!/usr/bin/env python3
"""Opens the page of `memtune report --html --interactive`: it has the run's files, is small, and draws in a browser.

    interactive_page_test.py MEMTUNE MEMTUNE_MADE_UP_RUN

Exit code 77: nothing failed, but the viewer for browsers or a browser is missing.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from chromium import Chromium, find_chromium  # noqa: E402  pylint: disable=wrong-import-position

MAX_PAGE_BYTES = 8_000_000
FIRST_FRAME_S = 60  # of a busy machine; a quiet one takes less than a second


def report(folder, *arguments, program=None):
    return subprocess.run([program or MEMTUNE, "report", *arguments], cwd=folder, capture_output=True, text=True,
                          check=False)


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        subprocess.run([MADE_UP_RUN, "memtune-run"], cwd=cls.folder, check=True)


class Flags(RunTest):
    def test_the_flag_goes_with_html(self):
        for arguments in (["--interactive"], ["--interactive", "--format", "csv"]):
            ended = report(self.folder, *arguments)
            self.assertEqual(ended.returncode, 2)
            self.assertIn("--interactive goes with --html", ended.stderr)

    def test_without_the_viewer_one_line_says_how_to_build_it(self):
        (self.folder / "bin").mkdir()
        shutil.copy(MEMTUNE, self.folder / "bin/memtune")
        ended = report(self.folder, "--html", "--interactive", program=self.folder / "bin/memtune")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("scripts/web builds it", ended.stderr)
        self.assertEqual(len(ended.stderr.splitlines()), 1)
        self.assertFalse((self.folder / "memtune-run/view.html").exists())


class PageTest(RunTest):
    @classmethod
    def setUpClass(cls):
        if not (Path(MEMTUNE).parent / "memtune-view.html").exists():
            raise unittest.SkipTest("the viewer for browsers is not built: scripts/web builds it")
        super().setUpClass()
        ended = report(cls.folder, "--html", "--interactive")
        assert ended.returncode == 0, ended.stderr
        cls.page = cls.folder / "memtune-run/view.html"


class Content(PageTest):
    def files(self):
        text = re.search(r'id="run">([^<]*)</script>', self.page.read_text(encoding="utf-8"))[1]
        index, content = zlib.decompress(base64.b64decode(text, validate=True)).split(b"\n", 1)
        files = {}
        for path, size in json.loads(index):
            files[path], content = content[:size], content[size:]
        self.assertEqual(content, b"")
        return files

    def test_the_page_has_the_files_of_the_run(self):
        files = self.files()
        run = self.folder / "memtune-run"
        self.assertIn("run/memtune-run/sweep.json", files)
        traces = {f"run/memtune-run/{path.relative_to(run)}" for path in run.glob("trials/*/trace.mttrace")}
        self.assertTrue(traces)
        self.assertLessEqual(traces, set(files))
        for path, content in files.items():
            self.assertEqual(content, (self.folder / path.removeprefix("run/")).read_bytes(), path)

    def test_the_page_is_small_and_fetches_nothing(self):
        self.assertLess(self.page.stat().st_size, MAX_PAGE_BYTES)
        text = self.page.read_text(encoding="utf-8")
        self.assertIn("default-src 'none'", text)
        text, licences = re.subn(r'(<script type="text/plain" id="licences">).*?(?=</script>)', r"\1", text, flags=re.S)
        self.assertEqual(licences, 1)
        self.assertNotRegex(re.sub(r">[A-Za-z0-9+/=]{100,}<", "><", text), r"https?://|src=|href=")

    def test_the_page_with_no_script_beyond_its_table_stays_small(self):
        self.assertEqual(report(self.folder, "--html", "page.html").returncode, 0)
        self.assertNotIn("WebAssembly", (self.folder / "page.html").read_text(encoding="utf-8"))
        self.assertLess((self.folder / "page.html").stat().st_size, 1_000_000)

    def test_a_link_in_the_run_is_left_out(self):
        run = self.folder / "with-link"
        shutil.copytree(self.folder / "memtune-run", run)
        trace = next(run.glob("trials/*/trace.mttrace"))
        trace.unlink()
        trace.symlink_to("/etc/hostname")
        self.assertEqual(report(self.folder, "with-link", "--html", "linked.html", "--interactive").returncode, 0)
        before = self.page
        try:
            type(self).page = self.folder / "linked.html"
            self.assertNotIn(f"run/with-link/{trace.relative_to(run)}", self.files())
        finally:
            type(self).page = before


class Browser(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not find_chromium():
            raise unittest.SkipTest("no chromium to open the page in")
        cls.browser = Chromium(cls.folder)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.open()

    def tearDown(self):
        self.assertEqual(self.browser.errors(), [])

    def open(self, options=""):
        self.browser.open("about:blank")
        self.browser.open(f"file://{self.page}{options}")
        self.browser.wait_for("document.documentElement?.dataset.firstFrameMs", FIRST_FRAME_S)

    def assert_differ(self, picture, other):  # without printing them
        self.assertTrue(picture != other, "the picture did not change")

    def picture(self):
        self.browser.frames()
        return self.browser.picture()

    def test_the_title_names_the_run_and_something_is_drawn(self):
        self.assertEqual(self.browser.evaluate("document.title"), "memtune-run - memtune")
        self.assertEqual(self.browser.evaluate("document.getElementById('message').textContent"), "")
        # A picture of one color has about 10 KB.
        self.assertGreater(len(self.picture()), 40_000)

    def test_wheel_keys_and_text_change_the_picture(self):
        before = self.picture()
        self.browser.wheel(700, 180, -500)
        zoomed = self.picture()
        self.assert_differ(zoomed, before)
        self.browser.key("Home")
        self.browser.move(5, 895)
        self.assert_differ(self.picture(), zoomed)
        self.browser.key("f", ctrl=True)
        self.browser.type("zzzz")
        nothing = self.picture()
        for _ in range(4):
            self.browser.key("Backspace")
        self.browser.type("w1")
        found = self.picture()
        self.assert_differ(found, nothing)
        self.browser.key("Escape")
        self.assert_differ(self.picture(), found)

    def test_options_behind_the_address_choose_the_tab(self):
        self.open("#theme=light")
        before = self.picture()
        self.open("#theme=light&tab=compare&trial=100%")  # an option that cannot be read is left out
        self.assert_differ(self.picture(), before)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    MEMTUNE, MADE_UP_RUN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    RESULT = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2, exit=False).result
    sys.exit(1 if not RESULT.wasSuccessful() else 77 if RESULT.skipped else 0)
