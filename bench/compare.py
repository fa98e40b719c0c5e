"""One table of memtune and plain PyTorch, in Markdown, from the JSON files of both.

    python compare.py memtune.json eager.json

memtune.json is from `memtune sweep --json`, eager.json from eager.py. Strategies that only one of them has get a row
with dashes. Below the table stands whether both began with the same loss, which they do when the inputs are the same.
"""

import argparse
import json
from typing import Any, Dict, List, Optional

EAGER_OF = {"none": "none", "checkpoint:full": "full", "checkpoint:every=2": "every2", "checkpoint:op": "op",
            "checkpoint:full,inputs=host": "torchtune+full"}
COLUMNS = ("strategy", "eager", "memtune ms", "eager ms", "ratio", "memtune GiB", "eager GiB", "ratio",
           "gradients equal", "hidden", "exposed ms")


def trials_of(path: str) -> Dict[str, Dict[str, Any]]:
    with open(path) as file:
        return {trial["strategy"]: trial for trial in json.load(file)["trials"]}


def ok(trial: Optional[Dict[str, Any]]) -> bool:
    return trial is not None and trial["outcome"] == "ok"


def milliseconds(trial) -> Optional[float]:
    return trial["step_ms"]["median"] if ok(trial) else None


def gibibytes(trial) -> Optional[float]:
    return trial["peak_bytes"]["allocated"] / 2**30 if ok(trial) and trial.get("peak_bytes") else None


def number(value: Optional[float], digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def ratio(a: Optional[float], b: Optional[float]) -> str:
    return f"{a / b:.3f}" if a is not None and b else "-"


def row(name: str, ours: Optional[Dict[str, Any]], theirs_name: str, theirs: Optional[Dict[str, Any]]) -> List[str]:
    ms, eager_ms, peak, eager_peak = milliseconds(ours), milliseconds(theirs), gibibytes(ours), gibibytes(theirs)
    equal, hidden, exposed = "-", None, None
    if ok(ours):
        equal = "yes" if ours["gradients"]["equal"] else f"no, by {ours['gradients']['max_abs_difference']:.1e}"
        if ours["transfer"]["out_bytes"] > 0:
            hidden, exposed = ours["transfer"]["hidden"], ours["transfer"]["exposed_ms"]
    return [name, theirs_name, number(ms, 1), number(eager_ms, 1), ratio(ms, eager_ms), number(peak, 3),
            number(eager_peak, 3), ratio(peak, eager_peak), equal,
            "-" if hidden is None else f"{hidden * 100:.1f} %", number(exposed, 1)]


def rows(ours: Dict[str, Dict[str, Any]], theirs: Dict[str, Dict[str, Any]]) -> List[List[str]]:
    result = [row(name, trial, EAGER_OF.get(name, "-"), theirs.get(EAGER_OF.get(name, "-")))
              for name, trial in ours.items()]
    paired = {EAGER_OF.get(name) for name in ours}
    return result + [row("-", None, name, trial) for name, trial in theirs.items() if name not in paired]


def failures(ours, theirs) -> List[str]:
    return [f"{who} {t['strategy']}: {t['outcome']} ({t.get('reason', '')})"
            for who, trials in (("memtune", ours), ("eager", theirs)) for t in trials.values() if not ok(t)]


def first_losses(ours, theirs) -> List[str]:
    """Whether both start from the same loss, by the strategy `none`."""
    if not ok(ours.get("none")) or not ok(theirs.get("none")):
        return []
    a, b = ours["none"]["loss"][0], theirs["none"]["loss"][0]
    return [f"first loss: memtune {a:.7g}, eager {b:.7g}, " + ("equal" if a == b else f"differs by {abs(a - b):.1e}")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("memtune", help="JSON of memtune sweep")
    p.add_argument("eager", help="JSON of eager.py")
    options = p.parse_args()
    ours, theirs = trials_of(options.memtune), trials_of(options.eager)
    for cells in [list(COLUMNS), ["---"] * len(COLUMNS)] + rows(ours, theirs):
        print("| " + " | ".join(cells) + " |")
    for line in first_losses(ours, theirs) + failures(ours, theirs):
        print("\n" + line)


if __name__ == "__main__":
    main()
