"""Text detection: find words or lines on pages."""

from .differentiable_binarization import DBNet, db_mobilenet_v3_large, db_resnet34, db_resnet50
from .fast import FAST, fast_base, fast_small, fast_tiny, reparameterize
from .linknet import LinkNet, linknet_resnet18, linknet_resnet34, linknet_resnet50
from .ppocr import PPOCRDetector, ppocr_v6_small_det
from .zoo import detection_predictor

__all__ = [
    "FAST",
    "DBNet",
    "LinkNet",
    "PPOCRDetector",
    "db_mobilenet_v3_large",
    "db_resnet34",
    "db_resnet50",
    "detection_predictor",
    "fast_base",
    "fast_small",
    "fast_tiny",
    "linknet_resnet18",
    "linknet_resnet34",
    "linknet_resnet50",
    "ppocr_v6_small_det",
    "reparameterize",
]
