"""The zoo's models of torchvision, unchanged, scripted and traced."""

import torch
import torchvision
from torch import Tensor, nn
from torchvision import models

from zoo import images, register

BOTH = ("script", "trace")
CLASSIFIERS = {  # side of the image, and kinds
    "resnet18": (64, BOTH), "resnext50_32x4d": (64, ("trace",)), "alexnet": (64, BOTH), "vgg11": (32, ("trace",)),
    "vgg11_bn": (32, ("script",)), "squeezenet1_1": (64, BOTH), "densenet121": (64, BOTH), "shufflenet_v2_x0_5": (64, BOTH),
    "mobilenet_v2": (64, BOTH), "mobilenet_v3_small": (64, BOTH), "mnasnet0_5": (64, BOTH), "regnet_y_400mf": (64, BOTH),
    "regnet_x_400mf": (64, ("trace",)), "efficientnet_b0": (64, BOTH), "efficientnet_v2_s": (64, ("script",)),
    "convnext_tiny": (64, BOTH), "swin_t": (64, BOTH), "swin_v2_t": (64, ("trace",)),
}


class Entry(nn.Module):
    """Returns one entry of a model that returns a dict."""

    def __init__(self, model, key: str):
        super().__init__()
        self.model, self.key = model, key

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)[self.key]


def classifier(name: str, side: int, **more):
    return getattr(models, name)(num_classes=10, **more), images(2, side)


def segmenter(name: str, **more):
    model = getattr(models.segmentation, name)(weights=None, weights_backbone=None, num_classes=5, **more)
    return Entry(model, "out"), {"x": torch.randn(2, 3, 64, 64), "target": torch.randint(0, 5, (2, 64, 64))}


def film(name: str):
    return getattr(models.video, name)(num_classes=10), {"x": torch.randn(2, 3, 4, 32, 32),
                                                         "target": torch.randint(0, 10, (2,))}


for name, (side, kinds) in CLASSIFIERS.items():
    register(f"tv_{name}", "cross_entropy", lambda name=name, side=side: classifier(name, side), kinds=kinds,
             tags=("torchvision",))
register("tv_googlenet", "cross_entropy",
         lambda: classifier("googlenet", 64, aux_logits=False, transform_input=False, init_weights=False),
         kinds=("trace",), tags=("torchvision",))
register("tv_inception_v3", "cross_entropy",
         lambda: classifier("inception_v3", 128, aux_logits=False, init_weights=False), kinds=("trace",),
         tags=("torchvision",))
register("tv_vit", "cross_entropy",
         lambda: (models.VisionTransformer(image_size=32, patch_size=8, num_layers=3, num_heads=4, hidden_dim=64,
                                           mlp_dim=128, num_classes=10), images(2, 32)),
         kinds=BOTH, tags=("torchvision",))
register("tv_maxvit", "cross_entropy",
         lambda: (models.MaxVit((64, 64), 16, 4, [16, 32], [1, 2], 16, 0.0, num_classes=10),
                  images(2, 64)), kinds=("trace",), tags=("torchvision",))
for name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
    register(f"tv_{name}", "cross_entropy", lambda name=name: segmenter(name), kinds=("trace",), tags=("torchvision",))
for name in ("r3d_18", "mc3_18", "r2plus1d_18"):
    register(f"tv_{name}", "cross_entropy", lambda name=name: film(name), kinds=("script",), tags=("torchvision",))
