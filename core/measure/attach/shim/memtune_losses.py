"""Reads the value that backward starts from, and the factors that the script multiplied its loss by."""

FACTORS = 4  # at most


def reading(tensor):
    """The current value of a scalar. Of a CUDA tensor it is a copy, valid once the stream reaches this point."""
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.numel() != 1 or tensor.is_complex():
        return None
    tensor = tensor.detach().reshape(())
    if tensor.device.type == "cpu":
        return float(tensor)
    if tensor.device.type != "cuda":
        return None
    host = torch.empty((), dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    return host


class Loss:
    """What a backward starts from. `scaled`: the tensor, `before`: its reading before a gradient scaler, if there is one."""

    def __init__(self, tensor, before=None):
        self.value = before if before is not None else reading(tensor)
        self.factors = factors_of(tensor.grad_fn, before is not None) if self.value is not None else []

    def values(self):
        """The value, and the one without the factors. The device must have reached this point."""
        if self.value is None:
            return None
        value = unscaled = float(self.value)
        for factor, power in self.factors:
            factor = float(factor)
            if factor != 0:
                unscaled = unscaled / factor if power > 0 else unscaled * factor
        return value, unscaled


def factors_of(node, of_scaler):
    """The constants by which the script's loss was multiplied last, with the power 1 or -1. A sum that is divided by its
    number of terms is a mean, and no loss that is scaled."""
    factors = []
    while node is not None and len(factors) < FACTORS:
        name, inputs = node.name(), node.next_functions
        if name not in ("MulBackward0", "DivBackward0") or len(inputs) != 2:
            break
        constant = next((i for i in (1, 0) if inputs[i][0] is None), None)
        if constant is None or (name == "DivBackward0" and constant == 0):
            break
        inner = inputs[1 - constant][0]
        if name == "DivBackward0" and is_sum(inner):
            break
        factor = node._saved_other if constant == 1 else node._saved_self
        factor = reading(factor) if factor is not None else None
        if factor is None:
            break
        if not of_scaler:
            factors.append((factor, 1 if name == "MulBackward0" else -1))
        of_scaler, node = False, inner
    return factors


PASSED = ("ToCopyBackward0", "ViewBackward0", "SqueezeBackward0", "UnsqueezeBackward0", "ReshapeAliasBackward0")


def is_sum(node):
    while node is not None and node.name() in PASSED:
        node = node.next_functions[0][0]
    if node is None or node.name() in ("SumBackward0", "SumBackward1", "AddBackward0"):
        return True
    return getattr(node, "_saved_reduction", None) == 2
