"""The base class of the predictors for text and key information. It converts pages to words with positions."""

from __future__ import annotations

import inspect
import itertools
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import PIL.Image
import torch
from torch import Tensor, nn

from ...._engine.common.checks import check_choice, finite_number, refuse_unknown, shown
from ...._engine.common.messages import warn_user
from ....errors import InvalidArgumentError, PageError
from ....frames import Frame
from ...io._documents.pages import PageOfFile, Pages
from ...structure import FieldRule
from ...utils.geometry import boxes_around
from .._lines.cutting import (
    as_quads,
    cut_words,
    estimate_page_skew,
    page_quads,
    plan_straightening,
    scores_of,
    signed_turn,
    straighten,
)
from .._lines.page_lines import (
    ClassWords,
    cut_lines_into_words,
    join_sideways_letters,
    no_words,
    read_page_lines,
    read_page_words,
)
from .._lines.turning import (
    ReadingsByTurn,
    page_turn,
    read_straight_lines,
    turn_of_read_page,
    turn_of_sideways_page,
    turns_of_straight_lines,
    turns_on_upright_page,
)
from .._networks.preprocessing import (
    FlexiblePreProcessor,
    Image,
    as_tensor,
    check_values,
    get_language,
    page_sources,
    pixels_of_pillow,
)
from .._networks.transfers import compile_network, spread, spreads, uncompiled_module, upload_images
from ..builder import DocumentBuilder, KIEDocumentBuilder
from ..builder._document import PageWords
from ..classification.ppocr import LineOrientationClassifier
from ..classification.predictor import LinePageOrientation, OrientationPredictor
from ..detection.predictor import DetectionPredictor, Located
from ..layout.predictor import LayoutPredictor
from ..recognition.onnx_lines import leave_out_of_state, readers_by_script
from ..recognition.predictor import RecognitionPredictor
from ..table_structure.predictor import TablePredictor
from ._steps import (
    CutLine,
    Hook,
    IgnoredRegion,
    StructureFinder,
    apply_hooks,
    boxes_outside_pictures,
    check_ignored,
    cut_found_lines,
    join_words,
    remove_kinds,
    replace_words,
    restore_original,
    set_located_upright,
    set_upright,
    whiten_regions,
    words_of_layer,
)

__all__ = ["TextPredictor"]

logger = logging.getLogger(__name__)

_Loaded: TypeAlias = tuple[Image, Tensor] | PageWords
PAGES_AT_ONCE = 4
"""Limit on pages read in parallel on a CPU, because each page needs hundreds of megabytes. Further threads share the
lines of a page.
"""
SMALLEST_SKEW = 0.5  # pages turned by a smaller angle, in degrees, are not straightened


