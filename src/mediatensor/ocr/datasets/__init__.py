"""Data sets and generators with the names of docTR, from files that the user has; vocabularies and their encoding.

From below: `_labels` reads label files, `_archives` finds and unpacks what was published, `datasets` has the classes to
derive from, and `_words` what loaders of pages with words have in common. `_custom`, `_documents` and `_scenes` are the
data sets. The room knows the readers of images in `ocr.io` and the geometry of `ocr.utils`, and no network.
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
