"""Networks that read images of words, under the same names as in docTR."""

from __future__ import annotations

from .crnn import CRNN, CTCPostProcessor, crnn_mobilenet_v3_large, crnn_mobilenet_v3_small, crnn_vgg16_bn
from .master import MASTER, MASTERPostProcessor, master
from .onnx_lines import OnnxLineRecognizer, load_line_recognizer
from .parseq import PARSeq, PARSeqPostProcessor, parseq
from .ppocr import PPOCRRecognizer, ppocr_v6_small_reco, ppocr_v6_small_reco_tuned
from .sar import SAR, SARPostProcessor, sar_resnet31
from .viptr import VIPTR, VIPTRPostProcessor, viptr_tiny
from .vitstr import ViTSTR, ViTSTRPostProcessor, vitstr_base, vitstr_small
from .zoo import recognition_predictor

__all__ = [
    "CRNN",
    "MASTER",
    "SAR",
    "VIPTR",
    "CTCPostProcessor",
    "MASTERPostProcessor",
    "OnnxLineRecognizer",
    "PARSeq",
    "PARSeqPostProcessor",
    "PPOCRRecognizer",
    "SARPostProcessor",
    "VIPTRPostProcessor",
    "ViTSTR",
    "ViTSTRPostProcessor",
    "crnn_mobilenet_v3_large",
    "crnn_mobilenet_v3_small",
    "crnn_vgg16_bn",
    "load_line_recognizer",
    "master",
    "parseq",
    "ppocr_v6_small_reco",
    "ppocr_v6_small_reco_tuned",
    "recognition_predictor",
    "sar_resnet31",
    "viptr_tiny",
    "vitstr_base",
    "vitstr_small",
]
