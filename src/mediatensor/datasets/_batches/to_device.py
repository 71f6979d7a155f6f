"""`ToDevice`: copy each batch to a device while the previous batch is used."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..._engine.common import stages
from ..._engine.common.checks import function, shown
from ..._engine.common.devices import checked_device, pinned
from ...errors import InvalidArgumentError
from ...frames import FrameBatch
from .._rows.samples import Batch, ColumnDict
from .loader import BatchIterator, Iterations


class CopyNow:
    num_ahead = 0

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def begin(self, batch: Any) -> Any:
        with stages.COPY:
            return _move(batch, self._device, non_blocking=False)

    def complete(self, begun: Any) -> Any:
        return begun


class CopyAhead:
    """Copies batches to the GPU in its own CUDA stream, while the program computes in another stream.

    `complete` makes the current CUDA stream, but not the program, wait for a copy that `begin` has started. It also
    tells the memory allocator that the current stream uses the batch. Otherwise the copying stream could write the next
    batch into the same memory while the computation still reads it. ``cuda`` is ``torch.cuda``, or a substitute in
    tests.
    """

    num_ahead = 1

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        self._device = device
        self._cuda = cuda
        self._stream = cuda.Stream(device)

    def begin(self, batch: Any) -> tuple[Any, Any]:
        """Start to copy a batch. Pass the result to `complete` to get the copied batch."""
        with stages.COPY, self._cuda.stream(self._stream):
            moved = _move(batch, self._device, non_blocking=True)
            done = self._cuda.Event()
            done.record(self._stream)
        return moved, done

    def complete(self, begun: tuple[Any, Any]) -> Any:
        moved, done = begun
        current = self._cuda.current_stream(self._device)
        current.wait_event(done)
        for tensor in _tensors_in(moved):
            if tensor.device.type == self._device.type:
                tensor.record_stream(current)
        return moved


def _move(value: Any, device: torch.device, *, non_blocking: bool) -> Any:
    if hasattr(value, "to"):
        if non_blocking and hasattr(value, "pin_memory"):
            # A copy is asynchronous only from page-locked memory; data already in such memory stays there.
            value = pinned(value) if isinstance(value, Tensor) else value.pin_memory()
        return value.to(device, non_blocking=non_blocking)
    if isinstance(value, dict):
        columns = {key: _move(one, device, non_blocking=non_blocking) for key, one in value.items()}
        return ColumnDict(columns, value.failures, value.timings) if isinstance(value, ColumnDict) else columns
    if isinstance(value, list | tuple):
        moved = [_move(one, device, non_blocking=non_blocking) for one in value]
        return type(value)(*moved) if hasattr(value, "_fields") else type(value)(moved)
    return value


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors_in(one)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for spec in dataclasses.fields(value):
            yield from _tensors_in(getattr(value, spec.name))


class ToDevice:
    """A loader that copies the batches of another loader to a device, and can transform them there.

    Frames are copied as uint8, which takes a quarter of the bytes of float32, and can then be normalised on the device.

    On a CUDA device, each batch is copied in a separate CUDA stream while your loop works on the previous batch. For
    this, `ToDevice` fetches one batch in advance from its loader. The copy needs page-locked memory.
    ``DataLoader(pin_memory=True)`` copies batches to such memory in a thread; otherwise `ToDevice` does it itself. On
    the CPU and other devices, no batch is fetched in advance.

    `state_dict` counts only batches that your loop has received. After resuming, a batch that had been fetched in
    advance is read again. All other attributes of the loader (``failures``, ``dataset``, ``batch_size`` ...) are
    available as well. Because a batch is fetched in advance, ``failures`` can already include the failures of the next
    batch.

    Args:
        loader: A `DataLoader`, a loader of torch or torchdata, or any other iterable. Batches may be `Batch` objects,
            tensors, or objects with a method ``to``; or dicts, lists and tuples of these.
        device: The target device, such as ``"cuda"`` or ``"cuda:1"``.
        transform: Function that is called on the copied data before your loop receives a batch. For a `Batch`, it takes
            the tensor of the frames, uint8 (B, T, C, H, W), or of the images, uint8 (B, 3, H, W), and its result
            replaces this tensor. If the frames or images are a list, the function is called for each element. For any
            other batch, it takes and returns the whole batch. Random transforms draw new values for each batch, in
            order. A transform that is a module with weights or buffers must already be on the device.

    Attributes:
        loader: The loader whose batches are copied.
        device: The target device, a ``torch.device``.

    Raises:
        InvalidArgumentError: if the device does not exist.

    Example:
        >>> import torch
        >>> from mediatensor.datasets import DataLoader, ToDevice, VideoClips
        >>> from mediatensor.transforms import Normalize, ToFloat
        >>> normalize = torch.nn.Sequential(ToFloat(), Normalize((0.45, 0.45, 0.45), (0.225, 0.225, 0.225)))
        >>> loader = DataLoader(VideoClips("videos"), 8, shuffle=True, num_workers=2, pin_memory=True)  # doctest: +SKIP
        >>> for batch in ToDevice(loader, "cuda", normalize):  # doctest: +SKIP
        ...     loss = criterion(model(batch.frames.data), batch.label)
    """

    def __init__(
        self, loader: Iterable[Any], device: str | torch.device, transform: Callable[[Any], Any] | None = None
    ) -> None:
        if not hasattr(loader, "__iter__"):
            raise InvalidArgumentError(
                f"loader must be an iterable of batches, such as a DataLoader (got {shown(loader)})."
            )
        self.loader = loader
        self.device = checked_device(device)
        self._transform = function("transform", transform)
        self._iterations: Iterations[_Position] = Iterations()

    def __iter__(self) -> BatchIterator[Any]:
        batches = iter(self.loader)
        # Use the position of the loader's iteration; if iterations have no position, use the loader's.
        source = batches if isinstance(batches, BatchIterator) else self.loader
        position = _Position(*_state_and_epoch(source))
        self._iterations.begin(position)
        return BatchIterator(
            self._hand_over(batches, position, partial(_state_and_epoch, source)),
            position,
            partial(self._iterations.end, position, is_over=False),
        )

    def _hand_over(
        self, batches: Iterator[Any], position: _Position, where: Callable[[], _StateAndEpoch]
    ) -> Generator[Any, None, None]:
        copying = CopyAhead(self.device) if self.device.type == "cuda" else CopyNow(self.device)
        position.has_begun, is_over = True, False
        try:
            for batch, (position.state, position.epoch) in _copy_batches(batches, copying, where):
                if self._transform is not None:
                    batch = _transform_batch(batch, self._transform)
                yield batch
                del batch  # frees its memory before the next batch is fetched
            is_over = True
        finally:
            self._iterations.end(position, is_over=is_over)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    @property
    def num_batches_ahead(self) -> int:
        """Number of batches fetched from the loader before your loop needs them: 1 on a CUDA device, otherwise 0."""
        return CopyAhead.num_ahead if self.device.type == "cuda" else CopyNow.num_ahead

    @property
    def epoch(self) -> int | None:
        """The epoch of the batch that your loop received last, or ``None`` if the loader does not count epochs."""
        position = self._iterations.newest or self._iterations.left
        return getattr(self.loader, "epoch", None) if position is None else position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration. This calls ``set_epoch`` of the loader.

        Example:
            >>> from mediatensor.datasets import DataLoader, ToDevice, VideoClips
            >>> loader = ToDevice(DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=1), "cpu")
            >>> loader.set_epoch(2)
        """
        self._iterations.discard_all()
        self.loader.set_epoch(epoch)  # type: ignore[attr-defined]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loader, a dict, after the last batch that your loop received.

        Raises:
            InvalidArgumentError: if the loader cannot resume, or if several iterations are open. Each open iteration
                has its own ``state_dict()``.

        Example:
            >>> from mediatensor.datasets import DataLoader, ToDevice, VideoClips
            >>> loader = ToDevice(DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=1), "cpu")
            >>> batch = next(iter(loader))
            >>> loader.load_state_dict(loader.state_dict())
        """
        position = self._iterations.current()
        return (_Position(*_state_and_epoch(self.loader)) if position is None else position).state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration resume after the batch at which `state_dict` saved ``state``.

        Example:
            >>> from mediatensor.datasets import DataLoader, ToDevice, VideoClips
            >>> loader = ToDevice(DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=1), "cpu")
            >>> batch = next(iter(loader))
            >>> other = ToDevice(DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=1), "cpu")
            >>> other.load_state_dict(loader.state_dict())
            >>> len(list(other))
            2
        """
        self._iterations.discard_all()
        self.loader.load_state_dict(state)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "loader":  # an object that is being copied has no loader yet
            raise AttributeError(name)
        return getattr(self.loader, name)


