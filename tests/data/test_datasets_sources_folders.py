"""Folders as sources, against pathlib."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from mediatensor.datasets import MEDIA_EXTENSIONS, as_items
from mediatensor.datasets._sources import manifests
from mediatensor.datasets._sources.items import MediaKind
from mediatensor.errors import InvalidArgumentError, ReadError, SourceNotFoundError


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def names_under(folder: Path, kind: MediaKind = "video") -> list[str]:
    return [os.path.relpath(item.name, folder) for item in as_items(folder, kind=kind)]


def test_classes_are_sub_folders(tmp_path: Path) -> None:
    touch(tmp_path, "run/2.mp4", "run/1.MP4", "Jump/deep/er/x.mkv", "loose.webm", "empty/notes.txt", "Éd/e.mov")
    items = as_items(tmp_path, kind="video")
    assert [(os.path.relpath(item.source, tmp_path), item.label, item.extra) for item in items] == [
        ("Jump/deep/er/x.mkv", 0, {"class_name": "Jump"}),
        ("loose.webm", None, {}),
        ("run/1.MP4", 1, {"class_name": "run"}),
        ("run/2.mp4", 1, {"class_name": "run"}),
        ("Éd/e.mov", 2, {"class_name": "Éd"}),
    ]
    assert as_items(str(tmp_path), kind="video", label=lambda item: item.extra.get("class_name"))[0].label == "Jump"


def test_folder_items_match_pathlib(tmp_path: Path) -> None:
    generator = random.Random(0)
    parts = ["a", "B", "é", "a b", ".hidden", "b.mp4"]
    suffixes = [".mp4", ".MOV", ".txt", "", ".wav", ".jpg", ".pdf", ".mp4.part"]
    for number in range(150):
        inside = [generator.choice(parts) for _ in range(generator.randrange(4))]
        touch(tmp_path, "/".join([*inside, f"{generator.choice(['', '.'])}{number}{generator.choice(suffixes)}"]))
    for kind in ("video", "audio", "image", "document"):
        expected = [
            path.relative_to(tmp_path)
            for path in tmp_path.rglob("*")
            if path.is_file()
            and path.suffix.lower() in MEDIA_EXTENSIONS[kind]
            and not any(part.startswith(".") for part in path.relative_to(tmp_path).parts)
        ]
        assert expected
        assert names_under(tmp_path, kind) == [str(path) for path in sorted(expected, key=lambda path: path.parts)]
        classes = sorted({path.parts[0] for path in expected if len(path.parts) > 1})
        labels = [item.label for item in as_items(tmp_path, kind=kind)]
        assert labels == [
            classes.index(path.parts[0]) if len(path.parts) > 1 else None
            for path in sorted(expected, key=lambda path: path.parts)
        ]


def test_links_are_followed_without_end(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    folder = tmp_path / "data"
    touch(shared, "1.mp4")
    touch(folder, "a/2.mp4")
    (folder / "b").symlink_to(shared)
    (folder / "a" / "one.mp4").symlink_to(shared / "1.mp4")
    (folder / "a" / "up").symlink_to(folder)
    (shared / "self").symlink_to(shared)
    (folder / "a" / "ring.mp4").symlink_to(folder / "a" / "ring.mp4")
    (folder / "a" / "gone.mp4").symlink_to(tmp_path / "nothing.mp4")
    # A link to nothing is a missing file, for whoever reads it to report; "up" leads back to where we are.
    assert names_under(folder) == ["a/2.mp4", "a/gone.mp4", "a/one.mp4", "a/ring.mp4", "b/1.mp4"]


def test_links_in_circles_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MAX_FOLDERS", 500)
    folders = [tmp_path / f"{number}" for number in range(12)]
    for folder in folders:
        touch(folder, "x.mp4")
        for other in folders:
            (folder / f"to{other.name}").symlink_to(other)
    with pytest.raises(InvalidArgumentError, match="more than 500 folders"):
        as_items(tmp_path, kind="video")


def test_depth_and_number_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MAX_FOLDER_DEPTH", 3)
    touch(tmp_path, "a/b/c/1.mp4")
    assert names_under(tmp_path) == ["a/b/c/1.mp4"]
    touch(tmp_path, "a/b/c/d/1.mp4")
    with pytest.raises(InvalidArgumentError, match="deeper than 3"):
        as_items(tmp_path, kind="video")
    monkeypatch.setattr(manifests, "MAX_ITEMS", 2)
    touch(tmp_path / "many", "1.mp4", "2.mp4")
    assert len(as_items(tmp_path / "many", kind="video")) == 2
    touch(tmp_path / "many", "3.mp4")
    with pytest.raises(InvalidArgumentError, match="more than 2 files"):
        as_items(tmp_path / "many", kind="video")


@pytest.mark.timeout(30)
def test_special_files_are_left_out(tmp_path: Path) -> None:
    touch(tmp_path, "1.mp4")
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "folder.mp4").mkdir()
    assert names_under(tmp_path) == ["1.mp4"]


def test_clean_files_have_no_findings(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.txt", ".hidden/2.mp4", ".3.mp4", "4.wav")
    with pytest.raises(InvalidArgumentError, match=r"kind 'video'.*\.3g2 .*\.mp4 .*\.y4m"):
        as_items(tmp_path, kind="video")
    with pytest.raises(SourceNotFoundError):
        as_items(tmp_path / "b", kind="video")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_unreadable_folders_are_errors(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0)
    with pytest.raises(ReadError, match="locked"):
        as_items(tmp_path, kind="video")


def test_names_that_are_not_text_are_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.mp4")).touch()
    (item,) = as_items(tmp_path, kind="video")
    assert os.fsencode(item.source).endswith(b"/\xff.mp4")  # type: ignore[arg-type]
