"""Finds steps that differ from the others, as by an evaluation, a generation or a refill of a buffer, and their period.

A step differs if the model runs more often without gradients, or has other backward passes or updates, and its time is
another too; or if much more time passes outside of its passes.
"""

import time

LEAST_MS = 50  # outside of the passes, if nothing else differs: shorter times are noise of a busy machine
SEARCH = 8  # times the steps that were asked for, until a step that differs has come again
SEARCH_S, MORE_S = 20, 60  # time for that search at least; for a second whole period at most


class Step:
    def __init__(self, record, updates):
        self.number, self.warmup, self.ms = record["step"], record["phase"] == "warmup", record.get("ms")
        if self.ms is not None:
            self.ms -= record["save_ms"]
        self.outside_ms, self.runs = record["outside_ms"], record["without_gradients"]
        self.skipped = record["skipped"]
        self.form = (len(record["loss"]), min(updates, 8))


class Periods:
    def __init__(self, asked):
        self.asked = asked  # steps to measure
        self.steps = []
        self.began, self.asked_s = time.monotonic(), None

    def add(self, record, updates):
        self.steps.append(Step(record, updates))

    def differing(self):
        """Numbers of the steps that differ, and whether any of them does other work."""
        from statistics import median

        timed = [step for step in self.steps if step.ms is not None]
        if len(timed) < 3:
            return [], False
        forms = [step.form for step in timed]
        form = max(forms, key=forms.count)
        usual_ms, outside_ms, runs = (median([getattr(step, name) for step in timed])
                                      for name in ("ms", "outside_ms", "runs"))

        def runs_differ(step):
            return step.runs > 1.5 * runs + 0.5 or step.runs < runs / 1.5 - 0.5

        def does_other_work(step):
            return runs_differ(step) or step.form != form

        def differs(step):
            if step.skipped:  # by a gradient scaler
                return False
            if step.ms is None:  # the first one, whose begin is not known
                return runs_differ(step)
            if does_other_work(step):
                return abs(step.ms - usual_ms) > 0.1 * usual_ms
            return not step.warmup and abs(step.outside_ms - outside_ms) > max(LEAST_MS, usual_ms / 2)

        found = [step for step in self.steps if differs(step)]
        return [step.number for step in found], any(map(does_other_work, found))

    def period(self, numbers):
        """The least distance at which steps differ again, without exception; 0: none."""
        if len(numbers) < 2:
            return 0
        first, last = 1 if numbers[0] == 1 else 2, self.steps[-1].number
        for period in range(1, last):
            again = [number + period for number in numbers if number + period <= last]
            before = [number - period for number in numbers if number - period >= first]
            if again and all(each in numbers for each in again + before):
                return period
        return 0

    def missing(self):
        """How many more steps have to be measured: two whole periods, or one if steps take long."""
        measured = sum(not step.warmup for step in self.steps)
        if self.asked_s is None:
            self.asked_s = time.monotonic() - self.began
        numbers, other_work = self.differing()
        period = self.period(numbers)
        if period:
            more = 2 * period - measured
            mean_ms = sum(step.ms or 0 for step in self.steps) / len(self.steps)
            return max(0, more if more * mean_ms < 1e3 * MORE_S else period - measured)
        limit_s = max(SEARCH_S, 2 * self.asked_s)
        if not other_work or time.monotonic() - self.began - self.asked_s > limit_s:
            return 0
        return max(0, min(max(1, self.asked // 2), SEARCH * self.asked - measured))

    def of_steps(self):
        """None if all steps are alike."""
        numbers = self.differing()[0]
        return dict(steps=self.period(numbers), differing=numbers) if numbers else None
