"""Calls of decord's readers, for decord itself (`record_decord.py`) and for `mediatensor.compat.decord`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "records" / "other_apis"
CLIP, UNEVEN, LATE = (str(FOLDER / name) for name in ("clip.mp4", "uneven.mkv", "late.mp4"))
_BLOCK = 8


def described(value: Any) -> Any:
    """A result as JSON: arrays of frames as means of blocks, of sound as every 997th sample."""
    if hasattr(value, "asnumpy"):
        value = value.asnumpy()
    if isinstance(value, np.ndarray):
        found: dict[str, Any] = {"shape": list(value.shape), "dtype": str(value.dtype)}
        if value.ndim >= 3 and value.size:
            height, width = value.shape[-3:-1]
            rows, columns = height // _BLOCK, width // _BLOCK
            cut = value[..., : rows * _BLOCK, : columns * _BLOCK, :].reshape(-1, rows, _BLOCK, columns, _BLOCK, 3)
            found["means"] = np.round(cut.mean((2, 4)), 1).ravel().tolist()
        elif value.size:
            found["values"] = np.round(value[..., :: 997 if value.ndim == 2 and value.shape[1] > 2 else 1], 4).tolist()
        return found
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    return value if isinstance(value, (int, float, str, type(None))) else repr(value)


def outcome(module: Any, call: Callable[[Any], Any]) -> Any:
    """Return the result of a call, or the built-in type that it raises."""
    try:
        return described(call(module))
    except Exception as error:
        if isinstance(error, module.DECORDError) and type(error).__mro__[1] is Exception:
            return {"raises": "DECORDError"}
        names = [kind.__name__ for kind in type(error).__mro__ if hasattr(builtins, kind.__name__)]
        return {"raises": names[0]}


def differences(ours: Any, theirs: Any, tolerances: Mapping[str, float], path: str = "") -> list[str]:
    """Return where two outcomes differ.

    ``tolerances`` has the tolerance of the numbers with a key, such as "values", and that of other floats by "". All
    else is compared exactly.
    """
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        return [text for key in theirs for text in differences(ours[key], theirs[key], tolerances, f"{path}.{key}")]
    key = path.rpartition(".")[2]
    if key and key in tolerances and np.shape(ours) == np.shape(theirs):
        is_same = np.allclose(np.array(ours, float), np.array(theirs, float), rtol=0, atol=tolerances[key])
    elif isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [text for i, pair in pairs for text in differences(*pair, tolerances, f"{path}.{i}")]
    elif isinstance(theirs, float) and isinstance(ours, float):
        is_same = abs(ours - theirs) <= tolerances.get("", 0.0)
    else:
        is_same = ours == theirs
    return [] if is_same else [f"{path}: {ours} and not {theirs}"]


def _after(*steps: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The frame that `next` gives after some steps with a new reader."""

    def call(module: Any) -> Any:
        reader = module.VideoReader(CLIP)
        for step in steps:
            step(reader)
        return reader.next()

    return call


def _each(method: str, path: str = CLIP, start: int | None = None) -> Callable[[Any], Any]:
    """Where a seek to every position leads, as the mean of the frame there: no two have the same."""

    def call(module: Any) -> Any:
        means = []
        for position in range(30):
            reader = module.VideoReader(path)
            if start is not None:
                reader.seek_accurate(start)
                reader.next()
            getattr(reader, method)(position)
            means.append(round(float(reader.next().asnumpy().mean()), 1))
        return means

    return call


def _reading(kind: str) -> Callable[..., Callable[[Any], Any]]:
    def of(call: Callable[[Any], Any], path: str = CLIP, **options: Any) -> Callable[[Any], Any]:
        return lambda module: call(getattr(module, kind)(path, **options))

    return of


_video, _audio, _both = map(_reading, ("VideoReader", "AudioReader", "AVReader"))


def _from_file(module: Any) -> Any:
    with open(CLIP, "rb") as file:
        return module.VideoReader(file)[3]


