"""docTR's data sets: against what docTR gives for the same files, against formulas, and with odd files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pickle
import random
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

import ocr_dataset_files as files
from mediatensor.datasets import Item
from mediatensor.errors import InvalidArgumentError, OpenError, OutOfRangeError, SourceNotFoundError, SourceTypeError
from mediatensor.ocr import datasets
from mediatensor.ocr import transforms as T
from mediatensor.ocr.datasets.datasets import AbstractDataset, VisionDataset
from mediatensor.ocr.datasets.generator import synthesize_text_img
from mediatensor.ocr.drawing import _faces, find_faces
from mediatensor.ocr.utils import Sample
from ocr_records import read_record
from real_files import TEST_DATA

pytestmark = pytest.mark.usefixtures("forked_processes")

RECORDED = read_record("datasets")
# cv2.boxPoints starts at the bottom left, so docTR reads these words sideways.
TURNED_BY_DOCTR = {("IMGUR5K", "polygons"), ("IMGUR5K", "recognition of polygons")}


def agree(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, float):
        return mine == pytest.approx(theirs, abs=2e-3)
    if isinstance(theirs, dict):
        return list(mine) == list(theirs) and all(agree(mine[key], value) for key, value in theirs.items())
    if isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(agree, mine, theirs))
    return bool(mine == theirs)


@pytest.mark.parametrize("name", [*files.ARCHIVED, *files.FOLDERS, *files.OWN])
def test_datasets_match_those_of_doctr(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "SVHN":
        pytest.importorskip("h5py")
        # All ways read one file: the process that reads it starts once, as starting takes seconds.
        scenes = sys.modules[datasets.SVHN.__module__]
        monkeypatch.setattr(scenes, "read_apart", cache(scenes.read_apart))
    files.write_files(tmp_path, name)
    ways = dict(files.calls(datasets, tmp_path, name))
    assert ways.keys() == RECORDED[name].keys()
    for way, dataset in ways.items():
        if (name, way) in TURNED_BY_DOCTR:
            continue
        shown, rows = RECORDED[name][way]
        assert repr(dataset) == shown
        mine = files.summary(dataset)
        for one, other in zip(mine, rows, strict=True):
            assert agree(one, other), (way, one, other)


def test_turned_handwriting_is_cut_out_upright(tmp_path: Path) -> None:
    files.imgur5k(tmp_path, angle=20.0)
    made = datasets.IMGUR5K(tmp_path / "images", tmp_path / "info.json", use_polygons=True)
    quad = made[0].target["boxes"][0] * [120, 80]
    # A box of 30 x 12 around (30, 30), turned clockwise by 20 degrees.
    along, down = quad[1] - quad[0], quad[3] - quad[0]
    assert np.hypot(*along) == pytest.approx(30, abs=1e-3)
    assert np.hypot(*down) == pytest.approx(12, abs=1e-3)
    assert np.rad2deg(np.arctan2(along[1], along[0])) == pytest.approx(20, abs=1e-2)
    assert quad.mean(0) == pytest.approx([30, 30], abs=1e-3)
    words = datasets.IMGUR5K(tmp_path / "images", tmp_path / "info.json", use_polygons=True, recognition_task=True)
    # Points are cut to whole pixels.
    assert words[0].image.shape[1:] == pytest.approx((12, 30), abs=1)


def test_handwriting_without_annotations_is_left_out(tmp_path: Path) -> None:
    files.imgur5k(tmp_path)
    labels = json.loads((tmp_path / "info.json").read_text())
    del labels["index_to_ann_map"]["4"]
    (tmp_path / "info.json").write_text(json.dumps(labels))
    made = datasets.IMGUR5K(tmp_path / "images", tmp_path / "info.json")
    # The words of 0 are marked as missing; 9 is in the test part.
    assert [name for name, _ in made.data] == [f"{number}.png" for number in (1, 2, 3, 5, 6, 7, 8)]


def test_words_that_were_cut_out_are_read_the_next_time(tmp_path: Path) -> None:
    files.imgur5k(tmp_path)
    places = tmp_path / "images", tmp_path / "info.json"
    first = files.summary(datasets.IMGUR5K(*places, recognition_task=True))
    (tmp_path / "info.json").write_text("{}")
    assert files.summary(datasets.IMGUR5K(*places, recognition_task=True)) == first
    assert {path.name for path in tmp_path.iterdir()} == {"images", "info.json", "IMGUR5K_recognition_train"}


def test_interrupted_cutting_leaves_no_files(tmp_path: Path) -> None:
    files.imgur5k(tmp_path)
    (tmp_path / "images" / "5.png").write_bytes(b"no picture")
    with pytest.raises(OpenError, match=r"5\.png"):
        datasets.IMGUR5K(tmp_path / "images", tmp_path / "info.json", recognition_task=True)
    (tmp_path / "images" / "5.png").unlink()
    (tmp_path / "images" / "5.png").symlink_to("absent")
    with pytest.raises(SourceNotFoundError, match=r"5\.png"):
        datasets.IMGUR5K(tmp_path / "images", tmp_path / "info.json", recognition_task=True)
    assert {path.name for path in tmp_path.iterdir()} == {"images", "info.json"}


def test_training_and_test_parts_are_disjoint(tmp_path: Path) -> None:
    files.iiithws(tmp_path)
    places = tmp_path / "images", tmp_path / "labels.txt"
    train, test = (datasets.IIITHWS(*places, train=part) for part in (True, False))
    assert (len(train), len(test)) == (18, 2)
    assert sorted(label for part in (train, test) for _, label in part.data) == sorted(f"word{i}" for i in range(20))
    number = int(test.data[0][1].removeprefix("word"))
    image = torch.from_numpy(files.pixels(number, (12, 30))).permute(2, 0, 1) / 255
    assert torch.equal(test[0].image, image)
    assert test.data == datasets.IIITHWS(*places, train=False).data


def test_words_outside_of_the_picture_are_left_out(tmp_path: Path) -> None:
    files.draw(tmp_path / "a.png")
    boxes = {"in": [8, 10, 40, 10, 40, 26, 8, 26], "out": [130, 90, 140, 90, 140, 99, 130, 99]}
    words = [{"box": box, "text": text} for text, box in boxes.items()]
    files.write(tmp_path / "train.txt", {"file_name": "a.png", "annotations": words})
    read = datasets.WILDRECEIPT(tmp_path, tmp_path / "train.txt", recognition_task=True)
    assert [text for _, text in read.data] == ["in"]
    assert (read.data[0][0] == files.pixels()[10:26, 8:40]).all()


def test_pictures_that_a_camera_turned_are_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by 90 degrees
    Image.fromarray(files.pixels()).save(tmp_path / "a.png", exif=exif)
    upright = np.rot90(files.pixels(), -1)
    files.write(tmp_path / "labels.json", {"a.png": "text"})
    image = datasets.RecognitionDataset(tmp_path, tmp_path / "labels.json")[0].image
    assert torch.equal(image, torch.from_numpy(upright.copy()).permute(2, 0, 1) / 255)
    crops = datasets.crop_bboxes_from_image(tmp_path / "a.png", np.array([[5, 60, 50, 100]]))
    assert (crops[0] == upright[60:100, 5:50]).all()


# From files of the user only.


@pytest.mark.parametrize("download", [False, True])
@pytest.mark.parametrize("name", files.ARCHIVED)
def test_error_names_the_missing_files(name: str, download: bool, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError) as caught:
        getattr(datasets, name)(download=download, cache_dir=tmp_path)
    assert isinstance(caught.value, ValueError)  # docTR's type
    archive = files.ARCHIVED[name][0]
    assert str(tmp_path / "datasets" / archive) in str(caught.value)
    assert "http" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="users of Unix")
def test_users_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "DOCTR_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # as in a container with a user that has no name
    with pytest.raises(SourceNotFoundError, match=r"~/\.cache/doctr"):
        datasets.FUNSD(download=True)
    _faces._installed.cache_clear()
    assert find_faces()
    _faces._installed.cache_clear()


def funsd_archive(folder: Path, kind: str = "zip") -> Path:
    """An archive of FUNSD where it is looked for, and nothing else."""
    (folder / "datasets").mkdir(parents=True)
    files.funsd(folder / "made")
    made = shutil.make_archive(str(folder / "packed"), kind, folder / "made")
    shutil.rmtree(folder / "made")
    return Path(shutil.move(made, folder / "datasets" / "funsd.zip"))


@pytest.mark.parametrize("kind", ["zip", "tar", "gztar", "xztar"])
def test_archives_are_unpacked_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = funsd_archive(tmp_path, kind)
    monkeypatch.setattr(datasets.FUNSD, "SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
    monkeypatch.setenv("DOCTR_CACHE_DIR", str(tmp_path))
    rows = files.summary(datasets.FUNSD(download=True))
    assert agree(rows, RECORDED["FUNSD"]["boxes"][1])
    folder = tmp_path / "datasets" / "funsd"
    picture = folder / "dataset" / "training_data" / "images" / "1.png"
    picture.unlink()
    assert len(datasets.FUNSD()) == 1
    assert len(datasets.FUNSD(overwrite=True)) == 2
    archive.unlink()
    assert files.summary(datasets.FUNSD(overwrite=True)) == rows
    assert [path.name for path in (tmp_path / "datasets").iterdir()] == ["funsd"]


def test_other_file_than_published_is_rejected(tmp_path: Path) -> None:
    archive = funsd_archive(tmp_path)
    with pytest.raises(OpenError, match=hashlib.sha256(archive.read_bytes()).hexdigest()):
        datasets.FUNSD(cache_dir=tmp_path)
    named = tmp_path / "datasets" / "words-0123abcd.zip"
    named.write_bytes(archive.read_bytes())
    with pytest.raises(OpenError, match="0123abcd"):
        VisionDataset("https://example.org/words-0123abcd.zip", extract_archive=True, cache_dir=tmp_path)


def zipped(*members: tuple[str, bytes, int]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return file.getvalue()


def tarred(*members: tarfile.TarInfo) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return file.getvalue()


def tar_member(name: str, **fields: Any) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(member, field, value)
    return member


HOSTILE = {
    "a path upwards": zipped(("ok.txt", b"", 0), ("../out.txt", b"out", 0)),
    "backslashes": zipped(("..\\out.txt", b"out", 0)),
    "an absolute path": tarred(tar_member("/tmp/out.txt", size=3)),
    "a drive": zipped(("c:/out.txt", b"out", 0)),
    "a link in a zip": zipped(("link", b"/etc", 0o120777)),
    "a link in a tar": tarred(tar_member("link", type=tarfile.SYMTYPE, linkname="/etc")),
    "a hard link": tarred(tar_member("link", type=tarfile.LNKTYPE, linkname="/etc/passwd")),
    "a device": tarred(tar_member("null", type=tarfile.CHRTYPE)),
    "no name": tarred(tar_member(".", size=3)),
    "a gzip that breaks off": gzip.compress(tarred(tar_member("a", size=50_000)))[:60],
    "a gzip that is damaged": gzip.compress(tarred(tar_member("a", size=50_000)), mtime=0)[:30] + bytes(40),
    "no archive": b"no archive at all" * 100,
    "nothing": b"",
    "half a zip": zipped(("a", random.Random(0).randbytes(5000), 0))[:3000],
    "half a tar": tarred(tar_member("a", size=50_000))[:3000],
    "wrong data in a zip": zipped(("a", b"text" * 1000, 0)).replace(b"PK\x03\x04", b"PK\x03\x05", 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_leave_nothing_behind(name: str, tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "words.zip").write_bytes(HOSTILE[name])
    with pytest.raises(OpenError):
        VisionDataset("https://example.org/words.zip", extract_archive=True, cache_dir=tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["datasets", "words.zip"]


def test_oversized_archive_contents_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    file = tmp_path / "datasets" / "words.zip"
    large = tar_member("large", size=3 << 30)  # the stated size is checked before reading
    file.write_bytes(tarred(tar_member("a", size=3))[:1024] + large.tobuf())
    with pytest.raises(OpenError, match=r"more than \d+ bytes, the limit for its size"):
        VisionDataset("https://example.org/words.zip", extract_archive=True, cache_dir=tmp_path)
    assert [path.name for path in (tmp_path / "datasets").iterdir()] == ["words.zip"]
    # Zeros are packed a thousandfold, which is fine where they are few.
    file.write_bytes(zipped(("zeros", bytes(1 << 22), 0)))
    found = VisionDataset("https://example.org/words.zip", extract_archive=True, cache_dir=tmp_path)
    assert (Path(found.root) / "zeros").stat().st_size == 1 << 22
    assert (len(found), repr(found)) == (0, "VisionDataset()")


# What docTR cannot hold.


@pytest.fixture
def own(tmp_path: Path) -> Path:
    files.own(tmp_path)
    return tmp_path


def labelled(folder: Path, label: Any, name: str = "0.png") -> str:
    files.write(folder / "labels.json", {name: label})
    return str(folder / "labels.json")


def test_pages_without_boxes_have_empty_targets(own: Path) -> None:
    pictures = own / "images"
    resize = T.Resize((32, 48), preserve_aspect_ratio=True, symmetric_pad=True)
    for shape in ((0, 4), (0, 4, 2)):
        options: dict[str, Any] = {"use_polygons": len(shape) == 3, "sample_transforms": resize}
        for polygons in ([], {}, {"words": []}):
            assert datasets.DetectionDataset(pictures, labelled(own, {"polygons": polygons}), **options)[0].target == {}
        layout = datasets.LayoutDataset(pictures, labelled(own, {"polygons": [], "classes": []}), **options)
        assert (layout[0].target, layout.class_names) == ({}, [])
        words = datasets.OCRDataset(pictures, labelled(own, {"typed_words": []}), **options)[0]
        assert (words.target["boxes"].shape, words.target["labels"]) == (shape, [])
        cells = datasets.TableStructureDataset(pictures, labelled(own, {"cells": [], "logic": []}), **options)[0]
        assert (cells.target["cells"].shape, cells.target["logic"].shape) == (shape, (0, 4))
    assert datasets.DetectionDataset(pictures, labelled(own, {"polygons": {"words": []}})).class_names == ["words"]
    files.write(own / "none.json", {})
    assert len(datasets.RecognitionDataset(pictures, own / "none.json")) == 0


def test_published_pages_without_words_are_read(tmp_path: Path) -> None:
    cache = tmp_path / "datasets"
    files.draw(cache / "funsd" / "dataset" / "training_data" / "images" / "a.png")
    files.write(cache / "funsd" / "dataset" / "training_data" / "annotations" / "a.json", {"form": []})
    files.draw(cache / "sroie2019_train_task1" / "images" / "a.jpg")
    files.write(cache / "sroie2019_train_task1" / "annotations" / "a.txt", "\n")
    files.draw(cache / "cord_train" / "image" / "a.png")
    files.write(cache / "cord_train" / "json" / "a.json", {"valid_line": []})
    for name in ("FUNSD", "SROIE", "CORD"):
        build = getattr(datasets, name)
        assert build(cache_dir=tmp_path)[0].target["boxes"].shape == (0, 4)
        assert build(cache_dir=tmp_path, use_polygons=True, detection_task=True)[0].target.shape == (0, 4, 2)
        assert len(build(cache_dir=tmp_path, recognition_task=True)) == 0


def test_boxes_outside_are_cut_at_the_edges(own: Path) -> None:
    outside = [[[-10, -10], [60, -10], [60, 40], [-10, 40]], [[200, 200], [300, 200], [300, 300], [200, 300]]]
    target = datasets.DetectionDataset(own / "images", labelled(own, {"polygons": outside}))[0].target
    assert target["words"].tolist() == [[0, 0, 0.5, 0.5], [1, 1, 1, 1]]
    beside = datasets.crop_bboxes_from_image(own / "images" / "0.png", np.array([[130, 90, 140, 99]]))
    assert beside[0].size == 0


@pytest.mark.parametrize(
    ("kind", "label", "said"),
    [
        ("DetectionDataset", [], "'polygons'"),
        ("DetectionDataset", {"polygons": "none"}, "must be a list"),
        ("DetectionDataset", {"polygons": {"words": 7}}, "must be a list"),
        ("DetectionDataset", {"polygons": [[[0, 0], [1, 0], [1, 1]]]}, "four points"),
        ("DetectionDataset", {"polygons": [[[0, 0], [1, 0], [1, 1], ["a", 1]]]}, "four points"),
        ("DetectionDataset", {"polygons": [[[0, 0], [1, 0], [1, 1], [float("nan"), 1]]]}, "four points"),
        ("LayoutDataset", {"polygons": []}, "'classes'"),
        ("LayoutDataset", {"polygons": [], "classes": ["title"]}, "0 polygons and 1 classes"),
        ("LayoutDataset", {"polygons": [files.QUADS[0]], "classes": [7]}, "must be names"),
        ("RecognitionDataset", None, "must be a text"),
        ("OCRDataset", {"typed_words": {}}, "must be a list"),
        ("OCRDataset", {"typed_words": [{"value": "one"}]}, "'geometry'"),
        ("OCRDataset", {"typed_words": [{"value": "one", "geometry": [0, 0, 1]}]}, "four numbers"),
        ("OCRDataset", {"typed_words": [{"value": 1, "geometry": [0, 0, 1, 1]}]}, "must be a text"),
        ("TableStructureDataset", {"cells": [files.QUADS[0]], "logic": []}, "four whole numbers"),
        ("TableStructureDataset", {"cells": [files.QUADS[0]], "logic": [[0, 0, 0, 0.5]]}, "four whole numbers"),
    ],
)
def test_error_names_wrong_labels(kind: str, label: Any, said: str, own: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        getattr(datasets, kind)(str(own / "images"), labelled(own, label))
    assert "'0.png' in" in str(caught.value)


@pytest.mark.parametrize("kind", files.OWN)
def test_missing_and_invalid_label_files_are_rejected(kind: str, own: Path) -> None:
    build, pictures = getattr(datasets, kind), str(own / "images")
    with pytest.raises(FileNotFoundError, match=r"absent\.png"):
        build(pictures, labelled(own, {}, "absent.png"))
    with pytest.raises(FileNotFoundError, match=r"absent\.json"):
        build(pictures, str(own / "absent.json"))
    with pytest.raises(ValueError, match="folder"):
        build(str(own / "absent"), str(own / "labels.json"))
    for text in (b"{", b"\xff\xfe\x00", b"[" * 100_000):
        (own / "labels.json").write_bytes(text)
        with pytest.raises(OpenError, match=r"labels\.json"):
            build(pictures, str(own / "labels.json"))
    files.write(own / "labels.json", ["0.png"])
    with pytest.raises(InvalidArgumentError, match="one JSON object"):
        build(pictures, str(own / "labels.json"))


def test_error_names_an_unreadable_picture(own: Path) -> None:
    words = datasets.RecognitionDataset(own / "images", own / "texts.json")
    (own / "images" / "1.png").write_bytes(b"no picture")
    assert words[0].target == "one"
    with pytest.raises(OpenError, match=r"1\.png"):
        words[1]


DAMAGED: dict[str, tuple[str, Callable[[Path], str]]] = {
    "WILDRECEIPT": ("train.txt", lambda file: file.read_text() + "{}\n"),
    "COCOTEXT": ("cocotext.json", lambda file: '{"imgs": {}, "anns": []}'),
    "IMGUR5K": ("info.json", lambda file: file.read_text().replace("30.0", "x")),
    "MJSynth": ("imlist.txt", lambda file: "plain.jpg\n" * 10),
    "IC13": ("labels/gt_0.txt", lambda file: "1, 2, 3, one\n"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_published_labels_are_rejected(name: str, tmp_path: Path) -> None:
    files.write_files(tmp_path, name)
    file, damage = DAMAGED[name]
    path = tmp_path / name / file
    path.write_text(damage(path))
    with pytest.raises(InvalidArgumentError, match=path.name.replace(".", r"\.")):
        next(files.calls(datasets, tmp_path, name))


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        *(
            ("SVT", "train.xml", content)
            for content in (
                b"<tagset>",
                b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
                b"\0",
                b"",
                b"<?xml version='1.0' encoding='none'?><a/>",
            )
        ),
        ("SynthText", "gt.mat", b"no MATLAB"),
    ],
)
def test_damaged_files_of_archives_are_rejected(name: str, file: str, content: bytes, tmp_path: Path) -> None:
    files.write_files(tmp_path, name)
    (path,) = tmp_path.rglob(file)
    path.write_bytes(content)
    with pytest.raises(OpenError, match=re.escape(file)):
        getattr(datasets, name)(cache_dir=tmp_path)


@pytest.mark.parametrize(("place", "value"), [(260, 1), pytest.param(280, 128, marks=pytest.mark.slow)])
def test_crash_of_the_matlab_parser_is_an_error(place: int, value: int, tmp_path: Path) -> None:
    """One byte is enough for SciPy to end the process that reads the file."""
    files.write_files(tmp_path, "IIIT5K")
    (file,) = tmp_path.rglob("trainCharBound.mat")
    content = bytearray(file.read_bytes())
    content[place] = value
    file.write_bytes(content)
    with pytest.raises(OpenError, match=r"trainCharBound\.mat cannot be read as a MATLAB file"):
        datasets.IIIT5K(cache_dir=tmp_path)


def test_a_crash_of_h5py_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is known that h5py crashes on: one that always does takes its place."""
    (tmp_path / "h5py.py").write_text("import os\ndef File(path, mode):\n    os.abort()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "h5py", raising=False)
    files.write(tmp_path / "datasets" / "svhn_train" / "train" / "digitStruct.mat", "damaged")
    with pytest.raises(OpenError, match=r"digitStruct\.mat cannot be read as a MATLAB file of version 7\.3 .*SIGABRT"):
        datasets.SVHN(cache_dir=tmp_path)


def test_texts_with_quotation_marks_and_commas_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "datasets" / "sroie2019_train_task1"
    files.draw(folder / "images" / "a.jpg")
    box = "8,10,40,10,40,26,8,26"
    texts = ['"one', "2,50", "Größe", 'x"y']
    for encoding in ("utf-8", "latin-1", "utf-8-sig"):
        files.write(folder / "annotations" / "a.txt", "\r\n".join(f"{box},{text}" for text in texts), encoding)
        assert datasets.SROIE(cache_dir=tmp_path)[0].target["labels"] == texts
    files.draw(tmp_path / "images" / "a.jpg")
    lines = ('8, 10, 40, 26, "two words"', '8 10 40 26 "it\'s"', '8,10,40,26,"say ""x"""', '8 10 40 26 "a\\"b"')
    files.write(tmp_path / "labels" / "gt_a.txt", "\n".join(lines), "utf-8-sig")
    read = datasets.IC13(tmp_path / "images", tmp_path / "labels")[0].target
    assert read["labels"] == ["two words", "it's", 'say ""x""', 'a"b']
    assert read["boxes"].shape == (4, 4)


# As parts of a training.


def test_both_tasks_at_once_are_refused(tmp_path: Path) -> None:
    for name in (*files.ARCHIVED, "COCOTEXT", "IC13", "IMGUR5K", "WILDRECEIPT"):
        if name != "DocArtefacts":
            places = () if name in files.ARCHIVED else (tmp_path, tmp_path)
            with pytest.raises(ValueError, match="exclude each other"):
                getattr(datasets, name)(*places, recognition_task=True, detection_task=True)


def test_datasets_work_in_batches_workers_and_pickles(own: Path) -> None:
    resize = T.Resize((32, 48), preserve_aspect_ratio=True)
    pages = datasets.DetectionDataset(own / "images", own / "classes.json", sample_transforms=resize)
    assert pages.class_names == ["logo", "words"]
    for dataset, workers in ((pages, 0), (pickle.loads(pickle.dumps(pages)), 1)):
        (batch,) = DataLoader(dataset, batch_size=2, num_workers=workers, collate_fn=dataset.collate_fn)
        images, targets = batch
        assert images.shape == (2, 3, 32, 48)
        assert [list(target) for target in targets] == [["logo", "words"], ["words"]]
        assert torch.equal(images[0], pages[0].image)


def test_collate_fn_rejects_uneven_samples() -> None:
    image, mask = torch.zeros(3, 4, 6), torch.ones(4, 6)
    with pytest.raises(RuntimeError, match="Resize"):
        AbstractDataset.collate_fn([Sample(image), Sample(torch.zeros(3, 4, 7))])
    with pytest.raises(InvalidArgumentError, match="1 of 2 samples have a mask"):
        AbstractDataset.collate_fn([Sample(image, mask), Sample(image)])
    (images, masks), targets = AbstractDataset.collate_fn([Sample(image, mask, "a")] * 2)
    assert (images.shape, masks.shape, targets) == ((2, 3, 4, 6), (2, 4, 6), ["a", "a"])


def test_transforms_run_in_order_on_a_copy_of_the_target(own: Path) -> None:
    words = datasets.OCRDataset(own / "images", own / "words.json")

    def invert(sample: Sample) -> Sample:
        return sample.replace(image=1 - sample.image)

    def spoil(sample: Sample) -> Sample:
        sample.target["labels"].append(float(sample.image.mean()))
        return sample

    plain = words[0]
    words.img_transforms, words.sample_transforms = invert, spoil
    for _ in range(2):
        assert words[0].target["labels"] == [*files.WORDS, pytest.approx(1 - float(plain.image.mean()), abs=1e-5)]


@pytest.mark.parametrize("target", [0, {"boxes": np.zeros((1, 4))}, {"label": "A"}, ("a",), ("a", "b"), None])
def test_targets_of_custom_datasets_are_checked(target: Any, own: Path) -> None:
    pages = AbstractDataset(own / "images")
    pages.data = [("0.png", target)]
    with pytest.raises(AssertionError):
        pages[0]


def test_merged_dataset_has_the_rows_of_both(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.draw(own / "more" / "x.png", 5)
    files.write(own / "more.json", {"x.png": "x"})
    monkeypatch.chdir(own)
    words = datasets.RecognitionDataset("images", "texts.json")
    other = datasets.RecognitionDataset("more", "more.json")
    before = [words[0].image, words[1].image, other[0].image]
    other.data.append((files.pixels(9), "pixels"))
    words.merge_dataset(other)
    monkeypatch.chdir(tmp_path.parent)
    assert [words[number].target for number in range(4)] == ["one", "Größe 2", "x", "pixels"]
    assert all(torch.equal(words[number].image, image) for number, image in enumerate(before))


def test_transform_must_not_remove_cells(own: Path) -> None:
    tables = datasets.TableStructureDataset(
        own / "images", own / "cells.json", sample_transforms=lambda sample: sample.replace(target=sample.target[1:])
    )
    with pytest.raises(InvalidArgumentError, match="3 of 4 cells"):
        tables[0]


def test_orientation_dataset_has_upright_pictures(own: Path) -> None:
    (own / "images" / ".hidden").write_text("")
    (own / "images" / "folder").mkdir()
    upright = datasets.OrientationDataset(own / "images")
    assert [name for name, _ in upright.data] == ["0.png", "1.png"]
    assert upright[1].target.tolist() == [0]


# Generators.


def test_generated_words_match_doctr_for_a_seed() -> None:
    words = datasets.WordGenerator("abcdé", 2, 8, 20)
    random.seed(7)
    assert [words._generate_string(2, 8) for _ in range(20)] == RECORDED["words"]
    random.seed(7)
    assert words[3].target == RECORDED["words"][0]
    random.seed(7)
    cached = datasets.WordGenerator("abcdé", 2, 8, 20, cache_samples=True)
    assert [cached[number].target for number in range(20)] == RECORDED["words"]


def test_generated_words_have_requested_letters_and_lengths() -> None:
    words = datasets.WordGenerator("abc", 3, 5, 30, cache_samples=True)
    texts = {words[number].target for number in range(30)}
    assert {len(text) for text in texts} == {3, 4, 5}
    assert set("".join(texts)) == set("abc")
    assert torch.equal(words[4].image, words[4].image)
    assert len(list(words)) == 30
    for index in (30, -31):
        with pytest.raises(OutOfRangeError):
            words[index]


def test_generated_characters_follow_the_vocabulary() -> None:
    for cached in (False, True):
        characters = datasets.CharacterGenerator("xyz", 7, cache_samples=cached)
        assert [characters[number].target for number in range(7)] == [0, 1, 2, 0, 1, 2, 0]
        assert characters[0].image.shape[1] == characters[0].image.shape[2]
        assert characters[0].image.dtype == torch.float32
    images = [pickle.loads(pickle.dumps(characters))[number].image for number in range(3)]
    assert not any(torch.equal(images[0], other) for other in images[1:] if other.shape == images[0].shape)


@pytest.mark.parametrize("text", ["g", "Ägypten", "_", "word", "j", "."])
def test_ink_is_never_cut_off(text: str) -> None:
    drawn = np.asarray(synthesize_text_img(text, 40).convert("L")).astype(float)
    # On wide paper the same ink: docTR draws it off its place, and loses some.
    edges = np.concatenate([drawn[0], drawn[-1], drawn[:, 0], drawn[:, -1]])
    rows, columns = (drawn > 0).nonzero()
    assert len(rows) > 0
    assert (edges == 0).all()
    # The box of a font reaches to the baseline, from which an underscore is away.
    assert abs((rows.min() + rows.max() + 1) / 2 - drawn.shape[0] / 2) <= 4
    assert abs((columns.min() + columns.max() + 1) / 2 - drawn.shape[1] / 2) <= 2


def test_colours_and_blanks_are_drawn() -> None:
    drawn = np.asarray(synthesize_text_img("word", background_color=(10, 20, 30), text_color=(200, 100, 50)))
    assert drawn[0, 0].tolist() == [10, 20, 30]
    assert (drawn == [200, 100, 50]).all(-1).any()
    assert all(side >= 1 for side in synthesize_text_img(" ").size)
    assert synthesize_text_img("").size == (1, 1)


def test_letters_without_a_font_cause_a_warning() -> None:
    # Two characters that will never be assigned to a letter: noncharacters of Unicode.
    with pytest.warns(UserWarning, match="No font has"):
        words = datasets.WordGenerator("ab\ufdd0\ufdd1", 6, 6, 20)
    assert set("".join(words[number].target for number in range(20))) == {"a", "b"}


@pytest.mark.parametrize("family", ["No Such Font.ttf", ["No Such Font.ttf"]])
def test_missing_fonts_are_rejected(family: Any) -> None:
    with pytest.raises(ValueError, match="No Such Font"):
        datasets.CharacterGenerator("ab", 4, font_family=family)


def test_font_may_be_a_path() -> None:
    ttf = Path(pytest.importorskip("matplotlib").get_data_path()) / "fonts" / "ttf"
    fonts = [str(ttf / "DejaVuSerif.ttf"), str(ttf / "DejaVuSansMono.ttf")]
    one, other = (datasets.CharacterGenerator("i", 1, font_family=font)[0].image for font in fonts)
    assert one.shape != other.shape or not torch.equal(one, other)
    both = datasets.CharacterGenerator("iW", 4, cache_samples=True, font_family=fonts)
    assert [both[number].target for number in range(4)] == [0, 0, 1, 1]
    assert torch.equal(both[0].image, one)
    assert torch.equal(both[1].image, other)


@pytest.mark.parametrize(
    "options", [{"vocab": ""}, {"vocab": ["a"]}, {"num_samples": -1}, {"min_chars": 0}, {"min_chars": 4}]
)
def test_generators_reject_invalid_arguments(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        datasets.WordGenerator(**{"vocab": "ab", "min_chars": 1, "max_chars": 3, "num_samples": 2, **options})


# Steps.


def test_boxes_become_relative() -> None:
    image, boxes = torch.zeros(3, 80, 120), np.array(files.BOXES)
    relative = boxes / [120, 80, 120, 80]
    assert np.allclose(datasets.convert_target_to_relative(image, boxes)[1], relative, atol=1e-7)
    target = {"boxes": boxes, "labels": list(files.WORDS)}
    _, moved = datasets.convert_target_to_relative(image, target)
    assert np.allclose(moved["boxes"], relative, atol=1e-7)
    assert moved["labels"] is target["labels"]
    assert target["boxes"] is boxes
    _, by_class = datasets.pre_transform_multiclass(image, (np.array(files.QUADS), ["b", "a", "b", "c"]))
    assert list(by_class) == ["a", "b", "c"]
    assert np.allclose(by_class["b"], np.array(files.QUADS)[[0, 2]] / [120, 80], atol=1e-7)
    with pytest.raises(InvalidArgumentError, match="4 boxes and 1 classes"):
        datasets.pre_transform_multiclass(image, (boxes, ["a"]))


def test_crops_equal_parts_of_the_picture(tmp_path: Path) -> None:
    files.draw(tmp_path / "a.png")
    boxes = np.array(files.BOXES)
    crops = datasets.crop_bboxes_from_image(tmp_path / "a.png", boxes)
    for crop, (left, top, right, bottom) in zip(crops, boxes.astype(int), strict=True):
        assert (crop == files.pixels()[top:bottom, left:right]).all()
    upright = datasets.crop_bboxes_from_image(str(tmp_path / "a.png"), np.array(files.QUADS[:1]))
    assert upright[0].shape == crops[0].shape
    for wrong in (np.zeros((2, 5)), np.zeros((2, 3, 2)), np.array([[0, 0, np.nan, 1]])):
        with pytest.raises(ValueError, match="geoms"):
            datasets.crop_bboxes_from_image(tmp_path / "a.png", wrong)


# Real pages.


def real(name: str) -> Path:
    folder = TEST_DATA / "ocr" / name
    if not folder.is_dir():
        pytest.skip(f"no pages in {folder}")
    return folder


def test_real_forms_are_read(tmp_path: Path) -> None:
    folder = real("funsd")
    part = tmp_path / "datasets" / "funsd" / "dataset" / "training_data"
    part.mkdir(parents=True)
    for name in ("images", "annotations"):
        (part / name).symlink_to(folder / name)
    pages = datasets.FUNSD(cache_dir=tmp_path, img_transforms=T.Resize((64, 64)))
    names = sorted(path.stem for path in (folder / "images").iterdir())
    assert len(pages) == len(names) > 0
    for number, name in enumerate(names[:10]):
        target = pages[number].target
        form = json.loads((folder / "annotations" / f"{name}.json").read_text("utf-8"))["form"]
        words = [word for block in form for word in block["words"] if word["text"]]
        with Image.open(folder / "images" / f"{name}.png") as image:
            width, height = image.size
        assert target["labels"] == [word["text"] for word in words]
        expected = np.array([word["box"] for word in words]) / [width, height, width, height]
        assert np.allclose(target["boxes"], expected, atol=1e-6)


@pytest.mark.parametrize("path", [None, -1, 2.5, [], object()])
def test_folders_and_files_of_another_type_are_refused(path: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceTypeError, match=r"The folder of pictures must be a path"):
        datasets.RecognitionDataset(path, "labels.json")
    with pytest.raises(SourceTypeError, match=r"The label file must be a path"):
        datasets.DetectionDataset(str(tmp_path), path)
    with pytest.raises(SourceTypeError, match="source must be a path"):
        Item(path)
