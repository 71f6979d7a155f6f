"""Make predictors of text, of key information, and of text in videos, by the names of their architectures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Never, TypeVar

from torch import nn

from ..._engine.common.messages import warn_once
from ...errors import InvalidArgumentError
from ..datasets import VOCABS
from ..structure import FieldRule
from ..video import TextKind
from ._networks.weights import is_checkpoint
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
    *,
    table_arch: str | os.PathLike[str] | nn.Module | None = None,
    fields: str | Sequence[FieldRule] | bool | None = None,
    text_layer: bool = False,
    preserve_original_coords: bool = False,
    disable_page_orientation: bool = False,
    disable_crop_orientation: bool = False,
    vocab: str | Sequence[str] | None = None,
    min_confidence: float = 0.2,
    split_after: str = "",
    unreadable_scripts: Literal["report", "read"] = "report",
    script_readers: Mapping[str, str | os.PathLike[str] | nn.Module] | None = None,
    on_error: Literal["report", "raise"] = "report",
    det_bs: int = 2,
    reco_bs: int = 128,
    shorter_side: int | None = None,
    longer_side: int | None = None,
    resolve_lines: bool = True,
    resolve_blocks: bool = False,
    paragraph_break: float = 0.035,
    line_break: float = 0.8,
    keep_reading_order: bool = True,
    **unknown: Never,
) -> OCRPredictor:
    """Make a predictor that reads the text of pages.

    Give ``pretrained=True``: without it, networks that are given by name have random weights, as in docTR, and read
    nothing of use.

    Args:
        det_arch: The detector: a name of ``list_models("det_*")``, the path of a checkpoint (``.pt``) that training
            wrote, or a model.
        reco_arch: The recogniser: a name of ``list_models("reco_*")``, the path of a checkpoint, or a model.
        pretrained: Load the weights, from this machine; ``mediatensor[ocr]`` has the default ones.
        pretrained_backbone: Load the weights of the backbones, if ``pretrained`` is false.
        assume_straight_pages: Boxes are straight: pages are upright, or turned by 90, 180 or 270 degrees, which shows
            in how their lines read. ``page.orientation`` then has the turn, words are read as on the upright page, and
            boxes are relative to the page as it came. Otherwise boxes are quads in the direction of reading, and pages
            may be turned by any angle.
        preserve_aspect_ratio: Scale both sides of a page alike for the detector.
        symmetric_pad: Pad on all sides, if the detector needs padding.
        export_as_straight_boxes: Use straight boxes in the document even for rotated text.
        detect_orientation: Report in ``page.orientation`` by how many degrees each page is turned, clockwise, including
            small angles and 0.
        straighten_pages: Turn pages upright first. Boxes are relative to the upright page.
        detect_language: Report the language in ``page.language``; needs ``langdetect``.
        detect_layout: Find the regions of each page, ``page.layout``: titles, section headers with their levels, text,
            list items, tables, pictures, captions, formulas, footnotes, headers and footers, in reading order. Blocks
            are then regions, and ``page.fields`` has the pairs of a key and a value.
        layout_arch: The network that finds regions: a name of ``list_models("layout_*")``, the path of a checkpoint, or
            a model. ``None`` finds them by rules, which need no weights.
        ignore_regions: Boxes (xmin, ymin, xmax, ymax), relative, that are not read on any page; or kinds of regions,
            such as ``"Page-footer"``, whose text and tables are left out.
        detect_tables: Find the tables of each page, ``page.tables``, with rows, columns, spans and heads, by rules.
            Their words are in no block. Regions are found as with ``detect_layout``.
        table_arch: The network that finds the cells of the tables that ``layout_arch`` finds, as ``layout_arch``.
        fields: The keys and values to look for, for ``page.fields``: ``"invoice"``, ``"receipt"``,
            `FieldRule` objects, or true, or ``"all"``, for every pair of a key and a
            value; false for none. ``None`` is true with ``detect_layout``, and false without.
        text_layer: Take the words that a page of a PDF file has as text instead of reading them. Pages without such
            words are read, and so are pictures on other pages, and scans to which only stamps or filled-in fields were
            added.
        preserve_original_coords: Use boxes relative to the page as it came even if it was straightened.
        disable_page_orientation: Read pages as they lie; only small angles count.
        disable_crop_orientation: Read lines in the direction of their page.
        vocab: The characters that may be read, for a recogniser that is given by name.
        min_confidence: Lines with a smaller share of words that are expected to be right, in [0, 1], are not part of
            the text; ``page.unread`` lists them. For recognisers of lines.
        split_after: Characters that end a word in addition to spaces, as ``"-/"`` if "12/31-98" counts as three words.
            For recognisers of lines.
        unreadable_scripts: ``"report"``: a line in a script that the recogniser cannot read is not part of the text,
            and ``page.unread`` has its place and script. ``"read"``: it is read as letters that look alike.
        script_readers: Recognisers of lines in such scripts, by the name of the script, such as "Cyrillic": models, or
            paths for `load_line_recognizer`.
        on_error: ``"report"``: a page that cannot be read is empty, with the reason in ``page.error``, and a warning.
            ``"raise"``: it raises `PageError`.
        det_bs: Pages that the detector searches together.
        reco_bs: Most crops that a recogniser of words reads together; line recognisers batch lines by width.
        shorter_side: Least length of the shorter side of pages for the default detector, in pixels.
        longer_side: Greatest length of their longer side.
        resolve_lines: Gather words into lines; otherwise all words of a page are one line.
        resolve_blocks: Gather lines into blocks, without ``keep_reading_order``.
        paragraph_break: Gap between two words of a row, relative to the width of the page, that ends a line.
        line_break: Greatest gap between two lines of a block, in heights of a line.
        keep_reading_order: Arrange the content of a page in reading order: blocks are paragraphs, or rows of a table.
        **unknown: Not accepted.

    Returns:
        The predictor, a module that any number of threads may share. ``predictor.to("cuda")`` moves it: pages on that
        device, such as a decoder's frames, stay there, others are copied once. The program waits for the device once
        for each batch of pages that is searched for text and once for each page that is read, or a few times if lines
        may be turned.

    Raises:
        InvalidArgumentError: An architecture or an argument is unknown, or a value is not accepted.
        WeightsNotFoundError: There are no weights on this machine; the message says what to install.

    Example:
        >>> from mediatensor.ocr import ocr_predictor
        >>> document = ocr_predictor(pretrained=True)("page.png")
        >>> document.pages[0].blocks[0].lines[0].render()
        'Delivery note 2048'
    """
    return _make_predictor(OCRPredictor, **locals())


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
    *,
    detect_tables: bool = False,
    table_arch: str | os.PathLike[str] | nn.Module | None = None,
    fields: str | Sequence[FieldRule] | bool | None = None,
    text_layer: bool = False,
    preserve_original_coords: bool = False,
    disable_page_orientation: bool = False,
    disable_crop_orientation: bool = False,
    vocab: str | Sequence[str] | None = None,
    min_confidence: float = 0.2,
    split_after: str = "",
    unreadable_scripts: Literal["report", "read"] = "report",
    script_readers: Mapping[str, str | os.PathLike[str] | nn.Module] | None = None,
    on_error: Literal["report", "raise"] = "report",
    det_bs: int = 2,
    reco_bs: int = 128,
    shorter_side: int | None = None,
    longer_side: int | None = None,
    resolve_lines: bool = True,
    resolve_blocks: bool = False,
    paragraph_break: float = 0.035,
    line_break: float = 0.8,
    keep_reading_order: bool = False,
    **unknown: Never,
) -> KIEPredictor:
    """Make a predictor that groups text by the classes of its detector; the default detector has one class.

    For the arguments, see `ocr_predictor`. Predictions are not grouped into lines, blocks or tables, so arguments for
    these have no effect. Named fields become predictions of the class with their name.

    Returns:
        The predictor, a module that any number of threads may share.

    Raises:
        InvalidArgumentError: An architecture or an argument is unknown, or a value is not accepted.
        WeightsNotFoundError: There are no weights on this machine; the message says what to install.

    Example:
        >>> from mediatensor.ocr import kie_predictor
        >>> page = kie_predictor(pretrained=True)("page.png").pages[0]
        >>> [word.value for word in page.predictions["words"][:3]]
        ['Delivery', 'note', '2048']
    """
    return _make_predictor(KIEPredictor, **locals())


def video_text_predictor(
    det_arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_det",
    reco_arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_reco",
    pretrained: bool = False,
    *,
    languages: str | Sequence[str] | None = None,
    vocab: str | Sequence[str] | None = None,
    region: Sequence[float] | None = None,
    kinds: Sequence[TextKind] | None = None,
    min_confidence: float = 0.1,
    **unknown: Never,
) -> VideoTextPredictor:
    """Make a predictor that reads the text of videos: texts with their places, from which frame to which.

    Args:
        det_arch: The detector of lines: a name of ``list_models("det_*")``, or a model.
        reco_arch: The recogniser of lines: a name of ``list_models("reco_*")``, or a model.
        pretrained: Load the weights, from this machine; ``mediatensor[ocr]`` has the default ones. Without
            it, networks that are given by name have random weights.
        languages: Names of `VOCABS`, such as ``"german"``: only their characters are
            read. ``None`` for all that the recogniser knows.
        vocab: The characters that may be read, instead of ``languages``.
        region: xmin, ymin, xmax, ymax of the part of the picture that is read, relative; ``None`` for all of it.
        kinds: The kinds of text that are wanted; ``None`` for all.
        min_confidence: Texts whose surest reading is less likely to be right, in [0, 1], are left out.
        **unknown: Not accepted.

    Returns:
        The predictor, a module: ``predictor.to("cuda")`` moves its networks. Frames are decoded on the CPU.

    Raises:
        InvalidArgumentError: An architecture, a language or an argument is unknown, or the recogniser does not read
            lines, or not the language.
        WeightsNotFoundError: There are no weights on this machine; the message says what to install.

    Example:
        >>> from mediatensor.ocr import video_text_predictor
        >>> reading = video_text_predictor(pretrained=True)("video.mp4")
        >>> reading.captions.save("video.srt")
    """
    allowed: dict[str, Any] = {} if vocab is None else {"vocab": vocab}
    if languages is not None:
        names = [languages] if isinstance(languages, str) else list(languages)
        unknown_names = sorted(set(names) - set(VOCABS))
        if unknown_names or not names or vocab is not None:
            raise InvalidArgumentError(
                f"languages={languages!r}: give one or more names of mediatensor.ocr.datasets.VOCABS, such as "
                '"english" or "german", and no vocab beside them.'
            )
        # Spaces separate words.
        allowed = {"vocab": "".join(dict.fromkeys("".join(VOCABS[name] for name in names))) + " "}
    _refuse_unknown(VideoTextPredictor, unknown)
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
    recogniser = recognition_predictor(reco_arch, pretrained=pretrained, **allowed)
    _warn_of_random_weights(pretrained, det_arch, reco_arch)
    return VideoTextPredictor(detector, recogniser, region=region, kinds=kinds, min_confidence=min_confidence)


def _letters(language: str) -> set[str]:
    return {character for character in VOCABS[language] if character.isalpha()}


def _make_predictor(
    kind: type[_Predictor],
    /,
    det_arch: str | os.PathLike[str] | nn.Module,
    reco_arch: str | os.PathLike[str] | nn.Module,
    pretrained: bool,
    pretrained_backbone: bool,
    preserve_aspect_ratio: bool,
    symmetric_pad: bool,
    layout_arch: str | os.PathLike[str] | nn.Module | None,
    table_arch: str | os.PathLike[str] | nn.Module | None,
    vocab: str | Sequence[str] | None,
    det_bs: int,
    reco_bs: int,
    shorter_side: int | None,
    longer_side: int | None,
    unknown: Mapping[str, Any],
    **options: Any,
) -> _Predictor:
    """Make a predictor of this kind from its networks and ``options``, the arguments of its class."""
    _refuse_unknown(kind, unknown)
    sides = {"shorter_side": shorter_side, "longer_side": longer_side}
    detector = detection_predictor(
        det_arch,
        pretrained=pretrained,
        assume_straight_pages=options["assume_straight_pages"],
        preserve_aspect_ratio=preserve_aspect_ratio,
        symmetric_pad=symmetric_pad,
        batch_size=det_bs,
        pretrained_backbone=pretrained_backbone,
        **{name: side for name, side in sides.items() if side is not None},
    )
    reading: dict[str, Any] = {} if vocab is None else {"vocab": vocab}
    if isinstance(reco_arch, str | os.PathLike):
        reading["pretrained_backbone"] = pretrained_backbone
    recogniser = recognition_predictor(reco_arch, pretrained=pretrained, batch_size=reco_bs, **reading)
    # Pages are upright by the time that these networks see them.
    if layout_arch is not None:
        options["layout_predictor"] = layout_predictor(layout_arch, pretrained=pretrained, assume_straight_pages=True)
    if table_arch is not None:
        options["table_predictor"] = table_predictor(table_arch, pretrained=pretrained, assume_straight_pages=True)
    needs_turns = not options["assume_straight_pages"] or options["detect_orientation"] or options["straighten_pages"]
    # docTR's orientation models are always pretrained; so is this one, which takes 0.6 MB.
    classifier = ppocr_mobile_v2_line_orientation(pretrained=True) if needs_turns else None
    predictor = kind(detector, recogniser, classifier, **options)
    _warn_of_random_weights(pretrained, det_arch, reco_arch)
    return predictor


def _refuse_unknown(kind: type, unknown: Mapping[str, Any]) -> None:
    if unknown:
        raise InvalidArgumentError(f"{kind.__name__} has no arguments {', '.join(sorted(unknown))}.")


def _warn_of_random_weights(pretrained: bool, *archs: str | os.PathLike[str] | nn.Module) -> None:
    names = [arch for arch in archs if isinstance(arch, str) and not is_checkpoint(arch)]
    if names and not pretrained:
        warn_once(
            f"random weights for {' and '.join(names)}: nothing of use is read. Give pretrained=True, or load weights "
            "with from_pretrained()."
        )