def _loaded(*options: Any, paths: Any = (CLIP, UNEVEN), in_order: bool = True) -> Callable[[Any], Any]:
    """The number of batches, and which frames they have; the frames of the second."""

    def call(module: Any) -> Any:
        loader = module.VideoLoader(list(paths), module.cpu(0), *options)
        batches = list(loader)
        indices = [batch[1].asnumpy().tolist() for batch in batches]
        if not in_order:
            return [len(loader), sorted(indices)]
        loader.reset()
        next(loader)
        return [len(loader), indices, loader.next()[0], len(list(loader))]

    return call


CALLS: dict[str, Callable[[Any], Any]] = {
    "len": _video(len),
    "len of uneven times": _video(len, UNEVEN),
    "first": _video(lambda reader: reader[0]),
    "last": _video(lambda reader: reader[-1]),
    "numpy index": _video(lambda reader: reader[np.int64(5)]),
    "beyond the end": _video(lambda reader: reader[30]),
    "before the beginning": _video(lambda reader: reader[-31]),
    "slice": _video(lambda reader: reader[3:9:2]),
    "reversed slice": _video(lambda reader: reader[5:2:-1]),
    "empty slice": _video(lambda reader: reader[2:2]),
    "fraction as index": _video(lambda reader: reader[1.5]),
    "text as index": _video(lambda reader: reader["a"]),
    "batch": _video(lambda reader: reader.get_batch([29, 0, 7, 7, -1])),
    "batch of an array": _video(lambda reader: reader.get_batch(np.array([3, 3, 1]))),
    "batch of a range": _video(lambda reader: reader.get_batch(range(0, 30, 10))),
    "empty batch": _video(lambda reader: reader.get_batch([])),
    "batch of fractions": _video(lambda reader: reader.get_batch([1.7])),
    "batch of rows": _video(lambda reader: reader.get_batch([[1, 2], [3, 4]])),
    "batch beyond the end": _video(lambda reader: reader.get_batch([1, 30])),
    "batch before the beginning": _video(lambda reader: reader.get_batch([-1, -31])),
    "iteration": _video(lambda reader: sum(1 for _ in reader)),
    "size": _video(lambda reader: reader[7], width=32, height=24),
    "width alone": _video(lambda reader: reader[7], width=32),
    "height alone": _video(lambda reader: reader.get_batch([7, 20]), height=24),
    "larger": _video(lambda reader: reader[7], width=128, height=96),
    "size of zero": _video(lambda reader: reader[7], width=0, height=0),
    "threads": _video(lambda reader: reader[7], num_threads=2),
    "file object": _from_file,
    "frame rate": _video(lambda reader: reader.get_avg_fps()),
    "frame rate of uneven times": _video(lambda reader: reader.get_avg_fps(), UNEVEN),
    "key frames": _video(lambda reader: reader.get_key_indices()),
    "key frames of uneven times": _video(lambda reader: reader.get_key_indices(), UNEVEN),
    "time": _video(lambda reader: reader.get_frame_timestamp(3)),
    "times": _video(lambda reader: reader.get_frame_timestamp([0, 1, -1])),
    "uneven times": _video(lambda reader: reader.get_frame_timestamp(range(30)), UNEVEN),
    "time beyond the end": _video(lambda reader: reader.get_frame_timestamp(30)),
    "next": _after(),
    "next twice": _after(lambda reader: reader.next()),
    "next after a frame": _after(lambda reader: reader[5]),
    "next after a batch": _after(lambda reader: reader.get_batch([3, 9])),
    "next after a batch backwards": _after(lambda reader: reader.get_batch([9, 3])),
    "next after the last": _after(lambda reader: reader[-1]),
    "next after skipping": _after(lambda reader: reader.skip_frames(2)),
    "next after skipping one": _after(lambda reader: reader.next(), lambda reader: reader.skip_frames()),
    "next after skipping all": _after(lambda reader: reader.skip_frames(100)),
    "next after seeking and skipping": _after(
        lambda reader: reader.seek_accurate(13), lambda reader: reader.skip_frames(3)
    ),
    "seek from the beginning": _each("seek"),
    "seek from the middle": _each("seek", start=20),
    "seek in uneven times": _each("seek", UNEVEN),
    "seek accurately": _each("seek_accurate"),
    "seek accurately from the middle": _each("seek_accurate", start=20),
    "seek beyond the end": _video(lambda reader: reader.seek(30)),
    "seek before the beginning": _video(lambda reader: reader.seek(-1)),
    "seek accurately beyond the end": _video(lambda reader: reader.seek_accurate(30)),
    "skip none": _video(lambda reader: reader.skip_frames(0)),
    "array": _video(lambda reader: [len(reader[0]), reader[0].shape, reader[0].dtype, repr(reader[0].ctx)]),
    "array cannot be indexed": _video(lambda reader: reader[0][0]),
    "no file": lambda module: module.VideoReader("nothing.mp4"),
    "no video": lambda module: module.VideoReader(str(FOLDER / "decord.json")),
    "wrong context": lambda module: module.VideoReader(CLIP, ctx="cpu"),
    "contexts": lambda module: [
        repr(module.cpu()),
        repr(module.gpu(1)),
        module.cpu(0).device_type,
        module.gpu(2).device_id,
    ],
    "wrong bridge": lambda module: module.bridge.set_bridge("jax"),
    "bridge that is not text": lambda module: module.bridge.set_bridge(3),
    "sound: channels": _audio(len),
    "sound: shape": _audio(lambda reader: reader.shape),
    "sound: samples": _audio(lambda reader: reader[:]),
    "sound: one sample": _audio(lambda reader: reader[1000]),
    "sound: slice": _audio(lambda reader: reader[4000:5000]),
    "sound: batch": _audio(lambda reader: reader.get_batch([0, 1000, 2000])),
    "sound: beyond the end": _audio(lambda reader: reader[10**9]),
    "sound: batch beyond the end": _audio(lambda reader: reader.get_batch([10**9])),
    "sound: channels kept": _audio(lambda reader: reader[:50_000], mono=False),
    "sound: rate": _audio(lambda reader: reader[:16_000], sample_rate=16_000),
    "sound: late": _audio(lambda reader: reader[:50_000], LATE),
    "sound: padding": _audio(lambda reader: [reader.add_padding()]),
    "sound: padding of late sound": _audio(lambda reader: [reader.add_padding()], LATE),
    "sound: padding at another rate": _audio(lambda reader: [reader.add_padding()], LATE, sample_rate=16_000),
    "sound: none": _audio(len, UNEVEN),
    "sound: duration": _audio(lambda reader: reader.duration()),
    "sound: rate that is not given": _audio(lambda reader: reader.sample_rate),
    "both: len": _both(len),
    "both: frame": _both(lambda reader: reader[3]),
    "both: slice": _both(lambda reader: reader[10:13]),
    "both: batch": _both(lambda reader: reader.get_batch([3, 9]), sample_rate=16_000),
    "both: late sound": _both(lambda reader: reader[20], LATE),
    "both: no sound": _both(len, UNEVEN),
    "loader: in order": _loaded((4, 24, 32, 3), 1, 3, 0),
    "loader: pairs": _loaded((2, 24, 32, 3), -3, 0, 0, 4),
    "loader: every third": _loaded((3, 48, 64, 3), 2, 0, 0),
    "loader: videos in turn": _loaded((1, 24, 32, 3), 0, 0, 1, in_order=False),
    "loader: videos in turn, and wide": _loaded((29, 24, 32, 3), 0, 0, 1, in_order=False),
    "loader: shuffled": _loaded((3, 24, 32, 3), 2, 1, 2, in_order=False),
    "loader: too few frames": lambda module: len(module.VideoLoader([CLIP], module.cpu(0), (29, 24, 32, 3), 0, 0, 0)),
    "loader: behind the end": lambda module: module.VideoLoader([CLIP], module.cpu(), (29, 24, 32, 3), 0, 0, 0).next(),
    "loader: another order": _loaded((2, 24, 32, 3), 0, 0, 3),
    "loader: no videos": _loaded((2, 24, 32, 3), 0, 0, 0, paths=()),
    "loader: three sizes": _loaded((2, 24, 32), 0, 0, 0),
    "levels": lambda module: [module.logging.QUIET, module.logging.ERROR, module.logging.set_level()],
}
