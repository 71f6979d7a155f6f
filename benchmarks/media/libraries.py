"""The compared libraries, with one small interface. Each is imported only when it is used.

A library opens the file again for every measurement, as a data loader does. Frames stay in the library's own type
until `Library.images` makes them comparable, which is not timed.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .case import Case, Image, Library, Size

OURS = "mediatensor"
OURS_ONE_THREAD = "mediatensor, 1 thread"
OURS_TWO_THREADS = "mediatensor, 2 threads"
OURS_ALL_THREADS = "mediatensor, as FFmpeg likes"
OURS_SAVED_INDEX = "mediatensor, saved index"
#: With ``NUMPY_MADVISE_HUGEPAGE=0``, so that numpy does not ask the kernel for huge pages.
OURS_SMALL_PAGES = "mediatensor, no huge pages"
#: The sources of another checkout, to compare the state before and after a change in one run.
OURS_BESIDE = "mediatensor, other sources"
#: torchcodec with an exact index: with one FFmpeg thread, its default, and with FFmpeg's automatic number.
EXACT = ("torchcodec exact, 1 thread", "torchcodec exact, auto threads")
#: torchcodec without an index.
APPROXIMATE = ("torchcodec approximate, 1 thread", "torchcodec approximate, auto threads")
#: Lower bounds for every library that uses libavcodec; not usable libraries.
FLOORS = ("libavcodec only, all threads", "libavcodec only, 1 thread")
OPENCV = "OpenCV"
DECORD = "decord"
#: Other libraries that users ask about; their frames may differ.
PEERS = (OPENCV, DECORD)


class TensorLibrary(Library):
    """A library with the interface of torchcodec.

    Args:
        package: Name of the package, with modules ``decoders`` and ``transforms``.
        options: Of its ``VideoDecoder``.
    """

    def __init__(self, package: str, **options: Any) -> None:
        self._package = importlib.import_module(package)
        self._decoders = importlib.import_module(f"{package}.decoders")
        self._transforms = importlib.import_module(f"{package}.transforms")
        # Lazy names trigger imports on first use, and imports are not timed.
        self._decoder_class, self._resize = self._decoders.VideoDecoder, self._transforms.Resize
        self._options = options

    def open(self, path: str, size: Size | None) -> Any:
        resizing = {} if size is None else {"transforms": [self._resize(size)]}
        return self._decoder_class(path, **self._options, **resizing)

    def count(self, decoder: Any) -> int:
        return len(decoder)

    def fetch(self, decoder: Any, indices: Sequence[int]) -> Any:
        if isinstance(indices, range):
            return decoder.get_frames_in_range(indices.start, indices.stop, indices.step).data
        return decoder.get_frames_at(list(indices)).data

    def item(self, decoder: Any, index: int) -> Any:
        return decoder[index][None]

    def iterate(self, decoder: Any) -> Iterator[Any]:
        return (frame[None] for frame in decoder)

    def images(self, batch: Any) -> Iterable[Image]:
        return [frame.permute(1, 2, 0).numpy() for frame in batch]

    def versions(self) -> dict[str, str]:
        torch = importlib.import_module("torch")
        found = {"torch": str(torch.__version__), self._package.__name__: str(self._package.__version__)}
        if ffmpeg := getattr(self._package, "ffmpeg_major_version", None):
            found[self._package.__name__] += f" (FFmpeg {ffmpeg})"
        return found


class MediatensorLibrary(TensorLibrary):
    """mediatensor, which can iterate backwards and store the index of a file."""

    def __init__(self, *, has_saved_index: bool = False, **options: Any) -> None:
        super().__init__("mediatensor", **options)
        self._has_saved_index = has_saved_index

    def prepare(self, case: Case) -> None:
        if self._has_saved_index:
            for path in case.paths:
                with self._decoders.VideoDecoder(path) as decoder:
                    decoder.frame_index.save(_index_path(path))

    def open(self, path: str, size: Size | None) -> Any:
        if not self._has_saved_index:
            return super().open(path, size)
        index = self._decoders.FrameIndex.load(_index_path(path))
        return self._decoders.VideoDecoder(path, frame_index=index, **self._options)

    def iterate_backwards(self, decoder: Any) -> Iterator[Any]:
        return (frame[None] for frame in reversed(decoder))


def _index_path(path: str) -> Path:
    return Path(path).with_suffix(".index")


class PyAVLibrary(Library):
    """The most common use of PyAV: seek by time, decode up to the frame, convert it."""

    def __init__(self) -> None:
        self._av = importlib.import_module("av")

    def open(self, path: str, size: Size | None) -> Any:
        container = self._av.open(path)
        container.streams.video[0].thread_type = "AUTO"
        return container, size

    def count(self, decoder: Any) -> int:
        """Return the count from the header."""
        container, _ = decoder
        stream = container.streams.video[0]
        return int(stream.frames or container.duration / self._av.time_base * stream.average_rate)

    def fetch(self, decoder: Any, indices: Sequence[int]) -> Any:
        container, size = decoder
        stream = container.streams.video[0]
        frame_ticks = 1 / (stream.average_rate * stream.time_base)
        images: list[Image] = []
        frames: Iterator[Any] = iter(())
        following = -1
        for i in indices:
            wanted_pts = (stream.start_time or 0) + round(i * frame_ticks)
            if i != following:
                container.seek(wanted_pts, stream=stream)
                frames = container.decode(stream)
            # Containers round times to their ticks, so that a frame may be up to half a frame early.
            images.append(_to_array(next(f for f in frames if f.pts + frame_ticks / 2 > wanted_pts), size))
            following = i + 1
        return images

    def iterate(self, decoder: Any) -> Iterator[Any]:
        container, size = decoder
        return ([_to_array(frame, size)] for frame in container.decode(video=0))

    def versions(self) -> dict[str, str]:
        return {"PyAV": f"{self._av.__version__} (FFmpeg {self._av.ffmpeg_version_info})"}


def _to_array(frame: Any, size: Size | None) -> Image:
    if size is None:
        return frame.to_ndarray(format="rgb24")  # type: ignore[no-any-return]
    return frame.reformat(width=size[1], height=size[0], format="rgb24").to_ndarray()  # type: ignore[no-any-return]


class OpenCVLibrary(Library):
    """OpenCV: seeks by frame number, unless the next frame is the wanted one."""

    def __init__(self) -> None:
        self._cv2 = importlib.import_module("cv2")

    def open(self, path: str, size: Size | None) -> Any:
        return self._cv2.VideoCapture(path), size

    def count(self, decoder: Any) -> int:
        return int(decoder[0].get(self._cv2.CAP_PROP_FRAME_COUNT))

    def fetch(self, decoder: Any, indices: Sequence[int]) -> Any:
        capture, _ = decoder
        images = []
        for i in indices:
            if i != capture.get(self._cv2.CAP_PROP_POS_FRAMES):
                capture.set(self._cv2.CAP_PROP_POS_FRAMES, i)
            images.append(self._read(decoder))
        return images

    def iterate(self, decoder: Any) -> Iterator[Any]:
        return ([self._read(decoder)] for _ in range(self.count(decoder)))

    def _read(self, decoder: Any) -> Image:
        capture, size = decoder
        is_read, image = capture.read()
        if not is_read:
            raise RuntimeError("OpenCV did not read a frame.")
        if size is not None:
            image = self._cv2.resize(image, size[::-1], interpolation=self._cv2.INTER_LINEAR)
        return self._cv2.cvtColor(image, self._cv2.COLOR_BGR2RGB)  # type: ignore[no-any-return]

    def versions(self) -> dict[str, str]:
        return {"OpenCV": str(self._cv2.__version__)}


class DecordLibrary(Library):
    """decord, whose maintained successor is the distribution decord2."""

    def __init__(self) -> None:
        self._decord = importlib.import_module("decord")

    def open(self, path: str, size: Size | None) -> Any:
        scaling = {} if size is None else {"height": size[0], "width": size[1]}
        return self._decord.VideoReader(path, **scaling)

    def count(self, decoder: Any) -> int:
        return len(decoder)

    def fetch(self, decoder: Any, indices: Sequence[int]) -> Any:
        return decoder.get_batch(list(indices)).asnumpy()

    def iterate(self, decoder: Any) -> Iterator[Any]:
        return ([decoder.next().asnumpy()] for _ in itertools.repeat(None, len(decoder)))

    def versions(self) -> dict[str, str]:
        return {"decord": str(self._decord.__version__)}


def _torchcodec(seek_mode: str, num_threads: int) -> Callable[[], Library]:
    return lambda: TensorLibrary("torchcodec", seek_mode=seek_mode, num_ffmpeg_threads=num_threads)


def _floor(num_threads: int) -> Library:
    from .floor import FloorLibrary  # it needs packages that other libraries are measured without

    return FloorLibrary(num_threads)


#: How to make each library, in the order of the reports.
LIBRARIES: dict[str, Callable[[], Library]] = {
    OURS: MediatensorLibrary,
    OURS_ONE_THREAD: lambda: MediatensorLibrary(num_ffmpeg_threads=1),
    OURS_TWO_THREADS: lambda: MediatensorLibrary(num_ffmpeg_threads=2),
    OURS_ALL_THREADS: lambda: MediatensorLibrary(num_ffmpeg_threads=0),
    OURS_SMALL_PAGES: MediatensorLibrary,
    OURS_BESIDE: MediatensorLibrary,
    OURS_SAVED_INDEX: lambda: MediatensorLibrary(has_saved_index=True),
    EXACT[0]: _torchcodec("exact", 1),
    EXACT[1]: _torchcodec("exact", 0),
    APPROXIMATE[0]: _torchcodec("approximate", 1),
    APPROXIMATE[1]: _torchcodec("approximate", 0),
    "PyAV, seek and decode": PyAVLibrary,
    OPENCV: OpenCVLibrary,
    DECORD: DecordLibrary,
    FLOORS[0]: lambda: _floor(0),
    FLOORS[1]: lambda: _floor(1),
}


def create_library(name: str) -> Library:
    """A library by its name.

    Raises:
        ImportError, OSError, RuntimeError: if it, or something that it needs, is not installed.
    """
    return LIBRARIES[name]()
