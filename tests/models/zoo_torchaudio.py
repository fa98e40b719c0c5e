"""The zoo's models of torchaudio, tiny."""

import torch
from torch import Tensor, nn
from torchaudio import models

from zoo import register


class First(nn.Module):
    """Returns the first output of a model."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)[0]


class OfLengths(First):
    """The same for models that also take the lengths."""

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x, torch.full((x.size(0),), x.size(1)))[0]


def wav2vec2() -> First:
    return First(models.wav2vec2_model("layer_norm", [(16, 10, 5), (16, 8, 4)], False, 64, 0.1, 16, 4, 3, 4, 0.1, 128, 0.1,
                                       0.1, True, 0.0, None))


BUILDERS = {
    "wav2vec2": lambda: (wav2vec2(), {"x": torch.randn(2, 1000)}),
    "conformer": lambda: (OfLengths(models.Conformer(32, 4, 64, 3, 7)), {"x": torch.randn(2, 20, 32)}),
    "emformer": lambda: (OfLengths(models.Emformer(32, 4, 64, 3, 4)), {"x": torch.randn(2, 20, 32)}),
    "deepspeech": lambda: (models.DeepSpeech(16, 32, 10), {"x": torch.randn(2, 1, 20, 16)}),
    "wav2letter": lambda: (models.Wav2Letter(10, "mfcc", 16), {"x": torch.randn(2, 16, 64)}),
    "conv_tasnet": lambda: (models.ConvTasNet(2, 16, 32, 3, 16, 32, 3, 2), {"input": torch.randn(2, 1, 800)}),
    "hdemucs": lambda: (models.hdemucs_low(["drums", "voice"]), {"input": torch.randn(1, 2, 16384)}),
}


def with_target(build):
    """Adds a target: noise of the output's shape."""
    model, inputs = build()
    with torch.no_grad():
        answer = model.eval()(*inputs.values())
    return model, {**inputs, "target": torch.randn(answer.shape)}


for name, build in BUILDERS.items():
    register(f"ta_{name}", "mse", lambda build=build: with_target(build), kinds=("trace",), tags=("torchaudio",))
