"""Published datasets of photos with text, and of images of single words. Some texts are handwritten or generated."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ...errors import InvalidArgumentError, MissingDependencyError, OpenError
from ._files import (
    Archive,
    Array,
    check_file,
    corners_of,
    entries_of,
    entry,
    existing_folder,
    files_in,
    picture_in,
    quads_of,
    read_apart,
    read_json,
    read_lines,
    read_mat,
    read_text,
    read_xml,
    straight_boxes,
    text_of,
)
from .datasets import AbstractDataset, ArchivedWords, Page, WordsInFolder

# Share of training images in datasets without a published test part, as in docTR.
_TRAIN_SHARE = 0.9
# Words with longer texts are left out when images of words are written to files.
_MAX_CHARACTERS = 29

# Four numbers, separated by spaces or commas, and a text.
_IC13_LINE = re.compile(r"\s*(-?\d+)[,\s]+(-?\d+)[,\s]+(-?\d+)[,\s]+(-?\d+)[,\s]+(.*?)\s*", re.DOTALL)


class IC03(ArchivedWords):
    """Photographs with words: `ICDAR 2003 Robust Reading <http://www.iapr-tc11.org/dataset/ICDAR2003_RobustReading>`_.

    The cache folder (by default ``~/.cache/doctr/datasets``; see `VisionDataset`) must contain ``ic03_train.zip`` or
    ``ic03_test.zip``, or the unpacked folder ``ic03_train`` or ``ic03_test``. Images without words are left out.

    Arguments, targets and errors are the same as for `FUNSD`: ``train``, ``use_polygons``, ``recognition_task``,
    ``detection_task``, and further arguments of `VisionDataset`.
    """

    TRAIN = (
        "http://www.iapr-tc11.org/dataset/ICDAR2003_RobustReading/TrialTrain/scene.zip",
        "9d86df514eb09dd693fb0b8c671ef54a0cfe02e803b1bbef9fc676061502eb94",
        "ic03_train.zip",
    )
    TEST = (
        "http://www.iapr-tc11.org/dataset/ICDAR2003_RobustReading/TrialTest/scene.zip",
        "dbc4b5fd5d04616b8464a1b42ea22db351ee22c2546dd15ac35611857ea111f8",
        "ic03_test.zip",
    )
    _FOLDERS = ("SceneTrialTrain", "SceneTrialTest")

    def _pages(self, folder: Path) -> Iterator[Page]:
        return (page for page in _tagged_pages(folder, "words.xml") if page.labels)


class SVT(ArchivedWords):
    """Street View Text: street photographs in which only some words, mainly names of businesses, are labelled.

    The cache folder (by default ``~/.cache/doctr/datasets``; see `VisionDataset`) must contain ``svt.zip`` or the
    unpacked folder ``svt``.

    Arguments, targets and errors are the same as for `FUNSD`: ``train``, ``use_polygons``, ``recognition_task``,
    ``detection_task``, and further arguments of `VisionDataset`.
    """

    URL = "http://www.iapr-tc11.org/dataset/SVT/svt.zip"
    SHA256 = "63b3d55e6b6d1e036e2a844a20c034fe3af3c32e4d914d6e0c4a3cd43df3bebf"
    _FOLDERS = ("svt1", "svt1")

    def _pages(self, folder: Path) -> Iterator[Page]:
        return _tagged_pages(folder, "train.xml" if self.train else "test.xml")


def _tagged_pages(folder: Path, name: str) -> Iterator[Page]:
    """Yield a `Page` for each image in an XML file that stores words as ``taggedRectangle`` elements."""
    place = str(folder / name)
    for image in read_xml(folder / name):
        picture = picture_in(folder, image.findtext("imageName"), place)
        rectangles = list(image.iterfind("taggedRectangles/taggedRectangle"))
        boxes = [_rectangle(element, f"{picture!r} in {place}") for element in rectangles]
        yield Page(picture, corners_of(boxes, place), [element.findtext("tag") or "" for element in rectangles])


def _rectangle(element: ElementTree.Element, place: str) -> list[float]:
    try:
        x, y, width, height = (float(element.attrib[key]) for key in ("x", "y", "width", "height"))
    except (KeyError, ValueError) as error:
        raise InvalidArgumentError(
            f"A rectangle of {place} needs numbers as x, y, width and height ({error})."
        ) from None
    return [x, y, x + width, y + height]


class IC13(WordsInFolder):
    """Photographs with words: ICDAR 2013 Robust Reading, challenge 2, task 2.1.

    Args:
        img_folder: Folder of the images, ``Challenge2_Training_Task12_Images``.
        label_folder: Folder of the labels, ``Challenge2_Training_Task1_GT``, with ``gt_100.txt`` for ``100.jpg``.
        use_polygons, recognition_task, detection_task: Select the form of the boxes and targets, as for `FUNSD`.
        **kwargs: ``img_transforms`` and ``sample_transforms``, functions that change a sample; see `AbstractDataset`.

    Raises:
        SourceNotFoundError: A folder or a label file is missing.
        OpenError, InvalidArgumentError: A label file is damaged.
    """

    def __init__(
        self,
        img_folder: str | Path,
        label_folder: str | Path,
        use_polygons: bool = False,
        recognition_task: bool = False,
        detection_task: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(img_folder, label_folder, True, use_polygons, recognition_task, detection_task, **kwargs)

    def _check_labels(self, label_path: str | Path) -> None:
        existing_folder(label_path, "folder of labels")

    def _pages(self, label_path: str | Path) -> Iterator[Page]:
        for picture in files_in(self.root):
            boxes, labels = [], []
            for place, line in read_lines(Path(label_path) / f"gt_{Path(picture).stem}.txt"):
                fields = _IC13_LINE.fullmatch(line)
                if fields is None:
                    raise InvalidArgumentError(f"{place} must be four numbers and a text in quotation marks.")
                *box, label = fields.groups()
                boxes.append([int(number) for number in box])
                is_quoted = len(label) > 1 and label[0] == label[-1] == '"'
                labels.append(label[1:-1].replace('\\"', '"') if is_quoted else label)
            yield Page(picture, corners_of(boxes, picture), labels)

    def extra_repr(self) -> str:
        return ""


class IIIT5K(ArchivedWords):
    """Images of words with the boxes of their characters: IIIT 5K-word.

    The cache folder (by default ``~/.cache/doctr/datasets``; see `VisionDataset`) must contain
    ``IIIT5K-Word_V3.0.tar.gz`` or the unpacked folder ``IIIT5K-Word_V3.0.tar``. SciPy must be installed (the extra
    ``ocr``). By default, ``boxes`` and ``labels`` in the target of an image are for its single characters. With
    ``recognition_task``, the target is the whole word.

    Arguments, targets and errors are the same as for `FUNSD`: ``train``, ``use_polygons``, ``recognition_task``,
    ``detection_task``, and further arguments of `VisionDataset`.
    """

    URL = "https://cvit.iiit.ac.in/images/Projects/SceneTextUnderstanding/IIIT5K-Word_V3.0.tar.gz"
    SHA256 = "7872c9efbec457eb23f3368855e7738f72ce10927f52a382deb4966ca0ffa38e"
    _FOLDERS = ("IIIT5K", "IIIT5K")

    def _pages(self, folder: Path) -> Iterator[Page]:
        name = "trainCharBound" if self.train else "testCharBound"
        place = str(folder / f"{name}.mat")
        (words,) = read_mat(place, name)
        for word in words[0]:
            try:
                picture, text, boxes = str(word[0][0]), str(word[1][0]), np.asarray(word[2], np.float32).reshape(-1, 4)
            except (IndexError, ValueError, TypeError) as error:
                raise OpenError(f"{place} is damaged ({error}).") from None
            yield Page(picture_in(folder, picture, place), corners_of(_with_far_corners(boxes), place), list(text))

    def _words_of(self, page: Page, boxes: Array) -> Iterator[tuple[Any, str]]:
        # The whole image is one word.
        text = "".join(page.labels)
        if text and " " not in text:
            yield page.picture, text


def _with_far_corners(boxes: Array) -> Array:
    """Convert boxes (x, y, width, height) to (xmin, ymin, xmax, ymax)."""
    return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)


class SVHN(ArchivedWords):
    """House numbers with the boxes of their digits: `SVHN <http://ufldl.stanford.edu/housenumbers/>`_.

    The cache folder (by default ``~/.cache/doctr/datasets``; see `VisionDataset`) must contain ``svhn_train.tar`` (the
    renamed ``train.tar.gz``) or ``svhn_test.tar`` (the renamed ``test.tar.gz``), or the unpacked folder ``svhn_train``
    or ``svhn_test``. h5py must be installed (the extra ``svhn``). Labels are kept as published, where "10" stands for
    the digit 0.

    Arguments, targets and errors are the same as for `FUNSD`: ``train``, ``use_polygons``, ``recognition_task``,
    ``detection_task``, and further arguments of `VisionDataset`.
    """

    TRAIN = (
        "http://ufldl.stanford.edu/housenumbers/train.tar.gz",
        "4b17bb33b6cd8f963493168f80143da956f28ec406cc12f8e5745a9f91a51898",
        "svhn_train.tar",
    )
    TEST = (
        "http://ufldl.stanford.edu/housenumbers/test.tar.gz",
        "57ac9ceb530e4aa85b55d991be8fc49c695b3d71c6f6a88afea86549efde7fb5",
        "svhn_test.tar",
    )
    _FOLDERS = ("train", "test")

    def _pages(self, folder: Path) -> Iterator[Page]:
        file = folder / "digitStruct.mat"
        check_file(file, "label file")
        if find_spec("h5py") is None:
            raise MissingDependencyError(f'Reading {file} needs h5py: pip install "mediatensor[svhn]".')
        for name, digits in read_apart(file, "a MATLAB file of version 7.3", _house_numbers):
            boxes = np.array([digits[key] for key in ("left", "top", "width", "height")], np.float32).T
            quads = corners_of(_with_far_corners(boxes), str(file))
            yield Page(picture_in(folder, name, file), quads, [str(digit) for digit in digits["label"]])


def _house_numbers(path: str) -> list[tuple[str, dict[str, list[int]]]]:
    """Return (image name, digits) of each image from ``digitStruct.mat``; called by `read_apart`.

    ``digits`` maps "left", "top", "width", "height" and "label" to lists with one value for each digit of the house
    number.
    """
    import h5py

    numbers = []
    with h5py.File(path, "r") as variables:
        for name, box in zip(variables["digitStruct/name"], variables["digitStruct/bbox"], strict=True):
            # With several digits, the values are references. A single digit is stored directly.
            digits = {
                key: [int(values[0][0])]
                if values.shape[0] == 1
                else [int(variables[value[0]][()].item()) for value in values]
                for key, values in variables[box[0]].items()
            }
            numbers.append(("".join(map(chr, variables[name[0]][()].ravel())), digits))
    return numbers


class SynthText(ArchivedWords):
    """Photos with generated words: `SynthText <https://www.robots.ox.ac.uk/~vgg/data/scenetext/>`_, 858,750 images.

    The cache folder (by default ``~/.cache/doctr/datasets``; see `VisionDataset`) must contain ``SynthText.zip`` or the
    unpacked folder ``SynthText``. SciPy must be installed (the extra ``ocr``). The first nine tenths of the images are
    the training part.

    The first use with ``recognition_task`` cuts all words of up to 29 characters out of the images, and writes them as
    files into a new subfolder of the image folder. The subfolder has the same name as in docTR, such as
    ``SynthText_recognition_train``.

    Arguments, targets and errors are the same as for `FUNSD`: ``train``, ``use_polygons``, ``recognition_task``,
    ``detection_task``, and further arguments of `VisionDataset`.
    """

    URL = "https://thor.robots.ox.ac.uk/~vgg/data/scenetext/SynthText.zip"
    SHA256 = "28ab030485ec8df3ed612c568dd71fb2793b9afbfa3a9d9c6e792aef33265bf1"
    #: Name prefixes of damaged or missing images.
    BLACKLIST = ("67/fruits_129_", "194/window_19_")
    _FOLDERS = ("SynthText", "SynthText")

    def _archive(self, train: bool) -> Archive:
        # The archive has 41 GB, so its checksum is not verified, as in docTR.
        return super()._archive(train)._replace(sha256=None)

    def _crops_folder(self, use_polygons: bool) -> Path:
        return Path(self.root) / _crops_name("SynthText", self.train, use_polygons)

    def _pages(self, folder: Path) -> Iterator[Page]:
        file = folder / "gt.mat"
        names, boxes, texts = read_mat(file, "imnames", "wordBB", "txt")
        part = _part(self.train, names.shape[1])
        for name, corners, lines in zip(names[0][part], boxes[0][part], texts[0][part], strict=True):
            picture = str(name[0])
            if picture.startswith(self.BLACKLIST):
                continue
            picture_in(folder, picture, file)
            words = [word for line in lines.tolist() for word in line.split()]
            # The shape is (2, 4, N), or (2, 4) for a single word.
            quads = np.asarray(corners, np.float32).reshape(2, 4, -1).transpose(2, 1, 0)
            if len(quads) != len(words):
                raise OpenError(f"{file} has {len(quads)} boxes and {len(words)} words for {picture!r}.")
            yield Page(picture, quads_of(quads, f"{picture!r} in {file}"), words)

    def _text_to_learn(self, label: str) -> str:
        return label if len(label) <= _MAX_CHARACTERS else ""


def _crops_name(dataset: str, train: bool, use_polygons: bool) -> str:
    return f"{'Poly_' if use_polygons else ''}{dataset}_recognition_{'train' if train else 'test'}"


def _part(train: bool, count: int) -> slice:
    first = int(count * _TRAIN_SHARE)
    return slice(first) if train else slice(first, None)


class COCOTEXT(WordsInFolder):
    """Photographs of daily life with legible words: `COCO-Text <https://bgshih.github.io/cocotext/>`_.

    Illegible words, and images without a legible word, are left out.

    Args:
        img_folder: Folder of the images, ``train2014`` of COCO.
        label_path: The file ``cocotext.v2.json``.
        train: Whether to load the training part instead of the test part.
        use_polygons, recognition_task, detection_task: Select the form of the boxes and targets, as for `FUNSD`.
        **kwargs: ``img_transforms`` and ``sample_transforms``, functions that change a sample; see `AbstractDataset`.

    Raises:
        SourceNotFoundError: The folder, the file or an image is missing.
        OpenError, InvalidArgumentError: The file is damaged.
    """

    _IN_WHOLE_PIXELS = True

    def _pages(self, label_path: str | Path) -> Iterator[Page]:
        place = str(label_path)
        labels = read_json(label_path)
        pictures, words = entry(labels, "imgs", place), entry(labels, "anns", place)
        if not isinstance(pictures, dict) or not isinstance(words, dict):
            raise InvalidArgumentError(f"'imgs' and 'anns' of {place} must be objects.")
        legible = defaultdict(list)
        for word in words.values():
            if entry(word, "legibility", place) == "legible":
                legible[str(entry(word, "image_id", place))].append(word)
        for number, picture in pictures.items():
            if (entry(picture, "set", place) == "train") != self.train:
                continue
            name = picture_in(self.root, entry(picture, "file_name", place), place)
            if legible[number]:
                boxes = straight_boxes([entry(word, "bbox", place) for word in legible[number]], place)
                quads = corners_of(_with_far_corners(boxes), place)
                yield Page(name, quads, [text_of(word, "utf8_string", place) for word in legible[number]])


class IMGUR5K(WordsInFolder):
    """Photographs of handwriting: `IMGUR5K <https://github.com/facebookresearch/IMGUR5K-Handwriting-Dataset>`_.

    The first nine tenths of the images, ordered by name, are the training part. Images without words are left out.

    The first use with ``recognition_task`` cuts all words of up to 29 characters out of the images, and writes them as
    files into a new folder next to the image folder. The new folder has the same name as in docTR, such as
    ``IMGUR5K_recognition_train``.

    Args:
        img_folder: The folder ``images``.
        label_path: The file ``dataset_info/imgur5k_annotations.json``.
        train, use_polygons, recognition_task, detection_task, **kwargs: As for `COCOTEXT`.

    Raises:
        SourceNotFoundError: The folder or the file is missing.
        OpenError, InvalidArgumentError: The file is damaged.
        WriteError: The images of words cannot be written.
    """

    def _crops_folder(self, use_polygons: bool) -> Path:
        return Path(self.root).absolute().parent / _crops_name("IMGUR5K", self.train, use_polygons)

    def _pages(self, label_path: str | Path) -> Iterator[Page]:
        place = str(label_path)
        labels = read_json(label_path)
        words_of, words = entry(labels, "index_to_ann_map", place), entry(labels, "ann_id", place)
        pictures = files_in(self.root)
        for picture in pictures[_part(self.train, len(pictures))]:
            number = picture.partition(".")[0]
            if number not in words_of:
                continue
            own = [entry(words, key, place) for key in entries_of(words_of, number, place)]
            # The text "." marks an image without words.
            own = [word for word in own if entry(word, "word", place) != "."]
            if own:
                quads = np.stack([_turned_box(entry(word, "bounding_box", place), place) for word in own])
                yield Page(picture, quads_of(quads, place), [text_of(word, "word", place) for word in own])

    def _text_to_learn(self, label: str) -> str:
        return label if " " not in label and len(label) <= _MAX_CHARACTERS else ""


def _turned_box(text: Any, place: str) -> Array:
    """Convert "[x, y, width, height, angle]" of a box, with its centre and clockwise degrees, to four corners."""
    try:
        x, y, width, height, angle = map(float, text.strip("[ ]").split(","))
    except (AttributeError, ValueError):
        raise InvalidArgumentError(f"A bounding_box of {place} must be five numbers as text (got {text!r}).") from None
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2 * [width, height]
    cosine, sine = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
    turned: Array = [x, y] + corners @ np.array([[cosine, sine], [-sine, cosine]])
    return turned.astype(np.float32)


class _SingleWords(AbstractDataset):
    """Base class of datasets whose images are single words, listed in a label file of up to millions of lines.

    Therefore a missing image raises an error only when it is accessed.
    """

    def __init__(self, img_folder: str | Path, label_path: str | Path, train: bool = True, **kwargs: Any) -> None:
        super().__init__(img_folder, **kwargs)
        check_file(label_path, "label file")
        self.train = train
        lines = [line for line in read_text(label_path).split("\n") if line.strip()]
        self._order(lines)
        self.data: list[tuple[str, str]] = []
        for line in lines[_part(train, len(lines))]:
            name, label = self._name_and_text(line.strip())
            if not label:
                raise InvalidArgumentError(f"{label_path} has the line {line!r}, without {self._EXPECTED}.")
            if self._is_intact(name):
                self.data.append((name, label))

    _EXPECTED: str

    def _order(self, lines: list[str]) -> None:
        """Reorder the lines of the label file in place, before they are split into a training and a test part."""

    def _name_and_text(self, line: str) -> tuple[str, str]:
        """Parse a line of the label file, and return (image name, text). The text is empty if the line has none."""
        raise NotImplementedError

    def _is_intact(self, name: str) -> bool:
        return True

    def extra_repr(self) -> str:
        return f"train={self.train}"


class MJSynth(_SingleWords):
    """Generated words: `MJSynth <https://www.robots.ox.ac.uk/~vgg/data/text/>`_, 8.9 million images.

    The first nine tenths of the images are the training part. Each image is one word, and the target is its text.
    Images known to be damaged are left out.

    Args:
        img_folder: Folder ``mnt/ramdisk/max/90kDICT32px``.
        label_path: The file ``imlist.txt`` in ``img_folder``. The texts are part of the image names.
        train: Whether to load the training part instead of the test part.
        **kwargs: ``img_transforms`` and ``sample_transforms``, functions that change a sample; see `AbstractDataset`.

    Raises:
        SourceNotFoundError: The folder or the file is missing.
        InvalidArgumentError: A line of the label file has no text.
    """

    #: Damaged images.
    BLACKLIST = frozenset(
        (
            *("1881/4/225_Marbling_46673", "2069/4/192_whittier_86389", "869/4/234_TRIASSIC_80582"),
            *("173/2/358_BURROWING_10395", "913/4/231_randoms_62372", "596/2/372_Ump_81662"),
            *("936/2/375_LOCALITIES_44992", "2540/4/246_SQUAMOUS_73902", "1332/4/224_TETHERED_78397"),
            *("627/6/83_PATRIARCHATE_55931", "2013/2/370_refract_63890", "2911/6/77_heretical_35885"),
            *("1730/2/361_HEREON_35880", "2194/2/334_EFFLORESCENT_24742", "2025/2/364_SNORTERS_72304"),
            *("368/4/232_friar_30876", "275/6/96_hackle_34465", "384/4/220_bolts_8596"),
            *("905/4/234_Postscripts_59142", "2749/6/101_Chided_13155", "495/6/81_MIDYEAR_48332"),
            *("2852/6/60_TOILSOME_79481", "554/2/366_Teleconferences_77948", "1696/4/211_Queened_61779"),
            *("2128/2/369_REDACTED_63458", "2557/2/351_DOWN_23492", "2489/4/221_snored_72290"),
            *("1650/2/355_stony_74902", "1863/4/223_Diligently_21672", "264/2/362_FORETASTE_30276"),
            *("429/4/208_Mainmasts_46140", "1817/2/363_actuating_904"),
        )
    )

    _EXPECTED = "the name of a picture such as ./1/2/3_word_4.jpg"

    def _name_and_text(self, line: str) -> tuple[str, str]:
        parts = line.split("_")
        return line.removeprefix("./"), parts[1] if len(parts) > 2 else ""

    def _is_intact(self, name: str) -> bool:
        return name.removesuffix(".jpg") not in self.BLACKLIST


class IIITHWS(_SingleWords):
    """Generated words in handwriting fonts: `IIIT-HWS <https://arxiv.org/abs/1608.04224>`_.

    The words are shuffled with a fixed seed. The first nine tenths of them are the training part. Each image is one
    word, and the target is its text.

    Args:
        img_folder: The folder ``Images_90K_Normalized``.
        label_path: The file ``IIIT-HWS-90K.txt``, which has the name of an image and its text in each line.
        train, **kwargs: As for `MJSynth`, which raises the same errors.
    """

    _EXPECTED = "the name of a picture and its text"

    def _order(self, lines: list[str]) -> None:
        # The same text occurs many times in a row. Both parts are shuffled in the same way, so they do not overlap.
        random.Random(0).shuffle(lines)

    def _name_and_text(self, line: str) -> tuple[str, str]:
        name, _, rest = line.partition(" ")
        return name, rest.split()[0] if rest.split() else ""
