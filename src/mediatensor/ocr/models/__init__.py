"""Networks that find and read text, and predictors made of them."""

from . import classification, detection, recognition
from ._registry import ModelCard, list_models, model_card
from ._weights import find_weights
from .classification import (
    crop_orientation_predictor,
    mobilenet_v3_small_crop_orientation,
    mobilenet_v3_small_page_orientation,
    page_orientation_predictor,
    ppocr_mobile_v2_line_orientation,
)
from .detection import (
    db_mobilenet_v3_large,
    db_resnet34,
    db_resnet50,
    detection_predictor,
    fast_base,
    fast_small,
    fast_tiny,
    linknet_resnet18,
    linknet_resnet34,
    linknet_resnet50,
    ppocr_v6_small_det,
    reparameterize,
)
from .recognition import (
    crnn_mobilenet_v3_large,
    crnn_mobilenet_v3_small,
    crnn_vgg16_bn,
    parseq,
    ppocr_v6_small_reco,
    recognition_predictor,
    vitstr_base,
    vitstr_small,
)
from .zoo import kie_predictor, ocr_predictor

__all__ = [
    "ModelCard",
    "classification",
    "crnn_mobilenet_v3_large",
    "crnn_mobilenet_v3_small",
    "crnn_vgg16_bn",
    "crop_orientation_predictor",
    "db_mobilenet_v3_large",
    "db_resnet34",
    "db_resnet50",
    "detection",
    "detection_predictor",
    "fast_base",
    "fast_small",
    "fast_tiny",
    "find_weights",
    "kie_predictor",
    "linknet_resnet18",
    "linknet_resnet34",
    "linknet_resnet50",
    "list_models",
    "mobilenet_v3_small_crop_orientation",
    "mobilenet_v3_small_page_orientation",
    "model_card",
    "ocr_predictor",
    "page_orientation_predictor",
    "parseq",
    "ppocr_mobile_v2_line_orientation",
    "ppocr_v6_small_det",
    "ppocr_v6_small_reco",
    "recognition",
    "recognition_predictor",
    "reparameterize",
    "vitstr_base",
    "vitstr_small",
]
