"""Create predictors that read pages, key-value information or videos, from the names of their networks."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Never, TypeVar
from unicodedata import name as name_of

from torch import nn

from ..._engine.common.checks import items_of, refuse_unknown
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

# A recogniser can be restricted to a language if it has this share of the letters. The default recogniser has at least
# 0.98 of the letters of languages that it reads, 0.88 of Yoruba, 0.70 of Greek, 0.53 of Vietnamese and none of Russian.
_MIN_SHARE = 0.9


def ocr_predictor(
    det_arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_det",
    reco_arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_reco_tuned",
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
    min_confidence: float = 0.3,
    split_after: str = "",
    unreadable_scripts: Literal["report", "read"] = "report",
    script_readers: Mapping[str, str | os.PathLike[str] | nn.Module | None] | None = None,
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
    """Return a predictor that detects and recognises the text of pages.

    Pass ``pretrained=True`` to get useful results. By default, as in docTR, all networks that are given by name have
    random weights.

    Args:
        det_arch: The text detector: a name from ``list_models("det_*")``, the path of a checkpoint (``.pt``) written by
            training, or a model.
        reco_arch: The text recogniser: a name from ``list_models("reco_*")``, the path of a checkpoint, or a model.
        pretrained: Load weights that are stored on this machine. ``mediatensor[ocr]`` installs the weights of the
            default networks.
        pretrained_backbone: Load only the weights of the backbones, if ``pretrained`` is false.
        assume_straight_pages: Return axis-aligned boxes, ((xmin, ymin), (xmax, ymax)). Pages must be upright, or turned
            by 90, 180 or 270 degrees. The turn is detected from the lines, and stored as clockwise degrees in
            ``page.orientation["value"]``. Words are then recognised on the upright page, but boxes are relative to the
            original page. If false, pages can be turned by any angle, and a box is four points, clockwise from the top
            left of its text.
        preserve_aspect_ratio: Scale both sides of a page by the same factor for the detector. The default detector
            always does this.
        symmetric_pad: Pad a page equally on opposite sides, if the detector needs padding. If false, pad only on the
            right and at the bottom. The default detector does not need padding.
        export_as_straight_boxes: Return axis-aligned boxes even around rotated text.
        detect_orientation: Set ``page.orientation["value"]`` to the clockwise turn of each page in degrees, even if the
            turn is small or 0.
        straighten_pages: Rotate pages upright first. Boxes are then relative to the upright page.
        detect_language: Set ``page.language``, such as ``{"value": "en", "confidence": 0.9}``. Requires the package
            ``langdetect``.
        detect_layout: Find the regions of each page, ``page.layout``, in reading order: titles, section headers with
            their levels, text, list items, tables, pictures, captions, formulas, footnotes, headers and footers. Each
            block of the page is then a region, and ``page.fields`` has the key-value pairs of the page.
        layout_arch: The network that finds regions: a name from ``list_models("layout_*")``, the path of a checkpoint,
            or a model. By default, rules find the regions without a network.
        ignore_regions: Parts of pages to leave out. Text in boxes (xmin, ymin, xmax, ymax), relative to the page, is
            not recognised on any page. For kinds of regions, such as ``"Page-footer"``, text and tables are dropped.
        detect_tables: Find the tables of each page: ``page.tables``, with rows, columns, spans and headers. Rules find
            them, unless ``layout_arch`` and ``table_arch`` do. Words inside tables then do not belong to any block.
            This also finds regions, as ``detect_layout`` does.
        table_arch: The network that finds cells in the tables that ``layout_arch`` finds. Accepts the same values as
            ``layout_arch``.
        fields: Fields to find for ``page.fields``: those of ``"invoice"`` or ``"receipt"``, or those that `FieldRule`
            objects describe. True or ``"all"`` finds every key-value pair, and False finds none. The default is True
            if ``detect_layout`` is true, else False. Fields are experimental: on unseen pages, 0.73 of the values of
            receipts are exact, and the F1 of pairs on forms is 0.49.
        text_layer: Take the text of PDF pages from the file instead of recognising it. Recognition is still used for
            pages without text, for pictures on pages with text, and for scanned pages whose only text is in stamps or
            filled-in fields.
        preserve_original_coords: Return boxes relative to the original page even if it was straightened.
        disable_page_orientation: Do not detect pages that are turned by 90, 180 or 270 degrees. Small angles are still
            corrected.
        disable_crop_orientation: Do not detect lines that are turned. All lines are read in the direction of their
            page.
        vocab: The only characters that the recogniser may return. Only for a recogniser given by name.
        min_confidence: For recognisers of lines: minimum expected share of correct words in a line, in [0, 1]. Lines
            with a lower share are not part of the text, and are listed in ``page.unread``. For a doubtful single
            character far from all other lines, which is usually a speck of dirt, the share is 0.05.
        split_after: For recognisers of lines: characters that end a word in addition to spaces. With ``"-/"``,
            "12/31-98" is three words.
        unreadable_scripts: Treatment of lines in a script that the recogniser cannot read. With ``"report"``, they are
            not part of the text, and ``page.unread`` has their positions and scripts. With ``"read"``, they are read as
            similar letters of known scripts.
        script_readers: Line recognisers for scripts that the recogniser cannot read. Keys are names of scripts, such as
            "Arabic". Values are models, paths for `load_line_recognizer`, or checkpoints; ``None`` leaves a script
            unread. A built-in model reads Cyrillic, Greek and Vietnamese.
        on_error: With ``"report"``, a page that cannot be read is empty, ``page.error`` has the reason, and a warning
            is issued. With ``"raise"``, `PageError` is raised.
        det_bs: Maximum number of pages in a batch of the detector.
        reco_bs: Maximum number of words in a batch, for a recogniser of words. Recognisers of lines choose batches by
            the width of the lines.
        shorter_side: Minimum length in pixels of the shorter side of pages for the detector, by default 1152. Only for
            detectors that accept pages of any size, such as the default detector.
        longer_side: Maximum length in pixels of the longer side of pages for the detector, by default 2400. Only for
            the same detectors.
        resolve_lines: Group words into lines. If false, all words of a page form one line.
        resolve_blocks: Group lines into blocks. If false, all lines of a page form one block. Has an effect only if
            ``keep_reading_order`` is false.
        paragraph_break: If the gap between two words at the same height is at least this share of the page width, they
            belong to different lines.
        line_break: Maximum distance between neighbouring lines of a block, in line heights.
        keep_reading_order: Sort the content of a page in reading order. Blocks are then paragraphs, or rows of cells.
        **unknown: Raises an error that names the unknown arguments.

    Returns:
        The predictor, a module that takes pages and returns a `Document`. Any number of threads can share it.
        ``predictor.to("cuda")`` moves it to a device. Page images that are already on this device, such as frames from
        a decoder, stay there; all others are copied to it once. The CPU waits for the device once per detector batch
        and once per page, or a few times per page if lines may be turned.

    Raises:
        InvalidArgumentError: An architecture or an argument is unknown, or a value is invalid.
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
    reco_arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_reco_tuned",
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
    min_confidence: float = 0.3,
    split_after: str = "",
    unreadable_scripts: Literal["report", "read"] = "report",
    script_readers: Mapping[str, str | os.PathLike[str] | nn.Module | None] | None = None,
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
    """Return a predictor for key information extraction (KIE), which groups text by the classes of its detector.

    The default detector has one class, ``"words"``. The arguments are the same as for `ocr_predictor`. Predictions are
    not grouped into lines, blocks or tables, so the arguments for these have no effect. Each field that a rule in
    ``fields`` finds becomes a prediction, and its class is the name of the rule. The words of a text layer have
    no classes, so ``text_layer`` needs a detector with one class.

    Returns:
        The predictor, a module that any number of threads can share. It returns a `KIEDocument`. The ``predictions`` of
        each page are a dict that maps each class to a list of `Prediction`.

    Raises:
        InvalidArgumentError: An architecture or an argument is unknown, or a value is invalid.
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
    """Return a predictor that reads the text shown in videos, with the position and the frame range of each text.

    Args:
        det_arch: The detector of lines: a name from ``list_models("det_*")``, the path of a checkpoint, or a model.
        reco_arch: The recogniser of lines: a name from ``list_models("reco_*")``, the path of a checkpoint, or a model.
        pretrained: Load weights that are stored on this machine. ``mediatensor[ocr]`` installs the weights of the
            default networks. If false, networks given by name have random weights, and return random text.
        languages: Languages of the text, such as ``"german"``; names from `VOCABS`. Only the characters of these
            languages are read. By default, all characters of the recogniser are read.
        vocab: The only characters that are read. Pass either this or ``languages``, not both.
        region: (xmin, ymin, xmax, ymax) of the region to read, relative to the frame, in [0, 1]; ``None`` for the whole
            frame.
        kinds: The kinds of text to return: ``"caption"``, ``"overlay"``, ``"scene"`` and ``"slide"``, which `TextTrack`
            explains. ``None`` returns all kinds.
        min_confidence: Texts with a lower confidence, in [0, 1], are dropped.
        **unknown: Raises an error that names the unknown arguments.

    Returns:
        The predictor, a module, which takes a video and returns a `VideoReading`. ``predictor.to("cuda")`` moves its
        networks to a device. Frames are always decoded on the CPU.

    Raises:
        InvalidArgumentError: An architecture, a language or an argument is unknown, or the recogniser reads only words
            or lacks letters of a language.
        WeightsNotFoundError: There are no weights on this machine; the message says what to install.

    Example:
        >>> from mediatensor.ocr import video_text_predictor
        >>> reading = video_text_predictor(pretrained=True)("video.mp4")
        >>> reading.captions.save("video.srt")
    """
    given = [languages] if isinstance(languages, str) else languages
    names = None if given is None else items_of("languages", given, of="names of languages")
    if names is not None and (not names or any(name not in tuple(VOCABS) for name in names) or vocab is not None):
        raise InvalidArgumentError(
            f"languages={languages!r}: give one or more names of mediatensor.ocr.datasets.VOCABS, such as "
            '"english" or "german", and leave out vocab.'
        )
    accepted = inspect.signature(video_text_predictor).parameters
    refuse_unknown("video_text_predictor", unknown, [name for name in accepted if name != "unknown"])
    # The side limits keep bands of frames at their original size.
    detector = detection_predictor(det_arch, pretrained=pretrained, shorter_side=32, longer_side=4096)
    if names is not None:
        vocab = vocab_of_languages(names, recognition_predictor(reco_arch, pretrained=pretrained).model.vocab)
    allowed: dict[str, Any] = {} if vocab is None else {"vocab": vocab}
    recogniser = recognition_predictor(reco_arch, pretrained=pretrained, **allowed)
    _warn_of_random_weights(pretrained, det_arch, reco_arch)
    return VideoTextPredictor(detector, recogniser, region=region, kinds=kinds, min_confidence=min_confidence)


def vocab_of_languages(languages: Sequence[str], known: str) -> str:
    """Return the characters of languages, to restrict a recogniser that has the characters ``known``.

    Raises:
        InvalidArgumentError: The recogniser lacks many letters of a language. Restricted, it would read other letters
            instead, and the readers of other scripts would not be used.
    """
    letters = {name: _letters(name) for name in languages}
    unread = [name for name in languages if len(letters[name].intersection(known)) < _MIN_SHARE * len(letters[name])]
    if unread:
        raise InvalidArgumentError(
            f"languages={tuple(languages)!r}: the recogniser lacks letters of {', '.join(unread)}. Leave languages "
            "out; then the built-in models read all letters that they know, also Cyrillic, Greek and Vietnamese ones."
        )
    return "".join(dict.fromkeys("".join(VOCABS[name] for name in languages))) + " "  # a space separates words


def _letters(language: str) -> set[str]:
    """Return the letters of a language without ideographs, of which `VOCABS` lists tens of thousands of rare ones."""
    return {letter for letter in VOCABS[language] if letter.isalpha() and "CJK UNIFIED" not in name_of(letter, "")}


def _make_predictor(kind: type[_Predictor], /, unknown: Mapping[str, Any], **options: Any) -> _Predictor:
    """Create a predictor of the class ``kind``. ``options`` are the arguments of `ocr_predictor`."""
    refuse_unknown("ocr_predictor" if kind is OCRPredictor else "kie_predictor", unknown, options)
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
    # As in docTR, the orientation model is loaded with its weights, which take 0.6 MB, unless nothing would use it.
    is_tilted = not options["assume_straight_pages"]
    turns_pages = is_tilted or options["detect_orientation"] or options["straighten_pages"]
    needs_turns = (turns_pages and not options["disable_page_orientation"]) or (
        is_tilted and not options["disable_crop_orientation"]
    )
    classifier = ppocr_mobile_v2_line_orientation(pretrained=True) if needs_turns else None
    predictor = kind(detector, recogniser, classifier, **options)
    _warn_of_random_weights(pretrained, det_arch, reco_arch)
    return predictor


def _warn_of_random_weights(pretrained: bool, *archs: str | os.PathLike[str] | nn.Module) -> None:
    names = [arch for arch in archs if isinstance(arch, str) and not is_checkpoint(arch)]
    if names and not pretrained:
        warn_once(
            f"random weights for {' and '.join(names)}: the predictor cannot read. Give pretrained=True, or load "
            "weights with from_pretrained()."
        )
