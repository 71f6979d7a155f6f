"""Predictors of text and of key information, by the names of their architectures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from inspect import signature
from typing import Any, TypeVar

from torch import nn

from ...errors import InvalidArgumentError
from ..datasets import VOCABS
from .classification.ppocr import ppocr_mobile_v2_line_orientation
from .detection.zoo import detection_predictor
from .kie_predictor import KIEPredictor
from .layout import layout_predictor
from .predictor import OCRPredictor
from .predictor.base import TextPredictor
from .recognition.zoo import recognition_predictor
from .table_structure import table_predictor
from .video_predictor import VideoTextPredictor

__all__ = ["kie_predictor", "ocr_predictor", "video_text_predictor"]

_Predictor = TypeVar("_Predictor", bound=TextPredictor)


def ocr_predictor(
    det_arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_det",
    reco_arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_reco",
    pretrained: bool = False,
    pretrained_backbone: bool = False,
    assume_straight_pages: bool = True,
    preserve_aspect_ratio: bool = True,
    symmetric_pad: bool = True,
    export_as_straight_boxes: bool = False,
    detect_orientation: bool = False,
    straighten_pages: bool = False,
    detect_language: bool = False,
    detect_layout: bool = False,
    layout_arch: str | os.PathLike[str] | nn.Module | None = None,
    ignore_regions: Any = None,
    detect_tables: bool = False,
    **kwargs: Any,
) -> OCRPredictor:
    """A predictor that reads the text of pages.

    Args:
        det_arch: The detector: a name of ``list_models("det_*")``, the path of a checkpoint (``.pt``) that training
            wrote, or a model.
        reco_arch: The recogniser: a name of ``list_models("reco_*")``, the path of a checkpoint, or a model.
        pretrained: Load the weights, from this machine: those of the default come with ``mediatensor[ocr]``.
        pretrained_backbone: Load those of the backbones, where ``pretrained`` is false.
        assume_straight_pages: Boxes are straight: pages are upright, or turned by 90, 180 or 270 degrees, which shows
            in how their lines read; ``page.orientation`` then says so, words are read as on the upright page, and boxes
            are where they are on the page as it came. Else boxes are quads in the direction of reading, and pages may
            be turned in any way.
        preserve_aspect_ratio: Scale both sides of a page alike for the detector.
        symmetric_pad: Pad on all sides, where the detector needs padding.
        export_as_straight_boxes: Give straight boxes in the document even of rotated text.
        detect_orientation: Report in ``page.orientation`` by how many degrees each page is turned, clockwise, small
            angles and 0 included.
        straighten_pages: Turn pages upright first. Boxes are relative to the upright page.
        detect_language: Report the language in ``page.language``; needs ``langdetect``.
        detect_layout: Find the regions of each page, ``page.layout``: titles, section headers with their levels, text,
            list items, tables, pictures, captions, formulas, footnotes, headers and footers, in reading order. Blocks
            are then regions, and ``page.fields`` has the pairs of a key and a value.
        layout_arch: What finds regions: a name of ``list_models("layout_*")``, the path of a checkpoint, or a model.
            ``None`` finds them by rules, which need no weights.
        ignore_regions: Boxes (xmin, ymin, xmax, ymax), relative, that are not read on any page; or kinds of regions,
            such as ``"Page-footer"``, whose text is left out.
        detect_tables: Find the tables of each page, ``page.tables``, with rows, columns, spans and heads, by rules; and
            regions, as ``detect_layout`` does.
        **kwargs: ``det_bs`` (2) and ``reco_bs`` (128), batch sizes; ``vocab``, the characters that may be read, for a
            recogniser that is given by name; ``preserve_original_coords``, boxes relative to the page as it came even
            where it was straightened; ``disable_page_orientation``, pages are read as they lie, and
            ``disable_crop_orientation``, lines as their page does;
            ``shorter_side`` and ``longer_side``, the size of pages for the default detector in pixels;
            ``min_confidence`` (0.2), ``split_after``, ``on_error``, ``unreadable_scripts`` and ``script_readers`` of
            :class:`~mediatensor.ocr.models.predictor.base.TextPredictor`;
            ``table_arch``, as ``layout_arch``, a network that finds the cells of the tables which that one finds;
            ``text_layer``, take the words that PDF files have, in place of reading them;
            ``fields``, the keys and values to look for, ``"invoice"``, ``"receipt"``, or
            :class:`~mediatensor.ocr.structure.FieldRule` objects;
            ``keep_reading_order`` (true), blocks are paragraphs in the order in which they are read and exported;
            ``resolve_lines``, ``resolve_blocks``, ``paragraph_break`` and ``line_break`` of
            :class:`~mediatensor.ocr.models.builder.DocumentBuilder`.

    Returns:
        The predictor, a module. One serves any number of threads. ``predictor.to("cuda")`` moves it: pages that are
        there, such as a decoder's frames, stay there, others are copied once, and the program waits for the device once
        for each batch of pages that is searched for text and once for each page that is read, or a few times where
        lines may be turned, as those that read badly may.

    Raises:
        InvalidArgumentError: An architecture is unknown, or something is asked for that is not available.
        WeightsNotFoundError: There are no weights on this machine; the message says what to install.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr import ocr_predictor
        >>> page = np.full((200, 400, 3), 255, np.uint8)
        >>> ocr_predictor(pretrained=True)([page]).render()
        ''
    """
    return _built(
        OCRPredictor,
        det_arch,
        reco_arch,
        pretrained,
        pretrained_backbone,
        preserve_aspect_ratio,
        symmetric_pad,
        assume_straight_pages=assume_straight_pages,
        export_as_straight_boxes=export_as_straight_boxes,
        detect_orientation=detect_orientation,
        straighten_pages=straighten_pages,
        detect_language=detect_language,
        detect_layout=detect_layout,
        layout_arch=layout_arch,
        ignore_regions=ignore_regions,
        detect_tables=detect_tables,
        **kwargs,
    )


def kie_predictor(
    det_arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_det",
    reco_arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_reco",
    pretrained: bool = False,
    pretrained_backbone: bool = False,
    assume_straight_pages: bool = True,
    preserve_aspect_ratio: bool = True,
    symmetric_pad: bool = True,
    export_as_straight_boxes: bool = False,
    detect_orientation: bool = False,
    straighten_pages: bool = False,
    detect_language: bool = False,
    detect_layout: bool = False,
    layout_arch: str | os.PathLike[str] | nn.Module | None = None,
    ignore_regions: Any = None,
    **kwargs: Any,
) -> KIEPredictor:
    """A predictor that reads text by class; the classes are those of the detector, one for the default.

    Args:
        det_arch: See :func:`ocr_predictor`, as all arguments.
        reco_arch: The recogniser.
        pretrained: Load the weights, from this machine.
        pretrained_backbone: Load those of the backbones.
        assume_straight_pages: Boxes are straight, see :func:`ocr_predictor`.
        preserve_aspect_ratio: Scale both sides of a page alike.
        symmetric_pad: Pad on all sides.
        export_as_straight_boxes: Give straight boxes even of rotated text.
        detect_orientation: Report by how much each page is turned.
        straighten_pages: Turn pages upright first.
        detect_language: Report the language.
        detect_layout: Find the regions of each page.
        layout_arch: What finds them.
        ignore_regions: Boxes, or kinds of regions, that are left out.
        **kwargs: See :func:`ocr_predictor`.

    Returns:
        The predictor.

    Raises:
        InvalidArgumentError: An architecture is unknown, or something is asked for that is not available.
        WeightsNotFoundError: There are no weights on this machine.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr import kie_predictor
        >>> document = kie_predictor(pretrained=True)([np.full((200, 400, 3), 255, np.uint8)])
        >>> document.pages[0].predictions
        {'words': []}
    """
    return _built(
        KIEPredictor,
        det_arch,
        reco_arch,
        pretrained,
        pretrained_backbone,
        preserve_aspect_ratio,
        symmetric_pad,
        assume_straight_pages=assume_straight_pages,
        export_as_straight_boxes=export_as_straight_boxes,
        detect_orientation=detect_orientation,
        straighten_pages=straighten_pages,
        detect_language=detect_language,
        detect_layout=detect_layout,
        layout_arch=layout_arch,
        ignore_regions=ignore_regions,
        **kwargs,
    )


def video_text_predictor(
    det_arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_det",
    reco_arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_reco",
    pretrained: bool = False,
    *,
    languages: str | Sequence[str] | None = None,
    **kwargs: Any,
) -> VideoTextPredictor:
    """A predictor that reads the text of videos: what stood where, from which frame to which.

    Args:
        det_arch: The detector of lines: a name of ``list_models("det_*")``, or a model.
        reco_arch: The recogniser of lines: a name of ``list_models("reco_*")``, or a model.
        pretrained: Load the weights, from this machine: those of the default come with ``mediatensor[ocr]``.
        languages: Names of :data:`mediatensor.ocr.datasets.VOCABS`, such as ``"german"``: only their characters are
            read. ``None`` for all that the recogniser knows.
        **kwargs: ``region``, ``kinds`` and ``min_confidence`` of
            :class:`~mediatensor.ocr.models.video_predictor.VideoTextPredictor`; ``vocab``, the characters that may be
            read, in place of ``languages``.

    Returns:
        The predictor, a module: ``predictor.to("cuda")`` moves its networks. Frames are decoded on the CPU.

    Raises:
        InvalidArgumentError: An architecture or a language is unknown, or the recogniser reads no lines, or not the
            language.
        WeightsNotFoundError: There are no weights on this machine; the message says what to install.

    Example:
        >>> from mediatensor.ocr import video_text_predictor
        >>> reading = video_text_predictor(pretrained=True)("video.mp4")
        >>> reading.captions.save("video.srt")
    """
    vocab = {"vocab": kwargs.pop("vocab")} if "vocab" in kwargs else {}
    if languages is not None:
        names = [languages] if isinstance(languages, str) else list(languages)
        unknown = sorted(set(names) - set(VOCABS))
        if unknown or not names or vocab:
            raise InvalidArgumentError(
                f"languages={languages!r}: give one or more names of mediatensor.ocr.datasets.VOCABS, such as "
                '"english" or "german", and no vocab beside them.'
            )
        vocab = {"vocab": "".join(dict.fromkeys("".join(VOCABS[name] for name in names))) + " "}  # spaces part words
    _refuse_unknown(VideoTextPredictor, kwargs, _keywords_of(VideoTextPredictor))
    # Bands of frames are searched in the size that they have.
    detector = detection_predictor(det_arch, pretrained=pretrained, shorter_side=32, longer_side=4096)
    if languages is not None:
        known = set(recognition_predictor(reco_arch, pretrained=pretrained).model.vocab)
        unread = [name for name in names if 2 * len(known.intersection(_letters(name))) < len(_letters(name))]
        if unread:
            raise InvalidArgumentError(
                f"languages={languages!r}: the recogniser has not half of the letters of {', '.join(unread)}. Leave it "
                "out, or pass a reco_arch that reads them."
            )
    recogniser = recognition_predictor(reco_arch, pretrained=pretrained, **vocab)
    return VideoTextPredictor(detector, recogniser, **kwargs)


def _letters(language: str) -> set[str]:
    return {character for character in VOCABS[language] if character.isalpha()}


def _built(
    kind: type[_Predictor],
    det_arch: str | os.PathLike[str] | nn.Module,
    reco_arch: str | os.PathLike[str] | nn.Module,
    pretrained: bool,
    pretrained_backbone: bool,
    preserve_aspect_ratio: bool,
    symmetric_pad: bool,
    /,
    **options: Any,
) -> _Predictor:
    """A predictor of this kind; ``options`` are for it, but for those of the detector and the recogniser."""
    sides = {name: options.pop(name) for name in ("shorter_side", "longer_side") if name in options}
    detector = detection_predictor(
        det_arch,
        pretrained=pretrained,
        assume_straight_pages=options["assume_straight_pages"],
        preserve_aspect_ratio=preserve_aspect_ratio,
        symmetric_pad=symmetric_pad,
        batch_size=options.pop("det_bs", 2),
        pretrained_backbone=pretrained_backbone,
        **sides,
    )
    vocab = {"vocab": options.pop("vocab")} if "vocab" in options else {}
    backbone = {"pretrained_backbone": pretrained_backbone} if isinstance(reco_arch, str | os.PathLike) else {}
    recogniser = recognition_predictor(
        reco_arch, pretrained=pretrained, batch_size=options.pop("reco_bs", 128), **backbone, **vocab
    )
    for name, make in (("layout", layout_predictor), ("table", table_predictor)):
        arch = options.pop(f"{name}_arch", None)
        if arch is not None:
            # What is looked at is upright by then.
            options[f"{name}_predictor"] = make(arch, pretrained=pretrained, assume_straight_pages=True)
    needs_turns = not options["assume_straight_pages"] or options["detect_orientation"] or options["straighten_pages"]
    # docTR's orientation models are always pretrained; so is this one, which costs 0.6 MB.
    classifier = ppocr_mobile_v2_line_orientation(pretrained=True) if needs_turns else None
    _refuse_unknown(kind, options, _keywords_of(TextPredictor) | set(signature(kind.builder_type).parameters))
    return kind(detector, recogniser, classifier, **options)


def _keywords_of(kind: type) -> set[str]:
    return {name for name, one in signature(kind).parameters.items() if one.kind is one.KEYWORD_ONLY}


def _refuse_unknown(kind: type, options: dict[str, Any], known: set[str]) -> None:
    if unknown := sorted(set(options) - known):
        raise InvalidArgumentError(f"{kind.__name__} has no arguments {', '.join(unknown)}.")
