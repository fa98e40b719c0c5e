"""The zoo's models of timm, traced: the smallest of each family that takes small images."""

import timm

from zoo import images, register

SQUARE = {"img_size": 64}
TRACED = {  # side of the image, and further arguments of timm
    "resnet18": (64, {}), "resnet26t": (64, {}), "seresnet18": (64, {}), "skresnet18": (64, {}), "ecaresnet26t": (64, {}),
    "efficientnet_b0": (64, {}), "tf_efficientnetv2_b0": (64, {}), "mobilenetv3_small_050": (64, {}),
    "mobilenetv4_conv_small": (64, {}), "mnasnet_small": (64, {}), "fbnetc_100": (64, {}), "tinynet_e": (64, {}),
    "ghostnet_050": (64, {}), "hardcorenas_a": (64, {}), "lcnet_035": (64, {}), "semnasnet_075": (64, {}),
    "regnety_002": (64, {}), "regnetx_002": (64, {}), "nf_regnet_b0": (64, {}), "densenet121": (64, {}),
    "dla34": (64, {}), "hrnet_w18_small": (64, {}), "ese_vovnet19b_dw": (64, {}), "selecsls42": (64, {}),
    "darknet21": (64, {}), "cspresnet50": (64, {}), "dpn48b": (64, {}), "inception_v3": (128, {}),
    "rexnet_100": (64, {}), "repvgg_a0": (64, {}), "repvit_m0_9": (64, {}), "mobileone_s0": (64, {}),
    "convnext_atto": (64, {}), "convnextv2_atto": (64, {}), "inception_next_atto": (128, {}), "edgenext_xx_small": (64, {}),
    "poolformer_s12": (64, {}), "caformer_s18": (64, {}), "fastvit_t8": (64, {}), "mobilevit_xxs": (64, {}),
    "mobilevitv2_050": (64, {}), "starnet_s1": (64, {}), "mambaout_femto": (64, {}), "lambda_resnet26t": (64, {}),
    "vit_tiny_patch16_224": (64, SQUARE), "deit_tiny_patch16_224": (64, SQUARE), "cait_xxs24_224": (64, SQUARE),
    "xcit_nano_12_p16_224": (64, SQUARE), "eva02_tiny_patch14_224": (56, {"img_size": 56}), "mixer_s32_224": (64, SQUARE),
    "gmlp_s16_224": (64, SQUARE), "resmlp_12_224": (64, SQUARE), "swin_tiny_patch4_window7_224": (
        64, {"img_size": 64, "window_size": 4}), "swinv2_cr_tiny_ns_224": (64, {"img_size": 64, "window_size": 2}),
    "pit_ti_224": (64, SQUARE), "levit_128s": (64, SQUARE), "pvt_v2_b0": (64, {}), "davit_tiny": (64, {}),
    "coatnet_nano_rw_224": (64, SQUARE), "maxvit_pico_rw_256": (64, SQUARE), "efficientformer_l1": (224, {}),
    "efficientvit_b0": (64, {}), "gcvit_xxtiny": (64, SQUARE), "focalnet_tiny_srf": (64, {}),
    "convmixer_768_32": (64, {}), "visformer_tiny": (64, SQUARE), "tnt_s_patch16_224": (64, SQUARE),
    "crossvit_tiny_240": (240, {}), "volo_d1_224": (64, SQUARE), "hgnetv2_b0": (64, {}),
}
SCRIPTED = ("resnet18", "efficientnet_b0", "convnext_atto", "vit_tiny_patch16_224", "mobilevit_xxs", "regnety_002",
            "densenet121", "levit_128s")


def build(name: str):
    side, more = TRACED[name]
    return timm.create_model(name, pretrained=False, num_classes=10, **more), images(2, side)


for name in TRACED:
    kinds = ("script", "trace") if name in SCRIPTED else ("trace",)
    register(f"timm_{name}", "cross_entropy", lambda name=name: build(name), kinds=kinds, tags=("timm",))