class TextPredictor(nn.Module):
    """Base class of predictors that detect and recognise text, page by page.

    All arguments that are not listed here are the same as for `OCRPredictor` and `ocr_predictor`.

    Args:
        layout_predictor: A network that finds the regions of pages; if None, rules find them.
        table_predictor: A network that finds the cells of the tables found by ``layout_predictor``; if None, rules find
            them.
        preserve_aspect_ratio, symmetric_pad: Accepted for compatibility with docTR, without effect: the detection
            predictor knows how it scales and pads pages.
        **builder_options: Arguments of `DocumentBuilder`, which arranges the words of pages.
    """

    builder_type: ClassVar[type[DocumentBuilder] | type[KIEDocumentBuilder]]
    """Builds documents from recognised words."""
    _keeps_classes_apart: ClassVar[bool]
    """Whether hooks and the builder get words by class name; otherwise there is only one class."""
    doc_builder: Any

    def __init__(
        self,
        det_predictor: DetectionPredictor,
        reco_predictor: RecognitionPredictor,
        line_classifier: LineOrientationClassifier | None = None,
        *,
        assume_straight_pages: bool = True,
        straighten_pages: bool = False,
        detect_orientation: bool = False,
        detect_language: bool = False,
        preserve_original_coords: bool = False,
        disable_page_orientation: bool = False,
        disable_crop_orientation: bool = False,
        ignore_regions: Sequence[IgnoredRegion | str] | None = None,
        detect_layout: bool = False,
        detect_tables: bool = False,
        fields: str | Sequence[FieldRule] | bool | None = None,
        layout_predictor: LayoutPredictor | None = None,
        table_predictor: TablePredictor | None = None,
        text_layer: bool = False,
        min_confidence: float = 0.3,
        split_after: str = "",
        on_error: Literal["report", "raise"] = "report",
        unreadable_scripts: Literal["report", "read"] = "report",
        script_readers: Mapping[str, str | os.PathLike[str] | nn.Module | None] | None = None,
        preserve_aspect_ratio: bool = True,
        symmetric_pad: bool = True,
        **builder_options: Any,
    ) -> None:
        super().__init__()
        refuse_unknown(type(self).__name__, builder_options, inspect.signature(self.builder_type).parameters)
        check_choice("on_error", on_error, ("report", "raise"))
        check_choice("unreadable_scripts", unreadable_scripts, ("report", "read"))
        if not 0 <= finite_number("min_confidence", min_confidence) <= 1:
            raise InvalidArgumentError(f"min_confidence={min_confidence!r}: give a number in [0, 1].")
        if not isinstance(split_after, str):
            raise InvalidArgumentError(f"split_after={split_after!r}: give a string of characters.")
        self.det_predictor = det_predictor.eval()
        self.reco_predictor = reco_predictor.eval()
        self.line_classifier = line_classifier
        self.page_orientation_predictor: OrientationPredictor | LinePageOrientation | None = None
        """If set, this network determines the orientation of pages, instead of a vote of the page's lines."""
        self.crop_orientation_predictor: OrientationPredictor | None = None
        """If set, this network determines the orientation of each word or line."""
        self.assume_straight_pages = assume_straight_pages
        self.straighten_pages = straighten_pages
        self.detect_orientation = detect_orientation
        self.detect_language = detect_language
        self.preserve_original_coords = preserve_original_coords
        self.disable_page_orientation = disable_page_orientation
        self.disable_crop_orientation = disable_crop_orientation
        self.ignored_kinds, self.ignore_regions = check_ignored(ignore_regions)
        self.detect_layout = detect_layout
        self.detect_tables = detect_tables
        if text_layer and len(self._class_names) > 1:
            raise InvalidArgumentError(
                f"the detector finds {', '.join(self._class_names)}, and the words of a text layer have no classes: "
                "leave text_layer out, or give a detector with one class."
            )
        self.text_layer = text_layer
        self.structure_finder = StructureFinder(
            detect_layout or bool(self.ignored_kinds),
            detect_tables,
            detect_layout if fields is None else fields,
            layout_predictor,
            table_predictor,
        )
        self.min_confidence = min_confidence
        self.split_after = split_after
        self.on_error = on_error
        self.unreadable_scripts = unreadable_scripts
        self.script_readers = nn.ModuleDict(readers_by_script(script_readers, reco_predictor.model))
        leave_out_of_state(self)
        self.hooks: list[Hook] = []
        self.doc_builder = self.builder_type(**builder_options)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile all networks of the predictor in place.

        The steps between the networks are not compiled, and results do not change. Networks are compiled for pages of
        any size with any number of words, so later pages do not trigger another compilation.

        Args:
            *args: Arguments of ``torch.compile``.
            **kwargs: Options of ``torch.compile``.
        """
        for network in (self.line_classifier, *self.script_readers.values()):
            compile_network(network, *args, **kwargs)
        orientation_predictors = self.page_orientation_predictor, self.crop_orientation_predictor
        structure_predictors = self.structure_finder.layout_predictor, self.structure_finder.table_predictor
        for predictor in (self.det_predictor, self.reco_predictor, *orientation_predictors, *structure_predictors):
            if predictor is not None:
                predictor.compile(*args, **kwargs)

    def add_hook(self, hook: Hook) -> None:
        """Register a function that inspects and changes boxes between detection and recognition.

        Args:
            hook: A function that is called once for each document. Its argument is a list with the boxes of each page,
                relative to the page and without scores. From an `OCRPredictor`, each item is an array: (N, 4), as xmin,
                ymin, xmax, ymax, or four corners (N, 4, 2). From a `KIEPredictor`, the argument is a dictionary that
                maps each class name to such a list. The hook can remove, move or add boxes, and must return all boxes
                in the same structure.

        Raises:
            InvalidArgumentError: The hook is not callable.

        Example:
            >>> from mediatensor.ocr import DocumentFile, ocr_predictor
            >>> predictor = ocr_predictor(pretrained=True)
            >>> predictor.add_hook(lambda pages: [boxes[boxes[:, 1] < 0.1] for boxes in pages])  # at the top
            >>> predictor(DocumentFile.from_images("page.png")).render()
            'Delivery note 2048'
        """
        if not callable(hook):
            raise InvalidArgumentError(f"a hook must be a function of the boxes of all pages (got {shown(hook)}).")
        self.hooks.append(hook)

    @torch.inference_mode()
    def cut_lines(self, page: Any) -> list[CutLine]:
        """Detect and recognise the text lines of a page, and return crops of the lines with their text.

        After their text has been corrected, the lines can be used to train a recogniser.

        Args:
            page: One page: an array (H, W, 3), a tensor (3, H, W) or (H, W, 3), a Pillow image, or a file with one
                page.

        Returns:
            A list with a `CutLine` for each line in reading order. It includes lines that were detected, but whose text
            was not recognised.

        Raises:
            InvalidArgumentError: ``page`` is not a page, or contains several pages.
            PageError: The page cannot be decoded or rendered.

        Example:
            >>> from mediatensor.ocr import DocumentFile, ocr_predictor
            >>> lines = ocr_predictor(pretrained=True).cut_lines(DocumentFile.from_images("page.png")[0])
            >>> lines[0].value, lines[0].image.shape[2]
            ('Delivery note 2048', 3)
        """
        sources = page_sources([page])
        if len(sources) != 1:
            raise InvalidArgumentError(f"cut_lines takes one page, got {len(sources)}: give them one by one.")
        # A text layer has the words of a page, but no lines that were recognised.
        (read,) = self._read([sources[0]] if self.text_layer else sources)
        if read.error is not None:
            raise PageError(read.error)
        return cut_found_lines(read, self.ignore_regions, self.assume_straight_pages)

    def _read(self, pages: Iterable[Image] | Any) -> Iterator[PageWords]:
        """Yield the words of each page, in page order. Only a few pages are in memory at the same time."""
        sources = page_sources(pages)
        if self.hooks:
            yield from self._read_with_hooks(sources)
            return
        num_workers = self._num_workers(len(sources))
        at_once = 1 if num_workers > 1 else self.det_predictor.pre_processor.batch_size
        numbers = range(len(sources))
        # Pages are loaded in the caller's thread.
        loaded = (self._load(sources, numbers[start : start + at_once]) for start in numbers[::at_once])
        read = spread(self._read_pages, loaded, num_workers) if num_workers > 1 else map(self._read_pages, loaded)
        yield from itertools.chain.from_iterable(read)

    def _num_workers(self, num_pages: int) -> int:
        """Return how many pages are read in threads; 1 if the detector takes batches, or networks allow no threads."""
        predictors = (self.line_classifier, self.page_orientation_predictor, self.crop_orientation_predictor)
        models = [self.det_predictor.model, self.reco_predictor.model, *self.script_readers.values()]
        models += [one for one in predictors if one is not None]
        is_alone = isinstance(self.det_predictor.pre_processor, FlexiblePreProcessor)
        return min(torch.get_num_threads(), num_pages, PAGES_AT_ONCE) if is_alone and spreads(*models) else 1

    def _read_pages(self, pages: Sequence[_Loaded]) -> list[PageWords]:
        located = self._locate([page[1] for page in pages if not isinstance(page, PageWords)])
        return [page if isinstance(page, PageWords) else self._read_page(*page, next(located)) for page in pages]

    def _read_with_hooks(self, sources: Any) -> Iterator[PageWords]:
        """Detect the text on all pages first, pass the boxes to the hooks, and then read the pages."""
        found: list[Located | PageWords] = []
        for index in range(len(sources)):
            (page,) = self._load(sources, [index])
            found.append(page if isinstance(page, PageWords) else next(self._locate([page[1]])))
        located = [page for page in found if not isinstance(page, PageWords)]
        revised = iter(
            apply_hooks(self.hooks, located, by_class=self._keeps_classes_apart, straight=self.assume_straight_pages)
        )
        for index, known in enumerate(found):
            if isinstance(known, PageWords):
                yield known
                continue
            boxes = next(revised)  # also of a page that cannot be loaded again
            (page,) = self._load(sources, [index])
            yield page if isinstance(page, PageWords) else self._read_page(*page, boxes)

    def _load(self, sources: Any, indices: Sequence[int]) -> list[_Loaded]:
        """Load pages. For each page that needs recognition, return the image for the result, and the page's tensor.

        For all other pages, return the words of their text layer, or an empty page whose ``error`` says why it cannot
        be loaded.
        """
        loaded = [self._load_page(sources, index) for index in indices]
        placed = iter(self._move_to_device([page for page in loaded if isinstance(page, Tensor)]))
        return [
            (_result_image(sources, index), next(placed)) if isinstance(page, Tensor) else page
            for index, page in zip(indices, loaded, strict=True)
        ]

    def _load_page(self, sources: Any, index: int) -> Tensor | PageWords:
        try:
            document, number = _document_of(sources, index)
            if self.text_layer and isinstance(document, Pages):
                known = self._text_layer_words(document, number)
                if known is not None:
                    return known
            return as_tensor(document[number])
        except PageError as error:
            if self.on_error == "raise":
                raise
            warn_user(f"page {index} is left empty: {error}")
            return self._unreadable(sources, index, str(error))

    def _move_to_device(self, images: Sequence[Tensor]) -> list[Tensor]:
        """Copy pages to the detector's device in one transfer, and make ignored regions white."""
        check_values(images)
        placed = upload_images(images, next(self.det_predictor.parameters()).device)
        return [whiten_regions(image, self.ignore_regions) for image in placed]

    def _text_layer_words(self, sources: Pages, index: int) -> PageWords | None:
        """Return the words of a PDF page's text layer and of its pictures, or ``None`` without a text layer."""
        stored = sources.text_layer(index)
        if not stored:
            return None
        content = sources.page_content(index)
        if content is None:
            return None
        words, kept = words_of_layer(stored, content, self.ignore_regions)
        if self.disable_crop_orientation:
            words.orientations = [{"value": 0, "confidence": None} for _ in words.texts]
        scale = sources.pixels_per_point(index)
        shape = (round(content.height * scale), round(content.width * scale))
        turn = 0 if self.disable_page_orientation else content.page_turn
        plan = plan_straightening(shape, turn) if turn else None
        if plan is not None:
            words, content = set_upright(words, content, plan)
        image, outside = None, boxes_outside_pictures(content)
        if outside is not None or (plan is not None and self.straighten_pages):
            (loaded,) = self._move_to_device([as_tensor(sources[index])])
            image = loaded if plan is None else straighten(loaded, plan)
        if image is not None and outside is not None:
            in_pictures = whiten_regions(image, outside)
            (read,) = self._words(in_pictures, next(self._locate([in_pictures])), {}).values()
            words = join_words(words, read)
        by_class = {self._class_names[0]: words}
        structure = self.structure_finder.of_content(replace_words(content, words, kept))
        orientation = {"value": signed_turn(turn), "confidence": 1.0} if turn or self.detect_orientation else None
        page = PageWords(_result_image(sources, index), shape, by_class, orientation, self._language(by_class))
        page.structure = structure
        if plan is not None:
            page.shape = plan.shape
            if image is None or not self.straighten_pages or self.preserve_original_coords:
                page.to_upright = plan
            else:
                page.image = image.permute(1, 2, 0).cpu().numpy()
                page.made_upright_by = plan
        return page

    def _unreadable(self, sources: Any, index: int, reason: str) -> PageWords:
        image: Any = np.zeros((0, 0, 3), np.uint8)
        document, number = _document_of(sources, index)
        if isinstance(document, Pages):
            image = PageOfFile(document, number, is_readable=False)
        return PageWords(image, (0, 0), {name: no_words() for name in self._class_names}, error=reason)

    @property
    def _class_names(self) -> list[str]:
        return list(uncompiled_module(self.det_predictor.model).class_names)

    def _locate(self, images: Sequence[Tensor]) -> Iterator[Located]:
        return self.det_predictor.locate(images, rotated=True)

    def _read_page(self, original: Image, image: Tensor, located: Located) -> PageWords:
        shape = (image.shape[1], image.shape[2])
        turn, confidence = self._turn(image, located)
        readings: dict[str, list[ReadingsByTurn]] = {}
        if self.assume_straight_pages and self.reco_predictor.reads_lines and not turn:
            readings, turn, probability = self._straight_readings(image, located)
            confidence = probability if turn else confidence
        skew = 0.0
        if self.straighten_pages or self.detect_orientation:
            skew = estimate_page_skew(page_quads(located.boxes), shape)
        orientation = None
        if self.detect_orientation:
            orientation = {"value": signed_turn(round(turn + skew) % 360), "confidence": confidence}
        if self.straighten_pages and (turn or abs(skew) >= SMALLEST_SKEW):
            # Rotation by a multiple of 90 degrees only moves pixels, without interpolation.
            angle = turn if abs(skew) < SMALLEST_SKEW else turn + skew
            return self._read_upright(original, image, located, angle, orientation, self.preserve_original_coords)
        if turn:
            orientation = orientation or {"value": signed_turn(turn), "confidence": confidence}
            return self._read_upright(original, image, located, turn, orientation, True)
        words = self._words(image, located, readings)
        structure = self.structure_finder(image, words)
        return PageWords(original, shape, words, orientation, self._language(words), structure=structure)

    def _read_upright(
        self,
        original: Image,
        image: Tensor,
        located: Located,
        angle: float,
        orientation: dict[str, Any] | None,
        in_original_coordinates: bool,
    ) -> PageWords:
        """Rotate a page by ``angle`` to make it upright, and read it.

        Unless there are hooks, text is detected again, because boxes are more exact on the upright page.
        """
        plan = plan_straightening((image.shape[1], image.shape[2]), angle)
        upright = straighten(image, plan)
        # If there are hooks, their boxes are transformed; a new detection would discard the hooks' changes.
        found = set_located_upright(located, plan) if self.hooks else next(self._locate([upright]))
        words = self._words(upright, found, {})
        page = PageWords(original, plan.shape, words, orientation, self._language(words))
        page.structure = self.structure_finder(upright, words)
        if in_original_coordinates:
            page.to_upright = plan
        else:
            page.image = upright if isinstance(original, Tensor) else upright.permute(1, 2, 0).cpu().numpy()
            page.made_upright_by = plan
        return page

    def _straight_readings(
        self, image: Tensor, located: Located
    ) -> tuple[dict[str, list[ReadingsByTurn]], int, float | None]:
        """Read the lines of a page that is probably upright, and use the results to check whether it is.

        Return the readings of the page's lines by class, the turn of the page in degrees, and the probability of this
        turn. If the first few lines show that the page is turned sideways, no other lines are read, and no readings are
        returned.
        """
        model, quads = self.reco_predictor.model, page_quads(located.boxes)
        is_known = self.disable_page_orientation or self.page_orientation_predictor is not None
        if not is_known:
            turn, probability = turn_of_sideways_page(model, image, quads)
            if turn:
                return {}, turn, probability
        readings = {
            name: read_straight_lines(model, image, as_quads(boxes), self.split_after)
            for name, boxes in located.boxes.items()
            if len(boxes)
        }
        if is_known:
            return readings, 0, None
        of_all = [own for found in readings.values() for own in found]
        return readings, *turn_of_read_page(model, image, quads, of_all)

    def _turn(self, image: Tensor, located: Located) -> tuple[int, float | None]:
        """Return a page's turn, a multiple of 90 degrees, and its probability; (0, None) if the turn is not needed."""
        if self.disable_page_orientation:
            return 0, None
        if self.page_orientation_predictor is not None:
            _, degrees, confidences = self.page_orientation_predictor([image])
            return int(degrees[0]) % 360, float(confidences[0])
        wanted = not self.assume_straight_pages or self.detect_orientation or self.straighten_pages
        if not wanted or self.line_classifier is None:
            return 0, None
        model = self.reco_predictor.model if self.reco_predictor.reads_lines else None
        return page_turn(model, self.line_classifier, image, page_quads(located.boxes))

    def _words(
        self, image: Tensor, located: Located, readings: dict[str, list[ReadingsByTurn]]
    ) -> dict[str, ClassWords]:
        """Read the words of an upright page, by class. ``readings`` are the lines that were already read, by class."""
        # Hooks may restrict the text to some boxes. With several classes, signs outside their boxes belong to none.
        signs_outside = len(located.boxes) == 1 and not self.hooks
        return {
            name: self._class_words(image, boxes, readings.get(name), signs_outside)
            if len(boxes)
            else no_words(boxes.ndim == 2)
            for name, boxes in located.boxes.items()
        }

    def _class_words(
        self, image: Tensor, boxes: npt.NDArray[np.floating], readings: list[ReadingsByTurn] | None, signs_outside: bool
    ) -> ClassWords:
        scores = scores_of(boxes)
        if self.reco_predictor.reads_lines:
            return self._line_words(image, as_quads(boxes), scores, readings, signs_outside)
        places = boxes[:, :4]
        if self.det_predictor.finds_lines:
            places, scores = cut_lines_into_words(image, as_quads(boxes), scores)
            if self.assume_straight_pages:
                places = boxes_around(places).clip(0, 1)
        turns = np.zeros(len(places), dtype=np.int64)
        if places.ndim == 3:
            turns = self._turns(image, places.astype(np.float64))
        return read_page_words(self.reco_predictor.read, image, places, scores, turns)

    def _line_words(
        self,
        image: Tensor,
        quads: npt.NDArray[np.float64],
        scores: npt.NDArray[np.floating],
        readings: list[ReadingsByTurn] | None,
        signs_outside: bool,
    ) -> ClassWords:
        model, readers = self.reco_predictor.model, cast(Any, self.script_readers)
        known: dict[int, Any] = {}
        if self.assume_straight_pages:
            tried = readings or read_straight_lines(model, image, quads, self.split_after)
            if not (self.disable_crop_orientation or self.hooks):
                quads, scores, tried = join_sideways_letters(model, image, quads, scores, tried, self.split_after)
            if self.disable_crop_orientation:
                tried = [{0: own[0]} for own in tried]
            turns, known = turns_of_straight_lines(tried)
        else:
            turns = self._turns(image, quads)
        return read_page_lines(
            model,
            image,
            quads,
            scores,
            turns,
            known_lines=known,
            straight=self.assume_straight_pages,
            second_chance=not self.disable_crop_orientation,
            min_confidence=self.min_confidence,
            split_after=self.split_after,
            report_scripts=self.unreadable_scripts == "report",
            script_readers=dict(readers.items()),
            signs_outside=signs_outside,
        )

    def _turns(self, image: Tensor, quads: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return by how many degrees each line or word of an upright page is turned."""
        if self.crop_orientation_predictor is not None:
            crops = [image[:, :1, :1] if crop is None else crop for crop in cut_words(image, quads)]
            return np.array(self.crop_orientation_predictor(crops)[1], dtype=np.int64) % 360
        if self.disable_crop_orientation or self.line_classifier is None:
            return np.zeros(len(quads), dtype=np.int64)
        return turns_on_upright_page(self.line_classifier, image, quads)

    def _language(self, words: dict[str, ClassWords]) -> dict[str, Any] | None:
        if not self.detect_language:
            return None
        value, confidence = get_language(" ".join(text for found in words.values() for text, _ in found.texts))
        return {"value": value, "confidence": confidence}

    def _read_document(self, pages: Any) -> Any:
        read = list(self._read(pages))
        document = self.doc_builder._build(read)
        for number, (page, words) in enumerate(zip(document.pages, read, strict=True)):
            if self.ignored_kinds:
                remove_kinds(page, self.ignored_kinds)
            if not (self.detect_layout or self.detect_tables):
                page.layout = []
            if words.to_upright is not None:
                if words.orientation is not None:
                    turn = words.orientation["value"]
                    logger.info("page %d is turned by %d degrees, and is read upright", number, turn)
                restore_original(page, words.to_upright)
        return document


def _document_of(sources: Any, index: int) -> tuple[Any, int]:
    """Return the sequence that loads a page, which is ``sources`` or a document in it, and the page's index in it."""
    if not isinstance(sources, Pages) and isinstance(sources[index], Pages):
        return sources[index], 0
    return sources, index


def _result_image(sources: Any, index: int) -> Any:
    """Return the image that the read page keeps. If the page is from a file, its image is loaded only on demand."""
    document, number = _document_of(sources, index)
    if isinstance(document, Pages):
        return PageOfFile(document, number)
    source = sources[index]
    if isinstance(source, PIL.Image.Image):
        return pixels_of_pillow(source)
    return source.data if isinstance(source, Frame) else source
