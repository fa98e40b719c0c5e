#!/usr/bin/env python3
"""Reads memtune's reports with other programs: the memory snapshot with Python and PyTorch, the page with a browser,
the trace with Holistic Trace Analysis. Also checks the structure of the trace, because viewers drop slices that do not
nest.

    report_files_test.py MEMTUNE MEMTUNE_MADE_UP_RUN [CLASS...]

Exit code 77: nothing failed, but a reader is missing. MEMTUNE_HTA_PYTHON names a python with HolisticTraceAnalysis.
"""

import collections
import html.parser
import json
import os
import pickle
import pickletools
import pty
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from chromium import find_chromium  # noqa: E402  pylint: disable=wrong-import-position

# All opcodes that memory_viz's own reader knows.
OPCODES = set("PROTO FRAME STOP MARK MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET EMPTY_DICT DICT SETITEM SETITEMS "
              "EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 NONE NEWTRUE NEWFALSE BININT "
              "BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE".split())
GIB = 2**30


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        subprocess.run([MADE_UP_RUN, "memtune-run"], cwd=cls.folder, check=True)

    def report(self, *arguments):
        subprocess.run([MEMTUNE, "report", "-q", *arguments], cwd=self.folder, check=True)


class PerfettoTest(ReportTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report(cls, "--format", "perfetto", "-o", "trace.json")
        cls.trace = json.loads((cls.folder / "trace.json").read_text())
        cls.events = cls.trace["traceEvents"]

    def of(self, *phases):
        return [event for event in self.events if event["ph"] in phases]


class Perfetto(PerfettoTest):
    def test_every_track_has_a_name(self):
        named = {(e["pid"], e["tid"]) for e in self.of("M") if e["name"] == "thread_name" and e["args"]["name"]}
        self.assertTrue(named)
        self.assertLessEqual({(e["pid"], e["tid"]) for e in self.of("X", "i", "s", "f")}, named)
        processes = {e["pid"] for e in self.of("M") if e["name"] == "process_name" and e["args"]["name"]}
        self.assertLessEqual({e["pid"] for e in self.events}, processes)

    def test_the_tracks_of_the_trace_are_present(self):
        names = [e["args"]["name"] for e in self.of("M") if e["name"] == "thread_name"]
        self.assertLessEqual({"compute stream 7", "copy out stream 20", "copy in stream 21", "disk write", "disk read",
                              "device blocks", "device phases", "host ops", "steps", "values"}, set(names))

    def test_overlapping_requests_are_on_two_tracks(self):
        names = [e["args"]["name"] for e in self.of("M") if e["name"] == "thread_name"]
        self.assertEqual(names.count("disk write"), 2)
        self.assertEqual(names.count("copy out stream 20"), 1)

    def test_slices_nest(self):
        tracks = collections.defaultdict(list)
        for event in self.of("X"):
            start = round(event["ts"] * 1000)
            tracks[event["tid"]].append((start, start + round(event["dur"] * 1000)))
        for slices in tracks.values():
            self.assertEqual(slices, sorted(slices, key=lambda s: (s[0], -s[1])))
            open_until = []
            for start, end in slices:
                while open_until and open_until[-1] <= start:
                    open_until.pop()
                self.assertTrue(not open_until or end <= open_until[-1], (start, end, open_until))
                open_until.append(end)

    def test_times_are_numbers_in_order(self):
        times = [event["ts"] for event in self.events if event["ph"] != "M"]
        self.assertTrue(all(isinstance(time, (int, float)) and time >= 0 for time in times))
        self.assertEqual(times, sorted(times))

    def test_each_arrow_starts_and_ends_in_a_slice(self):
        starts, ends = ({e["id"]: e for e in self.of(phase)} for phase in ("s", "f"))
        self.assertGreater(len(starts), 100)
        self.assertEqual(starts.keys(), ends.keys())
        begins = {(e["tid"], e["ts"]) for e in self.of("X")}
        for arrow in (*starts.values(), *ends.values()):
            self.assertIn((arrow["tid"], arrow["ts"]), begins)
        for number, start in starts.items():
            self.assertLess(start["ts"], ends[number]["ts"])

    def test_counters_of_owners_sum_to_at_most_the_allocated_bytes(self):
        held, allocated = {}, 0
        for event in self.of("C"):
            held[event["name"]] = event["args"]["bytes"]
            allocated = held.get("allocated bytes", 0)
        owners = [name for name in held if name.startswith("bytes of ")]
        self.assertIn("bytes of layers.3", owners)
        self.assertLessEqual(sum(held[name] for name in owners), allocated)

class HolisticTraceAnalysis(PerfettoTest):
    def test_holistic_trace_analysis_reads_the_trace(self):
        python = os.environ.get("MEMTUNE_HTA_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import hta.trace_analysis"], capture_output=True, check=False).returncode:
            self.skipTest("no HolisticTraceAnalysis; MEMTUNE_HTA_PYTHON names a python that has it")
        program = """
import json, sys, warnings
warnings.filterwarnings("ignore")
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=".")
times = trace.get_temporal_breakdown(visualize=False).iloc[0]
types, kernels = trace.get_gpu_kernel_breakdown(visualize=False)
rates = trace.get_memory_bw_summary()
idle, _ = trace.get_idle_time_breakdown(ranks=[0], visualize=False)
print(json.dumps({"busy": times["compute_time(us)"] + times["non_compute_time(us)"], "idle": times["idle_time(us)"],
                  "types": dict(zip(types["kernel_type"], types["sum"].astype(float))),
                  "copies": [name for _, name in rates.index], "idle streams": sorted(set(idle["stream"].astype(int)))}))
"""
        ended = subprocess.run([python, "-c", program, "trace.json"], cwd=self.folder, capture_output=True, text=True,
                               check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        found = json.loads(ended.stdout.splitlines()[-1])
        self.assertEqual(found["copies"], ["Memcpy DtoH", "Memcpy HtoD"])
        self.assertEqual(found["idle streams"], [7, 20, 21])
        device = [e for e in self.of("X") if "stream" in e["args"]]
        span = max(e["ts"] + e["dur"] for e in device) - min(e["ts"] for e in device)
        self.assertAlmostEqual(found["busy"] + found["idle"], span, delta=2)
        self.assertGreater(found["types"]["COMPUTATION overlapping MEMORY"], 0)


class SnapshotTest(ReportTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report(cls, "--format", "memory-snapshot")
        (cls.file,) = cls.folder.glob("memtune-run/trials/*/memory-snapshot.pickle")
        cls.snapshot = pickle.loads(cls.file.read_bytes())
        cls.entries = cls.snapshot["device_traces"][0]


class MemorySnapshot(SnapshotTest):
    def test_the_reader_of_the_viewer_knows_every_opcode(self):
        used = {opcode.name for opcode, _, _ in pickletools.genops(self.file.read_bytes())}
        self.assertLessEqual(used, OPCODES)

    def test_every_category_occurs(self):
        categories = {entry["category"] for entry in self.entries}
        self.assertLessEqual({"unknown", "parameters", "optimizer", "activations", "work space"}, categories)

    def test_the_peak_is_that_of_the_trace_and_segments_hold_the_live_allocations(self):
        live, peak = {}, 0
        for entry in self.entries:
            if entry["action"] == "alloc":
                self.assertNotIn(entry["addr"], live)
                live[entry["addr"]] = entry["size"]
            elif entry["action"] == "free_completed":
                self.assertEqual(live.pop(entry["addr"]), entry["size"])
            peak = max(peak, sum(live.values()))
        out = subprocess.run([MEMTUNE, "report", "-q", "--format", "perfetto"], cwd=self.folder, check=True,
                             capture_output=True, text=True).stdout
        allocated = [e["args"]["bytes"] for e in json.loads(out)["traceEvents"] if e["name"] == "allocated bytes"]
        self.assertEqual(peak, max(allocated))
        blocks = {b["address"]: b["size"] for s in self.snapshot["segments"] for b in s["blocks"]
                  if b["state"] == "active_allocated"}
        self.assertEqual(blocks, live)

    def test_allocations_are_within_segments_and_do_not_overlap(self):
        segments = [(e["addr"], e["addr"] + e["size"]) for e in self.entries if e["action"] == "segment_alloc"]
        live = {}
        for entry in self.entries:
            start, end = entry["addr"], entry["addr"] + entry["size"]
            if entry["action"] == "alloc":
                self.assertTrue(any(low <= start and end <= high for low, high in segments))
                self.assertTrue(all(end <= low or high <= start for low, high in live.items()))
                live[start] = end
            elif entry["action"] == "free_completed":
                del live[start]
        for segment in self.snapshot["segments"]:
            self.assertEqual(sum(block["size"] for block in segment["blocks"]), segment["total_size"])

    def test_activations_have_names(self):
        names = {entry["frames"][0]["name"] for entry in self.entries}
        self.assertIn("layers.3 up", names)

class PyTorch(SnapshotTest):
    def test_the_viewer_of_pytorch_reads_the_snapshot(self):
        try:
            import torch.cuda._memory_viz as viz
        except ImportError:
            self.skipTest("no PyTorch in " + sys.executable)
        self.assertIn("total_allocated", viz.segsum(self.snapshot))
        self.assertIn("cudaMalloc", viz.trace(self.snapshot))
        self.assertIn("layers.3", viz.memory(self.snapshot, format_flamegraph=lambda text: text))
        self.assertIn("snapshot.pickle", viz.trace_plot(self.snapshot))
        self.assertIn("snapshot.pickle", viz.segment_plot(self.snapshot))


class Terminal(ReportTest):
    def test_a_pickle_is_never_written_to_a_terminal(self):
        leader, follower = pty.openpty()
        self.addCleanup(os.close, leader)
        ended = subprocess.run([MEMTUNE, "report", "--format", "memory-snapshot", "-o", "-"], cwd=self.folder,
                               stdout=follower, stderr=subprocess.PIPE, text=True, check=False)
        os.close(follower)
        self.assertEqual(ended.returncode, 2)
        self.assertEqual(ended.stderr, "memtune: a memory-snapshot is not for terminals: name a file with -o, or leave "
                                       "-o away\n")


class Elements(html.parser.HTMLParser):
    """Counts elements, and fails if they are not closed in order."""

    VOID = {"meta", "br", "wbr"}

    def __init__(self):
        super().__init__()
        self.open, self.count, self.links = [], collections.Counter(), []

    def handle_starttag(self, tag, attributes):
        self.count[tag] += 1
        self.links += [value for name, value in attributes if name in ("src", "href", "data", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.count[tag] += 1

    def handle_endtag(self, tag):
        expected = self.open.pop()
        if tag != expected:
            raise AssertionError(f"</{tag}> where </{expected}> should be, line {self.getpos()[0]}")


class PageTest(ReportTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report(cls, "--html", "page.html")
        cls.text = (cls.folder / "page.html").read_text(encoding="utf-8")


class Page(PageTest):
    def test_elements_close_in_order_and_there_are_no_links(self):
        elements = Elements()
        elements.feed(self.text)
        self.assertEqual(elements.open, [])
        self.assertEqual(elements.links, [])
        self.assertEqual(elements.count["svg"], 5)
        self.assertEqual(elements.count["b"], 6 + self.text.count("<li class="))  # none from the name of the model

class Browser(PageTest):
    def setUp(self):
        self.browser = find_chromium()
        if not self.browser:
            self.skipTest("no chromium to open the page in")

    def test_a_browser_shows_the_page_without_messages(self):
        for width in (800, 1600):
            ended = subprocess.run(
                [self.browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
                 f"--window-size={width},1000", f"--screenshot={self.folder}/page-{width}.png",
                 f"--user-data-dir={self.folder}/profile", f"file://{self.folder}/page.html"],
                capture_output=True, text=True, check=False, timeout=120)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertNotIn("CONSOLE", ended.stderr)
            # A white picture of this size has about 5 KB.
            self.assertGreater((self.folder / f"page-{width}.png").stat().st_size, 30_000)

    def test_the_script_sorts_the_table_and_the_page_needs_no_horizontal_scrolling(self):
        probe = """<script>
          const heads = [...document.querySelectorAll("th")];
          const peak = heads.findIndex(head => head.textContent.startsWith("peak"));
          heads[peak].click();
          const cells = [...document.querySelectorAll("table.trials tbody tr")].map(row => row.cells[peak].textContent);
          document.title = JSON.stringify({cells, wide: document.documentElement.scrollWidth, inner: innerWidth});
        </script>"""
        policy = self.text.index("<meta http-equiv")
        end = self.text.index(">", policy) + 1
        (self.folder / "probe.html").write_text(self.text[:policy] + self.text[end:] + probe, encoding="utf-8")
        dom = subprocess.run([self.browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=800,1000",
                              f"--user-data-dir={self.folder}/profile", "--dump-dom",
                              f"file://{self.folder}/probe.html"],
                             capture_output=True, text=True, check=True, timeout=120).stdout
        found = json.loads(html.unescape(dom[dom.index("<title>") + 7:dom.index("</title>")]))
        cells = [float(cell) for cell in found["cells"]]
        self.assertEqual(len(cells), 14)
        self.assertEqual(cells, sorted(cells))
        self.assertLessEqual(found["wide"], found["inner"])

    def laid_out(self, width):
        """Layout of the page in a frame of that width: its own width, elements beyond the frame, heights of texts in
        charts, and the right end of the charts."""
        (self.folder / "frame.html").write_text(f"""<body style="margin:0">
          <iframe src="page.html" style="border:0;width:{width}px;height:900px"></iframe><script>
          onload = () => {{
            const page = document.querySelector("iframe").contentDocument;
            const all = query => [...page.querySelectorAll(query)], box = element => element.getBoundingClientRect();
            document.title = JSON.stringify({{
              wide: page.documentElement.scrollWidth,
              out: all("body *").filter(each => !each.closest(".wide") && box(each).right > {width})
                .map(each => each.tagName),
              words: all("svg text").map(each => box(each).height),
              charts: Math.max(...all("svg").map(each => box(each).right))}});
          }};</script></body>""", encoding="utf-8")
        dom = subprocess.run([self.browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1600,1000",
                              "--allow-file-access-from-files", "--virtual-time-budget=5000",
                              f"--user-data-dir={self.folder}/profile", "--dump-dom",
                              f"file://{self.folder}/frame.html"],
                             capture_output=True, text=True, check=True, timeout=120).stdout
        return json.loads(html.unescape(dom[dom.index("<title>") + 7:dom.index("</title>")]))

    def test_the_page_fits_the_width_of_a_phone_and_fills_that_of_a_desktop(self):
        for width in (400, 1280):
            found = self.laid_out(width)
            self.assertLessEqual(found["wide"], width)
            self.assertEqual(found["out"], [])
            self.assertGreaterEqual(min(found["words"]), 12)
        self.assertGreater(found["charts"], 0.9 * 1280)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    MEMTUNE, MADE_UP_RUN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    RESULT = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2, exit=False).result
    sys.exit(1 if not RESULT.wasSuccessful() else 77 if RESULT.skipped else 0)
