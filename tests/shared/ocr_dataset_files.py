"""Small datasets in the formats that docTR reads, for the tests and for recording docTR's results.

Every picture and box is a formula of its number, so this module defines the contents of a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

WORDS = ("one", "2,50", "three", "Große")
BOXES = ((8, 10, 40, 26), (50, 12, 92, 30), (10.5, 40.25, 60, 58.5), (64, 44, 110, 70))
#: Their corners, from the top left one on; the last is turned a little.
QUADS = (
    *[((left, top), (right, top), (right, bottom), (left, bottom)) for left, top, right, bottom in BOXES[:3]],
    ((66, 44), (110, 50), (108, 70), (64, 64)),
)
SIZE = (80, 120)


def pixels(number: int = 0, size: tuple[int, int] = SIZE) -> np.ndarray:
    y, x = np.mgrid[: size[0], : size[1]]
    return np.stack([128 + 100 * np.sin((x + number) / (4 + plane) + y / 7) for plane in range(3)], -1).astype(np.uint8)


def draw(path: Path, number: int = 0, size: tuple[int, int] = SIZE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(number, size)).save(path, "PNG")


def write(path: Path, content: Any, encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding=encoding)


def funsd(folder: Path) -> None:
    for part in ("training_data", "testing_data"):
        for number in range(2):
            draw(folder / "dataset" / part / "images" / f"{number}.png", number)
            words = [{"text": text, "box": [*map(int, box)]} for text, box in zip(WORDS, BOXES, strict=True)]
            more = [{"text": text, "box": [1, 2, 20, 12]} for text in ("two words", "☑", "a\N{EN DASH}b", "")]
            form = {"form": [{"text": "x", "words": words[number:]}, {"words": more}]}
            write(folder / "dataset" / part / "annotations" / f"{number}.json", form)


def sroie(folder: Path) -> None:
    for number in range(2):
        draw(folder / "images" / f"{number}.jpg", number)
        lines = [
            f"{','.join(str(int(value)) for point in quad for value in point)},{text}"
            for text, quad in zip([*WORDS[:3], "two words"], QUADS, strict=True)
        ]
        write(folder / "annotations" / f"{number}.txt", "\n".join([*lines, "", ""]))


def cord(folder: Path) -> None:
    for number in range(2):
        draw(folder / "image" / f"receipt_{number}.png", number)
        words = [
            {
                "text": text,
                "quad": {f"{axis}{at + 1}": int(quad[at]["xy".index(axis)]) for axis in "xy" for at in range(4)},
            }
            for text, quad in zip(WORDS, QUADS, strict=True)
        ]
        words += [{**words[0], "text": ""}, {**words[0], "text": "two words"}]
        write(folder / "json" / f"receipt_{number}.json", {"valid_line": [{"words": words[:2]}, {"words": words[2:]}]})


def wildreceipt(folder: Path) -> None:
    lines = []
    for number in range(2):
        draw(folder / "image_files" / f"{number}.png", number)
        words = [
            {"box": [value for point in quad for value in point], "text": text}
            for text, quad in zip([*WORDS[:3], "two words"], QUADS, strict=True)
        ]
        lines.append(json.dumps({"file_name": f"image_files/{number}.png", "annotations": words}))
    write(folder / "train.txt", "\n".join(lines) + "\n")


def artefacts(folder: Path) -> None:
    kinds = ("qr_code", "photo", "background")
    boxes = ((0.1, 0.2, 0.3, 0.4), (0.5, 0.5, 0.75, 0.625), (0, 0, 1, 1))
    labels = {}
    for number in range(2):
        draw(folder / "train" / "images" / f"{number}.jpg", number)
        labels[f"{number}.jpg"] = [
            {"geometry": box, "label": kind} for box, kind in list(zip(boxes, kinds, strict=True))[number:]
        ]
    write(folder / "train" / "labels.json", labels)


def _tagged(folder: Path, before_boxes: str) -> str:
    images = []
    for number in range(2):
        draw(folder / "img" / f"{number}.jpg", number)
        rectangles = "".join(
            f'<taggedRectangle x="{x}" y="{y}" width="{right - x}" height="{bottom - y}">'
            f"<tag>{text}</tag></taggedRectangle>"
            for text, (x, y, right, bottom) in zip([*WORDS[:3], "two words"], BOXES, strict=True)
        )
        images.append(
            f"<image><imageName>img/{number}.jpg</imageName>{before_boxes}"
            f'<Resolution x="120" y="80"/><taggedRectangles>{rectangles}</taggedRectangles></image>'
        )
    return f"<?xml version='1.0' encoding='utf-8'?><tagset>{''.join(images)}</tagset>"


def ic03(folder: Path) -> None:
    write(folder / "SceneTrialTrain" / "words.xml", _tagged(folder / "SceneTrialTrain", ""))


def svt(folder: Path) -> None:
    write(folder / "svt1" / "train.xml", _tagged(folder / "svt1", "<address>1 Road</address><lex>A,B</lex>"))


def ic13(folder: Path) -> None:
    for number, mark in enumerate((",", "")):
        draw(folder / "images" / f"{number}.jpg", number)
        lines = [
            f'{" ".join(f"{int(value)}{mark}" for value in box)} "{text}"'
            for text, box in zip(["one", "2.50", "three", "A!"], BOXES, strict=True)
        ]
        write(folder / "labels" / f"gt_{number}.txt", "\n".join(lines) + "\n")


def iiit5k(folder: Path) -> None:
    from scipy.io import savemat

    rows = np.zeros((1, 3), [("ImgName", object), ("chars", object), ("charBB", object)])
    for number, text in enumerate(("AB", "CDE", "F G")):
        draw(folder / "IIIT5K" / "train" / f"{number}.png", number, (20, 40))
        boxes = [[1 + 8 * place, 2, 8, 15] for place in range(len(text))]
        rows[0, number] = (f"train/{number}.png", text, np.array(boxes, np.float64))
    savemat(folder / "IIIT5K" / "trainCharBound.mat", {"trainCharBound": rows})


def svhn(folder: Path) -> None:
    import h5py

    (folder / "train").mkdir(parents=True)
    with h5py.File(folder / "train" / "digitStruct.mat", "w") as file:
        names, boxes = [], []
        for number, digits in enumerate(((1, 9), (10,))):
            draw(folder / "train" / f"{number + 1}.png", number)
            name = file.create_dataset(f"n{number}", data=np.array([[ord(c)] for c in f"{number + 1}.png"], np.uint16))
            names.append([name.ref])
            group = file.create_group(f"b{number}")
            for key, values in (
                ("left", [8, 50]),
                ("top", [10, 12]),
                ("width", [32, 42]),
                ("height", [16, 18]),
                ("label", digits),
            ):
                own = [float(value) for value in values[: len(digits)]]
                if len(digits) > 1:
                    refs = [[file.create_dataset(f"v{number}{key}{at}", data=[[v]]).ref] for at, v in enumerate(own)]
                    group.create_dataset(key, data=np.array(refs, h5py.ref_dtype), dtype=h5py.ref_dtype)
                else:
                    group.create_dataset(key, data=[own])
            boxes.append([group.ref])
        file.create_dataset("digitStruct/name", data=np.array(names, h5py.ref_dtype), dtype=h5py.ref_dtype)
        file.create_dataset("digitStruct/bbox", data=np.array(boxes, h5py.ref_dtype), dtype=h5py.ref_dtype)


def synthtext(folder: Path) -> None:
    from scipy.io import savemat

    count = 10
    names, boxes, texts = (np.zeros((1, count), object) for _ in range(3))
    for number in range(count):
        draw(folder / "SynthText" / "8" / f"{number}.png", number)
        names[0, number] = f"8/{number}.png"
        quads = np.array(QUADS[:3], np.float64).transpose(2, 1, 0)
        # Lines with several words are padded with blanks; a single box has no third axis.
        boxes[0, number] = quads[..., 0] if number == 9 else quads
        texts[0, number] = np.array(["one    "] if number == 9 else ["one    ", "two\n3  "])
    savemat(folder / "SynthText" / "gt.mat", {"imnames": names, "wordBB": boxes, "txt": texts})


def cocotext(folder: Path) -> None:
    pictures, words = {}, {}
    for number, part in enumerate(("train", "train", "val", "train")):
        draw(folder / "pictures" / f"{number}.jpg", number)
        pictures[str(number)] = {"file_name": f"{number}.jpg", "set": part}
        for place, (text, box) in enumerate(zip([*WORDS[:3], "two words"], BOXES, strict=True)):
            is_legible = place != 1 and number < 3
            words[str(10 * number + place)] = {
                "image_id": number,
                "bbox": [box[0], box[1], box[2] - box[0], box[3] - box[1]],
                "legibility": "legible" if is_legible else "illegible",
                **({"utf8_string": text} if is_legible else {}),
            }
    write(folder / "cocotext.json", {"imgs": pictures, "anns": words})


def imgur5k(folder: Path, angle: float = 0.0) -> None:
    words, words_of = {}, {}
    for number in range(10):
        draw(folder / "images" / f"{number}.png", number)
        words_of[str(number)] = [f"{number}_{place}" for place in range(3)]
        for place, text in enumerate(("one", "two words", ".") if number else (".", ".", ".")):
            box = f"[{30.0 + 20 * place}, 30.0, 30.0, 12.0, {angle}]"
            words[f"{number}_{place}"] = {"word": text, "bounding_box": box}
    write(folder / "info.json", {"index_to_ann_map": words_of, "ann_id": words})


def mjsynth(folder: Path) -> None:
    names = [f"./1/2/{number}_word{number}_7.jpg" for number in range(9)] + ["./1881/4/225_Marbling_46673.jpg"]
    for number, name in enumerate(names):
        draw(folder / name, number, (12, 30))
    write(folder / "imlist.txt", "\n".join([names[9], *names[:9]]) + "\n")


def iiithws(folder: Path) -> None:
    names = [f"{number}/a.png" for number in range(20)]
    for number, name in enumerate(names):
        draw(folder / "images" / name, number, (12, 30))
    write(folder / "labels.txt", "".join(f"{name} word{number} {number} 0\n" for number, name in enumerate(names)))


def own(folder: Path) -> None:
    """Data sets of one's own, all of them."""
    for number in range(2):
        draw(folder / "images" / f"{number}.png", number)
    names = ["0.png", "1.png"]
    write(folder / "texts.json", dict(zip(names, ("one", "Größe 2"), strict=True)))
    write(folder / "polygons.json", {name: {"img_dimensions": [80, 120], "polygons": QUADS} for name in names})
    write(
        folder / "classes.json",
        {"0.png": {"polygons": {"words": QUADS[:3], "logo": QUADS[3:]}}, "1.png": {"polygons": {"words": QUADS[:2]}}},
    )
    write(folder / "layout.json", {name: {"polygons": QUADS, "classes": ["b", "a", "b", "c"]} for name in names})
    cells = {"cells": QUADS, "logic": [[0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 2, 1, 1]]}
    write(folder / "cells.json", dict.fromkeys(names, cells))
    words = [
        {"value": text, "geometry": [*(np.array(box) / [120, 80, 120, 80]).round(4).tolist(), 0.5]}
        for text, box in zip(WORDS, BOXES, strict=True)
    ]
    write(folder / "words.json", {"0.png": {"typed_words": words}, "1.png": {"typed_words": []}})


