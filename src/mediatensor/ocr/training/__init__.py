"""Train text detectors and recognisers on your pages and lines, and score models."""

from __future__ import annotations

from ._detection import changed_page, cropped_page
from ._drawn import DrawnLines, DrawnPages, drawn_lines, drawn_pages
from ._evaluating import evaluate
from ._exporting import LineFolder as LineFolder  # for the command
from ._exporting import export_lines
from ._fit import fit
from ._loop import Fit
from ._rows import LineDataset, PageDataset, changed_line
from ._scores import (
    CharacterScore,
    DetectionEvaluation,
    Evaluation,
    Latency,
    LengthScore,
    LineScore,
    PageScore,
    RecognitionEvaluation,
)
from ._worst_cases import WorstLine, WorstPage
from ._worst_cases import picture_format as picture_format

__all__ = [
    "CharacterScore",
    "DetectionEvaluation",
    "DrawnLines",
    "DrawnPages",
    "Evaluation",
    "Fit",
    "Latency",
    "LengthScore",
    "LineDataset",
    "LineScore",
    "PageDataset",
    "PageScore",
    "RecognitionEvaluation",
    "WorstLine",
    "WorstPage",
    "changed_line",
    "changed_page",
    "cropped_page",
    "drawn_lines",
    "drawn_pages",
    "evaluate",
    "export_lines",
    "fit",
]
