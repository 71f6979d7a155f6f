"""Create predictors of text, key information, and text in videos by the names of their architectures."""

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
    """Return a predictor that reads the text of pages.

    Pass ``pretrained=True``. By default, networks given by name have random weights, as in docTR, and results are
    meaningless.

    Args:
        det_arch: The detector: a name from ``list_models("det_*")``, the path of a checkpoint (``.pt``) written by
            training, or a model.
        reco_arch: The recogniser: a name from ``list_models("reco_*")``, the path of a checkpoint, or a model.
        pretrained: Load weights from this machine. ``mediatensor[ocr]`` installs the default weights.
        pretrained_backbone: Load only the weights of the backbones, if ``pretrained`` is false.
        assume_straight_pages: Return straight boxes. Pages must be upright, or turned by 90, 180 or 270 degrees, which
            is detected from their lines. ``page.orientation`` then has the turn. Words are read on the upright page;
            boxes are relative to the original page. If false, boxes are quads in reading direction, and pages may be
            turned by any angle.
        preserve_aspect_ratio: Scale both sides of a page alike for the detector.
        symmetric_pad: Pad on all sides, if the detector needs padding.
        export_as_straight_boxes: Return straight boxes in the document even for rotated text.
        detect_orientation: Set ``page.orientation`` to the clockwise turn of each page in degrees, including small
            angles and 0.
        straighten_pages: Rotate pages upright first. Boxes are then relative to the upright page.
        detect_language: Set ``page.language``; requires the package ``langdetect``.
        detect_layout: Find the regions of each page, ``page.layout``, in reading order: titles, section headers with
            their levels, text, list items, tables, pictures, captions, formulas, footnotes, headers and footers. The
            blocks of the page are then regions, and ``page.fields`` has its key-value pairs.
        layout_arch: The network that finds regions: a name from ``list_models("layout_*")``, the path of a checkpoint,
            or a model. With ``None``, rules without weights find the regions.
        ignore_regions: Relative boxes (xmin, ymin, xmax, ymax) that are not read on any page; or kinds of regions, such
            as ``"Page-footer"``, whose text and tables are dropped.
        detect_tables: Find the tables of each page by rules: ``page.tables``, with rows, columns, spans and headers.
            Words of tables do not belong to blocks. Regions are found as with ``detect_layout``.
        table_arch: The network for the cells of tables that ``layout_arch`` finds; same values as ``layout_arch``.
        fields: The keys and values to find for ``page.fields``: ``"invoice"``, ``"receipt"``, or `FieldRule` objects.
            True or ``"all"`` finds every key-value pair, false none. ``None`` means true with ``detect_layout``, else
            false.
        text_layer: Use the text that PDF pages contain instead of recognising it. Recognition is still used for pages
            without text, for pictures on other pages, and for scans whose only text is in stamps or filled-in fields.
        preserve_original_coords: Return boxes relative to the original page even if it was straightened.
        disable_page_orientation: Do not detect turned pages; only small angles are corrected.
        disable_crop_orientation: Do not detect turned lines; lines are read in the direction of their page.
        vocab: The characters that may be read, for a recogniser given by name.
        min_confidence: For recognisers of lines: minimum expected share of correct words in a line, in [0, 1]. Other
            lines are not part of the text and are listed in ``page.unread``.
        split_after: For recognisers of lines: characters that end a word in addition to spaces. With ``"-/"``,
            "12/31-98" is three words.
        unreadable_scripts: Treatment of lines in a script that the recogniser cannot read. With ``"report"``, they are
            not part of the text, and ``page.unread`` has their positions and scripts. With ``"read"``, they are read as
            similar letters of known scripts.
        script_readers: Recognisers of lines in scripts that the recogniser cannot read, by the name of the script, such
            as "Cyrillic". The values are models, or paths for `load_line_recognizer`.
        on_error: With ``"report"``, a page that cannot be read is empty, ``page.error`` has the reason, and a warning
            is issued. With ``"raise"``, `PageError` is raised.
        det_bs: Number of pages in a batch of the detector.
        reco_bs: Largest batch of a recogniser of words. Line recognisers choose batches by the width of the lines.
        shorter_side: Minimum length in pixels of the shorter side of pages, for the default detector.
        longer_side: Maximum length in pixels of the longer side of pages, for the default detector.
        resolve_lines: Group words into lines; otherwise all words of a page form one line.
        resolve_blocks: Group lines into blocks, if ``keep_reading_order`` is false.
        paragraph_break: Gap between two words of a row that ends a line, relative to the width of the page.
        line_break: Maximum gap between two lines of a block, in line heights.
        keep_reading_order: Sort the content of a page in reading order: blocks are paragraphs or rows of a table.
        **unknown: Raises an error that names the unknown arguments.

    Returns:
        The predictor, a module that any number of threads may share. ``predictor.to("cuda")`` moves it to a device.
        Pages on that device, such as frames of a decoder, stay there; other pages are copied once. The CPU waits for
        the device once per detector batch, and once per page, or a few times if lines may be turned.

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
    """Return a predictor that groups text by the classes of its detector; the default detector has one class.

    Takes the arguments of `ocr_predictor`. Predictions are not grouped into lines, blocks or tables, so arguments
    for these have no effect. Named fields become predictions of the class with their name.

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
    """Return a predictor that reads the text of videos, with positions and frame ranges.

    Args:
        det_arch: The detector of lines: a name from ``list_models("det_*")``, or a model.
        reco_arch: The recogniser of lines: a name from ``list_models("reco_*")``, or a model.
        pretrained: Load weights from this machine. ``mediatensor[ocr]`` installs the default weights. Without it,
            networks given by name have random weights.
        languages: Names of `VOCABS`, such as ``"german"``, to restrict the characters. ``None`` allows all characters
            of the recogniser.
        vocab: The characters that may be read, instead of ``languages``.
        region: xmin, ymin, xmax, ymax of the region to read, relative to the frame; ``None`` for the whole frame.
        kinds: The kinds of text to return; ``None`` for all kinds.
        min_confidence: Texts with a lower confidence, in [0, 1], are dropped.
        **unknown: Raises an error that names the unknown arguments.

    Returns:
        The predictor, a module: ``predictor.to("cuda")`` moves its networks. Frames are decoded on the CPU.

    Raises:
        InvalidArgumentError: An architecture, a language or an argument is unknown, or the recogniser does not support
            lines or the language.
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
        # The space is needed to separate words.
        allowed = {"vocab": "".join(dict.fromkeys("".join(VOCABS[name] for name in names))) + " "}
    _refuse_unknown(VideoTextPredictor, unknown)
    # The side limits keep bands of frames at their original size.
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


def _make_predictor(kind: type[_Predictor], /, unknown: Mapping[str, Any], **options: Any) -> _Predictor:
    """Create a predictor of the given class from its networks, given the arguments of `ocr_predictor`."""
    _refuse_unknown(kind, unknown)
    pretrained, det_arch, reco_arch = (options.pop(name) for name in ("pretrained", "det_arch", "reco_arch"))
    backbone = {"pretrained_backbone": options.pop("pretrained_backbone")}
    sides = {name: options.pop(name) for name in ("shorter_side", "longer_side")}
    detector = detection_predictor(
        det_arch,
        pretrained=pretrained,
        assume_straight_pages=options["assume_straight_pages"],
        preserve_aspect_ratio=options.pop("preserve_aspect_ratio"),
        symmetric_pad=options.pop("symmetric_pad"),
        batch_size=options.pop("det_bs"),
        **backbone,
        **{name: side for name, side in sides.items() if side is not None},
    )
    vocab = options.pop("vocab")
    reading: dict[str, Any] = {} if vocab is None else {"vocab": vocab}
    if isinstance(reco_arch, str | os.PathLike):
        reading |= backbone
    recogniser = recognition_predictor(reco_arch, pretrained=pretrained, batch_size=options.pop("reco_bs"), **reading)
    for name, make in (("layout", layout_predictor), ("table", table_predictor)):
        arch = options.pop(f"{name}_arch")
        if arch is not None:
            # These networks are called with upright pages.
            options[f"{name}_predictor"] = make(arch, pretrained=pretrained, assume_straight_pages=True)
    needs_turns = not options["assume_straight_pages"] or options["detect_orientation"] or options["straighten_pages"]
    # As in docTR, the orientation model is always loaded with its weights, which take 0.6 MB.
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