#: The name of the unpacked contents of each archive, and the function that writes it.
ARCHIVED: dict[str, tuple[str, Callable[[Path], None]]] = {
    "FUNSD": ("funsd.zip", funsd),
    "SROIE": ("sroie2019_train_task1.zip", sroie),
    "CORD": ("cord_train.zip", cord),
    "DocArtefacts": ("artefact_detection-13fab8ce.zip", artefacts),
    "IC03": ("ic03_train.zip", ic03),
    "SVT": ("svt.zip", svt),
    "IIIT5K": ("IIIT5K-Word_V3.0.tar.gz", iiit5k),
    "SVHN": ("svhn_train.tar", svhn),
    "SynthText": ("SynthText.zip", synthtext),
}
FOLDERS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "WILDRECEIPT": (wildreceipt, ".", "train.txt"),
    "IC13": (ic13, "images", "labels"),
    "COCOTEXT": (cocotext, "pictures", "cocotext.json"),
    "IMGUR5K": (imgur5k, "images", "info.json"),
    "MJSynth": (mjsynth, ".", "imlist.txt"),
}
OWN = {
    "RecognitionDataset": ("texts.json",),
    "DetectionDataset": ("polygons.json", "classes.json"),
    "LayoutDataset": ("layout.json",),
    "TableStructureDataset": ("cells.json",),
    "OCRDataset": ("words.json",),
}
TASKS: dict[str, dict[str, bool]] = {
    "boxes": {},
    "polygons": {"use_polygons": True},
    "detection": {"detection_task": True},
    "recognition": {"recognition_task": True},
    "recognition of polygons": {"recognition_task": True, "use_polygons": True},
}


