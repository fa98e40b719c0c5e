"""Divides a step into what takes its time: data, forward, backward, update, evaluation, generation, save, rest.

A mark is a kind and the moment at which it begins; it lasts until the next. On CUDA the moments are events of the
stream: waiting for a loader while the device still computes takes no time of a step.
"""

import threading

import memtune_parts
import memtune_process

MARKS = 1024  # of a step; one with more has no shares
KINDS = ("data", "forward", "backward", "update", "evaluation", "generation", "save", "rest")

told = memtune_parts.harmless("the shares of a step are not known")


class Shares:
    def __init__(self, training):
        self.training, self.over = training, False
        self.evaluates = False  # a trained model ran in evaluation mode without gradients
        self.unfused = False  # an optimizer could have fused=True
        self.reset()

    def reset(self):
        self.marks = None  # of the running step; None: its begin is not known, or it has too many
        self.held = None  # kind to return to after a fetch, a generation or a save
        self.ran = False  # forward has run since the last backward
        self.ended = {}  # marks by number of a step that the device has not finished
        self.workers = None  # of the loader that was last asked for a batch; None: no loader

    @told
    def created(self, optimizer):
        self.unfused |= any(not group.get("fused", True) for group in optimizer.param_groups)

    def kind(self):
        return self.marks[-1][0] if self.marks else None

    def go_to(self, kind):
        if self.marks is None or self.held is not None or kind == self.kind():
            return
        if len(self.marks) == MARKS:
            self.marks = None
            return
        self.marks.append((kind, self.training.now()))

    @told
    def enter(self, kind):
        """True if leave() has to follow. Threads that fetch ahead take no time of a step."""
        if self.marks is None or self.held is not None or self.training.depth > 0:
            return False
        if threading.current_thread() is not threading.main_thread():
            return False
        before = self.kind()
        self.go_to(kind)
        self.held = before
        return True

    @told
    def leave(self):
        before, self.held = self.held, None
        self.go_to(before)

    @told
    def begin_forward(self):
        self.ran = True
        self.go_to("forward")

    @told
    def run_without_gradients(self, trains):
        """Lasts until the training goes on. A fetch between two runs belongs to the evaluation."""
        if self.marks is None or self.held is not None or self.kind() == "forward":  # reentrant checkpointing
            return
        self.evaluates |= not trains
        if [kind for kind, _ in self.marks[-3:]] == ["evaluation", "data", "evaluation"]:
            del self.marks[-2:]
        self.go_to("evaluation")

    @told
    def begin_backward(self):
        # No hook saw the forward: the model is compiled, or reentrant checkpointing runs it without gradients.
        if self.kind() in ("rest", "evaluation") and not self.ran:
            self.marks[-1] = ("forward", self.marks[-1][1])
        self.ran = False
        self.go_to("backward")

    @told
    def end_backward(self, in_update):
        self.go_to("update" if in_update else "rest")

    @told
    def begin_update(self):
        if self.training.depth == 0:
            self.go_to("update")

    @told
    def end_update(self):
        if self.kind() == "update":
            self.go_to("rest")

    def end_step(self, step):
        self.ended[step], self.marks = self.marks, None

    def begin_step(self, at):
        self.marks, self.held = [("rest", at)], None

    @told
    def of_step(self, step, end):
        """Of a step that the device has finished: milliseconds by kind, and what their advice depends on."""
        marks = self.ended.pop(step, None)
        if not marks:
            return {}
        sums = dict.fromkeys(KINDS, 0.0)
        for (kind, begin), (_, until) in zip(marks, marks[1:] + [(None, end)]):
            sums[kind] += max(0.0, self.training.ms_between(begin, until))
        return dict(shares=sums, workers=self.workers, evaluates=self.evaluates, unfused=self.unfused,
                    trainer=memtune_process.trainer())
