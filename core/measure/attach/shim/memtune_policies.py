"""Reports settings that a release of PyTorch accepts and ignores."""

import functools
import types

# PyTorch 2.15 names offload policies of selective checkpointing and recomputes where they apply, compiled or not.
WITHOUT_EFFECT = {"2.15": "_CPU_OFFLOAD"}


def named_in(policy, ending):
    """What a policy function and the functions in it name with that ending, without calling it."""
    while isinstance(policy, functools.partial):
        policy = policy.func
    code = getattr(policy, "__code__", None) or getattr(getattr(type(policy), "__call__", None), "__code__", None)
    names, left = set(), [code] if isinstance(code, types.CodeType) else []
    while left:
        code = left.pop()
        names.update(name for name in code.co_names if name.endswith(ending))
        left += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return sorted(names)


def watch(module, release, note):
    """`module`: torch.utils.checkpoint."""
    ending = WITHOUT_EFFECT.get(release)
    original = getattr(module, "create_selective_checkpoint_contexts", None)
    if ending is None or original is None:
        return
    told = set()

    @functools.wraps(original)
    def create(policy, *arguments, **named):
        for name in named_in(policy, ending):
            if name not in told:
                told.add(name)
                note("%s: PyTorch %s recomputes these outputs and does not offload them" % (name, release))
        return original(policy, *arguments, **named)

    module.create_selective_checkpoint_contexts = create
