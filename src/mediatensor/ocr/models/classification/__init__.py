"""Classifiers: backbones for detectors and recognisers, and networks that detect how crops and pages are turned."""

from .magc_resnet import MAGC, magc_resnet31
from .mobilenet import (
    MobileNetV3,
    mobilenet_v3_large,
    mobilenet_v3_large_r,
    mobilenet_v3_small,
    mobilenet_v3_small_crop_orientation,
    mobilenet_v3_small_page_orientation,
    mobilenet_v3_small_r,
)
from .ppocr import LineOrientationClassifier, ppocr_mobile_v2_line_orientation
from .resnet import ResNet, resnet18, resnet31, resnet34, resnet34_wide, resnet50, resnet_stage
from .starnet import StarNet, starnet_s3
from .textnet import TextNet, textnet_base, textnet_small, textnet_tiny
from .vgg import VGG, vgg16_bn_r
from .vip import VIPNet, vip_base, vip_tiny
from .vit import VisionTransformer, vit_b, vit_s
from .vit_det import VisionDetectionTransformer, vit_det_m, vit_det_s
from .zoo import crop_orientation_predictor, page_orientation_predictor

__all__ = [
    "MAGC",
    "VGG",
    "LineOrientationClassifier",
    "MobileNetV3",
    "ResNet",
    "StarNet",
    "TextNet",
    "VIPNet",
    "VisionDetectionTransformer",
    "VisionTransformer",
    "crop_orientation_predictor",
    "magc_resnet31",
    "mobilenet_v3_large",
    "mobilenet_v3_large_r",
    "mobilenet_v3_small",
    "mobilenet_v3_small_crop_orientation",
    "mobilenet_v3_small_page_orientation",
    "mobilenet_v3_small_r",
    "page_orientation_predictor",
    "ppocr_mobile_v2_line_orientation",
    "resnet18",
    "resnet31",
    "resnet34",
    "resnet34_wide",
    "resnet50",
    "resnet_stage",
    "starnet_s3",
    "textnet_base",
    "textnet_small",
    "textnet_tiny",
    "vgg16_bn_r",
    "vip_base",
    "vip_tiny",
    "vit_b",
    "vit_det_m",
    "vit_det_s",
    "vit_s",
]
