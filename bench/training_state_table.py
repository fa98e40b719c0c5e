"""Writes the records of training_state.py as a Markdown page, with the goals that they miss.

    python training_state_table.py FOLDER     # rewrites the page from FOLDER/training-state.jsonl
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

COLUMNS = ("by", "way", "under", "saves", "blocked ms: first", "median", "largest", "last", "durable ms: median",
           "largest", "× disk", "step ms", "meanwhile", "slower", "GB", "host GB", "RSS GB")
BLOCKED_MS, OF_SYNC, OF_DISK, SLOWER = 60.0, 0.04, 1.15, 0.03
AS_THE_FIRST, NOISE_MS = 1.10, 1.0  # tolerances within which the last save is as good as the first

Record = Dict[str, Any]


class Row(NamedTuple):
    by: str
    way: str
    strategy: str
    blocked: List[float]
    durable: List[float]
    step: float
    meanwhile: Optional[float]
    bytes: int
    host_bytes: int
    rss_bytes: int
    notes: List[str]

    @property
    def name(self) -> str:
        return f"{self.by} {self.way}" + (f" under {self.strategy}" if self.strategy not in ("", "none") else "")

    @property
    def slower(self) -> Optional[float]:
        return self.meanwhile / self.step - 1 if self.meanwhile and self.step else None


def same_losses(record: Record, records: List[Record]) -> Optional[bool]:
    """Whether the losses equal those of the run without saves, as far as that went. None: it ended before the first
    save."""
    without = next((r["loss"] for r in records if r.get("way") == "never" and "loss" in r), [])
    count = min(len(without), len(record["loss"]))
    if not record["saved_steps"] or record["saved_steps"][0] >= count:
        return None
    return without[:count] == record["loss"][:count]


def our_row(record: Record, records: List[Record]) -> Row:
    notes = [f"a save failed: {error}" for error in record["errors"]]
    if record["late_saves"]:
        notes.append(f"saves that waited for the end of the one before: {record['late_saves']}")
    equal = same_losses(record, records)
    if equal is not None:
        notes.append("the losses are those of the run without saves, bit for bit" if equal else
                     "**missed**: the losses are not those of the run without saves")
    return Row("memtune", record["way"], record["strategy"], record["blocked_ms"], record["durable_ms"],
               record["step_ms"], record["step_ms_meanwhile"], record["bytes"], record["host_bytes"],
               record["peak_rss_bytes"], notes)


def peer_row(way: str, saves: List[Record], setting: Record) -> Row:
    done = [save for save in saves if "durable_ms" in save]
    notes = [f"save {save['save']} {'failed' if 'error' in save else 'was left out'}: "
             f"{save.get('error') or save.get('skipped')}" for save in saves if save not in done]
    notes += [f"save {save['save']}: {save['wrong_tensors']} of {save['tensors']} tensors are not those of its step"
              for save in done if save.get("wrong_tensors")]
    steps = [ms for save in done for ms in save["steps_meanwhile_ms"]]
    return Row("torch", way, "", [save["blocked_ms"] for save in done], [save["durable_ms"] for save in done],
               setting["step_ms"], statistics.median(steps) if steps else None,
               max((save["bytes"] for save in done), default=0), 0,
               max((save["peak_rss_bytes"] for save in done), default=0), notes)


def rows_of(records: List[Record]) -> List[Row]:
    rows = [our_row(record, records) for record in records if record["kind"] == "memtune" and "step_ms" in record]
    peers = [record for record in records if record["kind"] == "peer"]
    setting = next((record for record in records if record["kind"] == "peers" and "step_ms" in record), None)
    for way in dict.fromkeys(record["way"] for record in peers):
        rows.append(peer_row(way, [record for record in peers if record["way"] == way], setting))
    return rows


def disk_gb_per_s(records: List[Record]) -> float:
    return max((rate for record in records if record["kind"] == "raw disk" for rate in record["gb_per_s"].values()),
               default=0)


class Goals:
    """The goals of one of memtune's ways to save, and whether its numbers meet them."""

    def __init__(self, way: str, rows: List[Row], rate: float):
        self.way, self.rows, self.rate = way, rows, rate

    def of(self, row: Row) -> bool:
        return row.by == "memtune" and row.way == self.way and bool(row.blocked)

    def sync(self, row: Row) -> Optional[Row]:
        return next((r for r in self.rows if r.way == "sync" and r.strategy == row.strategy), None)

    def of_disk(self, row: Row, ms: float) -> float:
        return ms / (row.bytes / self.rate / 1e6)

    def lines(self, row: Row) -> List[str]:
        sync, blocked, durable = self.sync(row), row.blocked, row.durable
        line = [goal("blocked, median", statistics.median(blocked), BLOCKED_MS, "ms"),
                goal("blocked, largest", max(blocked), BLOCKED_MS, "ms")]
        if sync:
            share = 100 * statistics.median(blocked) / statistics.median(sync.blocked)
            line.append(goal("blocked, of sync's", share, 100 * OF_SYNC, "%"))
        median = statistics.median(durable)
        line += [goal("durable, median, of the disk's time", self.of_disk(row, median), OF_DISK, "×"),
                 goal("durable, largest", self.of_disk(row, max(durable)), OF_DISK, "×")]
        if row.slower is not None:
            line.append(goal("steps meanwhile slower", 100 * row.slower, 100 * SLOWER, "%"))
        line += [goal(f"the save {len(blocked)} blocked, beside the first", blocked[-1],
                      blocked[0] * AS_THE_FIRST + NOISE_MS, "ms"),
                 goal(f"the save {len(durable)} durable, beside the first", durable[-1],
                      durable[0] * AS_THE_FIRST + NOISE_MS, "ms")]
        return line


