"""memtune in a notebook."""


def profile(function=None, *, steps=5, warmup=2, out=None):
    """Measures training in this process. Prints the report of `memtune profile` and returns it.

        with memtune.profile():                  # or memtune.profile(train)
            trainer.train()

    The block ends after `warmup` + `steps` optimizer steps and three that are traced. `out`: folder for the figures
    and the timeline (default: ./memtune-profile). The object that is returned has `report`, the text, and `json`.
    """
    from memtune import notebook  # the command line does not need it

    return notebook.profile(function, steps=steps, warmup=warmup, out=out)