def calls(datasets: Any, folder: Path, name: str) -> Iterator[tuple[str, Any]]:
    """Yield a dataset in all ways in which it can be read, with their names; its files are in the folder."""
    build = getattr(datasets, name)
    if name in OWN:
        for file in OWN[name]:
            ways = [{}] if name == "RecognitionDataset" else [{}, {"use_polygons": True}]
            for way in ways:
                yield f"{file} {way}", build(str(folder / "own" / "images"), str(folder / "own" / file), **way)
        return
    if name in FOLDERS:
        _, pictures, labels = FOLDERS[name]
        places = [str(folder / name / part) for part in (pictures, labels)]
        ways = {"": {}, "test": {"train": False}} if name == "MJSynth" else TASKS
        for way, options in ways.items():
            yield way, build(*places, **options)
        return
    ways = {way: TASKS[way] for way in ("boxes", "polygons")} if name == "DocArtefacts" else TASKS
    for way, options in ways.items():
        yield way, build(cache_dir=str(folder), cache_subdir="datasets", **options)


def write_files(folder: Path, name: str) -> None:
    """The files of a data set, where `calls` reads them."""
    if name in OWN:
        if not (folder / "own").exists():
            own(folder / "own")
    elif name in FOLDERS:
        FOLDERS[name][0](folder / name)
    else:
        archive, writes = ARCHIVED[name]
        writes(folder / "datasets" / Path(archive).stem)


def summary(dataset: Any) -> list[Any]:
    """Summarise a dataset: size and mean of each image, and its target; sorted, because some have no order."""
    rows = [_row(dataset[number]) for number in range(len(dataset))]
    return sorted(rows, key=lambda row: json.dumps(row[1:] + row[:1]))


def _row(sample: Any) -> list[Any]:
    means = sample.image.mean((1, 2)).nan_to_num().tolist()
    return [list(sample.image.shape), [round(mean, 3) for mean in means], _plain(sample.target)]


def _plain(target: Any) -> Any:
    if isinstance(target, dict):
        return {str(key): _plain(value) for key, value in target.items()}
    return [str(target.dtype), target.round(4).tolist()] if isinstance(target, np.ndarray) else target