def goal(what: str, value: float, most: float, unit: str) -> str:
    return f"{'met' if value <= most else '**missed**'}: {what} {number(value)} {unit}, at most {number(most)}"


def number(value: Optional[float]) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def marked(text: str, misses: bool) -> str:
    return f"{text} **missed**" if misses else text


def gb(count: int) -> str:
    return f"{count / 1e9:.2f}" if count else "-"


def cells(row: Row, goals: Goals) -> List[str]:
    judged = goals.of(row)
    first = [row.by, row.way, row.strategy or "-", str(len(row.blocked))]
    if not row.blocked:
        return first + ["-"] * 7 + [number(row.step), "-", "-", "-", "-", gb(row.rss_bytes)]
    blocked = (row.blocked[0], statistics.median(row.blocked), max(row.blocked), row.blocked[-1])
    ratio = goals.of_disk(row, statistics.median(row.durable)) if goals.rate else None
    largest = max(row.durable)
    slower = "-" if row.slower is None else marked(f"{100 * row.slower:+.1f} %", judged and row.slower > SLOWER)
    return (first + [marked(number(ms), judged and ms > BLOCKED_MS) for ms in blocked] +
            [number(statistics.median(row.durable)),
             marked(number(largest), judged and ratio is not None and goals.of_disk(row, largest) > OF_DISK),
             marked(number(ratio), judged and ratio is not None and ratio > OF_DISK), number(row.step),
             number(row.meanwhile), slower, gb(row.bytes), gb(row.host_bytes), gb(row.rss_bytes)])


def head(records: List[Record]) -> List[str]:
    setting = records[0]
    peers = next((record for record in records if record["kind"] == "peers" and "torch" in record), None)
    of = f"{setting['gpu'] or setting['device']}, {setting['cores']} cores, {setting['date']}; {setting['memtune']}"
    return ["# Saving the training state", "", f"    {setting['command']}", "",
            f"{of}{', torch ' + peers['torch'] if peers else ''}; {setting['model']}, {setting['dtype']}, "
            f"B{setting['batch']} T{setting['length']}"]


def disk_lines(records: List[Record]) -> List[str]:
    raw = [record for record in records if record["kind"] == "raw disk"]
    rates = "; ".join(", ".join(f"{rate:.2f} {how}" for how, rate in record["gb_per_s"].items()) +
                      (f" ({record['doctor_gb_per_s']:.2f} by doctor)" if "doctor_gb_per_s" in record else "")
                      for record in raw)
    return [f"The disk by itself (a new file, direct, eight requests in flight, synced; `doctor`: 1 GiB): {rates} "
            "GB/s. × disk: the median durable time against the fastest of these for the same bytes."] if raw else []


def page(records: List[Record]) -> str:
    rows = rows_of(records)
    goals = Goals(records[0]["save"][0], rows, disk_gb_per_s(records))
    lines = [COLUMNS, ["---"] * len(COLUMNS)] + [cells(row, goals) for row in rows]
    text = head(records) + [""] + ["| " + " | ".join(line) + " |" for line in lines] + [""] + disk_lines(records)
    text += ["RSS is of the process that trains; step ms are medians, `meanwhile` of the steps that began while a save "
             "was on its way.", ""]
    for row in rows:
        if goals.of(row) and goals.rate:
            text += [f"Goals of {row.name}:", ""] + [f"* {line}" for line in goals.lines(row)] + [""]
    notes = [f"* {row.name}: {note}" for row in rows for note in row.notes]
    notes += [f"* {record['kind']} {record.get('way', '')} {record.get('strategy', '')}: "
              f"{'failed: ' + record['error'] if 'error' in record else 'left out: ' + record['skipped']}"
              for record in records if record["kind"] != "peer" and ("error" in record or "skipped" in record)]
    end = next((record for record in records if record["kind"] == "end"), None)
    notes.append(f"* all of it took {end['seconds']} s" if end else "* it was not finished")
    return "\n".join(text + notes) + "\n"


def main():
    path = Path(sys.argv[1]) / "training-state.jsonl"
    print(page([json.loads(line) for line in path.read_text().splitlines()]), end="")


if __name__ == "__main__":
    main()