#: The state and the epoch of a loader. Instead of the state, an error with the reason why there is none.
_StateAndEpoch = tuple[dict[str, Any] | InvalidArgumentError, int | None]


def _state_and_epoch(loader: Any) -> _StateAndEpoch:
    epoch = getattr(loader, "epoch", None)
    if not hasattr(loader, "state_dict"):
        name = type(loader).__name__
        return InvalidArgumentError(f"The loader, a {name}, cannot resume, because it has no state_dict."), epoch
    try:
        return loader.state_dict(), epoch
    except InvalidArgumentError as error:  # a stream that cannot resume: raise only when the state is requested
        return error.with_traceback(None), epoch


@dataclasses.dataclass
class _Position:
    """The state and epoch of the loader after the last batch that the loop received from an iteration."""

    state: dict[str, Any] | InvalidArgumentError
    epoch: int | None
    has_begun: bool = False

    def state_dict(self) -> dict[str, Any]:
        if isinstance(self.state, InvalidArgumentError):
            raise self.state
        return self.state


def _copy_batches(
    batches: Iterator[Any], copying: CopyAhead | CopyNow, position: Callable[[], _StateAndEpoch]
) -> Iterator[tuple[Any, _StateAndEpoch]]:
    """Yield each batch on the device, with the loader's state and epoch (the result of ``position``) after this batch.

    If the loader raises an error, the batches that were already fetched are yielded first.
    """
    in_transit: deque[tuple[Any, _StateAndEpoch]] = deque()
    error: Exception | None = None
    is_over = False
    while True:
        while not is_over and len(in_transit) <= copying.num_ahead:
            try:
                in_transit.append((copying.begin(next(batches)), position()))
            except StopIteration:
                is_over = True
            except Exception as raised:
                is_over, error = True, raised
        if not in_transit:
            break
        # No variable here may refer to the batch while the loop uses it: its memory must be free for the next batch.
        yield _complete_copy(copying, *in_transit.popleft())
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback holds this frame


def _complete_copy(copying: CopyAhead | CopyNow, begun: Any, position: _StateAndEpoch) -> tuple[Any, _StateAndEpoch]:
    return copying.complete(begun), position


def _transform_batch(batch: Any, transform: Callable[[Any], Any]) -> Any:
    with stages.TRANSFORM:
        if not isinstance(batch, Batch):
            return transform(batch)
        return dataclasses.replace(
            batch, frames=_transform_data(batch.frames, transform), images=_transform_data(batch.images, transform)
        )


def _transform_data(data: Any, transform: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(data, list):
        return [_transform_data(one, transform) for one in data]
    if isinstance(data, FrameBatch):
        return dataclasses.replace(data, data=transform(data.data))
    return None if data is None else transform(data)
