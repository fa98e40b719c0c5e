"""Prints a Markdown table of memtune, PyTorch and the trainers' engines, from a folder that run.sh wrote.

    python compare.py FOLDER [FOLDER...]     # one table each, because models or settings differ

Reads every *.json (`memtune sweep --json`) and *.jsonl (eager.py) of the folder. The highest peak comes first. `× none`
refers to `none` of the same side. Each row of memtune names the fastest others, eager and compiled, that need no more
memory. Below the table it prints the failures, and whether both sides start with the same loss. With equal weights and
inputs they do.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

COLUMNS = ("strategy", "by", "ms", "× none", "peak GiB", "gradients", "host GiB", "disk GiB", "hidden", "stalled ms",
           "fastest others within its peak")


class Row(NamedTuple):
    name: str
    by: str  # "memtune", "torch 2.11.0", "trl 1.16.0"
    trial: Dict[str, Any]

    @property
    def ours(self) -> bool:
        return self.by == "memtune"

    @property
    def ok(self) -> bool:
        return self.trial["outcome"] == "ok"

    @property
    def ms(self) -> float:
        return self.trial["step_ms"]["median"]

    @property
    def peak(self) -> Optional[float]:
        """GiB. None on a CPU, where PyTorch does not count memory."""
        return self.trial["peak_bytes"]["allocated"] / 2**30 if self.trial["peak_bytes"] else None


def read(folder: Path) -> List[Row]:
    """Returns the last measurement of each strategy."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        for trial in json.loads(path.read_text())["trials"]:
            # disk-2GiB.json was measured under another budget, which does not affect `none`.
            suffix = "" if trial["strategy"] == "none" or path.stem == "memtune" else f" ({path.stem})"
            rows.append(Row(trial["strategy"] + suffix, "memtune", trial))
    for path in sorted(folder.glob("*.jsonl")):
        trials = [json.loads(line) for line in path.read_text().splitlines()]
        rows += [Row(trial["strategy"], trial["package"].split("+")[0], trial) for trial in trials]
    return list({(row.name, row.ours): row for row in rows}.values())


def none_of(rows: List[Row], ours: bool) -> Optional[Row]:
    return next((row for row in rows if row.ok and row.name == "none" and row.ours == ours), None)


def factor(row: Row, rows: List[Row]) -> str:
    none = none_of(rows, row.ours)
    return f"{row.ms / none.ms:.3f}" if none else "-"


def gradients(row: Row) -> str:
    compared = row.trial["gradients"]
    if not compared["compared"]:
        return "-"
    return "equal" if compared["equal"] else f"off by {compared['max_abs_difference']:.1e}"


def moved(row: Row) -> List[str]:
    """Bytes offloaded, bytes of these written to disk, overlap of the copies, and stalls."""
    transfer = row.trial.get("transfer")
    if not transfer or not transfer["out_bytes"]:
        return ["-"] * 4
    disk = transfer["disk_write_bytes"]
    return [f"{transfer['out_bytes'] / 2**30:.2f}", f"{disk / 2**30:.2f}" if disk else "-",
            f"{100 * transfer['hidden']:.0f} %", f"{sum(row.trial['stalls'].values()):.1f}"]


def fastest_others(row: Row, rows: List[Row]) -> str:
    if not row.ours:
        return ""
    within = [other for other in rows if other.ok and not other.ours and other.peak and other.peak <= row.peak]
    eager = [other for other in within if not other.name.startswith("compile")]
    best = [min(group, key=lambda other: other.ms) for group in (eager, [o for o in within if o not in eager]) if group]
    return "; ".join(f"{other.name} {factor(other, rows)}" for other in best) or "-"


def cells(row: Row, rows: List[Row]) -> List[str]:
    peak = "-" if row.peak is None else f"{row.peak:.2f}"
    return [row.name, row.by, f"{row.ms:.1f}", factor(row, rows), peak, gradients(row), *moved(row),
            fastest_others(row, rows)]


def first_losses(rows: List[Row]) -> List[str]:
    """Reports whether both sides start with the same loss under the strategy `none`."""
    ours, theirs = none_of(rows, True), none_of(rows, False)
    if not ours or not theirs:
        return []
    a, b = ours.trial["loss"][0], theirs.trial["loss"][0]
    return [f"`none`: memtune {ours.ms:.1f} ms, PyTorch {theirs.ms:.1f} ms; first loss {a:.7g} and {b:.7g}, " +
            ("equal" if a == b else f"{abs(a - b):.1e} apart")]


def table(folder: Path) -> str:
    rows = read(folder)
    measured = sorted((row for row in rows if row.ok), key=lambda row: (-(row.peak or 0), row.ms))
    lines = [list(COLUMNS), ["---"] * len(COLUMNS)] + [cells(row, rows) for row in measured]
    failed = [f"{row.name} ({row.by or 'not run'}): {row.trial['outcome']}: {row.trial['reason']}"
              for row in rows if not row.ok]
    return "\n".join(["| " + " | ".join(line) + " |" for line in lines] +
                     ["\n" + line for line in first_losses(rows) + failed])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    for folder in p.parse_args().folders:
        print(f"## {folder.resolve().name}\n\n{table(folder)}\n")


if __name__ == "__main__":
    main()
