"""Records who holds memory at the end of two steps, so that what grew between them is known.

The first step and the last measured one: the time that this takes is in no step.
"""


class Growth:
    def __init__(self, training):
        self.training = training

    def end_step(self, step, last):
        if step not in (1, last) or self.training.over:
            return
        try:
            self.write(step)
        except Exception as error:  # the figures of the steps are worth more
            self.training.note("what grows from step to step is not known: %s: %s" % (type(error).__name__, error))

    def write(self, step):
        import torch

        if not torch.cuda.is_initialized() or torch.cuda.get_allocator_backend() != "native":
            return
        import memtune_oom

        device = torch.cuda.current_device()
        kinds, _, known = self.training.oom.kinds(device)
        rest, lines, _ = memtune_oom.lines_of(device, known)
        self.training.write(record="held", step=step, rest=rest, lines=lines, **kinds)
