"""Datasets of images with their texts, generators of such images, and vocabularies, with the same names as in docTR.

The datasets read files that are on this machine. `_files` reads label files, and finds and unpacks published archives.
`datasets` has the base classes. `_custom`, `_documents` and `_scenes` have the datasets.
"""

from __future__ import annotations

from . import datasets, generator
from ._custom import (
    DetectionDataset,
    LayoutDataset,
    OCRDataset,
    OrientationDataset,
    RecognitionDataset,
    TableStructureDataset,
)
from ._documents import CORD, FUNSD, SROIE, WILDRECEIPT, DocArtefacts
from ._scenes import COCOTEXT, IC03, IC13, IIIT5K, IIITHWS, IMGUR5K, SVHN, SVT, MJSynth, SynthText
from .generator import CharacterGenerator, WordGenerator
from .utils import (
    convert_target_to_relative,
    crop_bboxes_from_image,
    decode_sequence,
    encode_sequences,
    encode_string,
    pre_transform_multiclass,
    translate,
)
from .vocabs import VOCABS

__all__ = [
    "COCOTEXT",
    "CORD",
    "FUNSD",
    "IC03",
    "IC13",
    "IIIT5K",
    "IIITHWS",
    "IMGUR5K",
    "SROIE",
    "SVHN",
    "SVT",
    "VOCABS",
    "WILDRECEIPT",
    "CharacterGenerator",
    "DetectionDataset",
    "DocArtefacts",
    "LayoutDataset",
    "MJSynth",
    "OCRDataset",
    "OrientationDataset",
    "RecognitionDataset",
    "SynthText",
    "TableStructureDataset",
    "WordGenerator",
    "convert_target_to_relative",
    "crop_bboxes_from_image",
    "datasets",
    "decode_sequence",
    "encode_sequences",
    "encode_string",
    "generator",
    "pre_transform_multiclass",
    "translate",
]
