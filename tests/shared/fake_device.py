"""A torch device that is not the CPU, in Python: placement, copies and waits are tested without an accelerator.

Tensors of the device hold their values in ordinary CPU tensors, and every operation runs on those, so that results are
the CPU's, bit for bit. All else is as on an accelerator:

- An operation whose tensors lie on the device and on the CPU raises RuntimeError, unless the one on the CPU has no
  dimensions. There are two devices, "fake:0" and "fake:1", which do not mix either.
- Values leave the device by ``.cpu()``, ``.to("cpu")``, ``.item()``, ``.tolist()`` and ``copy_`` only; ``.numpy()``,
  ``np.asarray`` and ``data_ptr()`` raise.
- Views share the memory of their base.

It counts copies between host and device, and waits of the host for the device.

A test takes the fixture ``fake_device``, which ``conftest.py`` gives to all::

    from fake_device import crossings

    def test_one_wait(fake_device):
        network = nn.Linear(3, 3).to(fake_device)             # "fake:0"; torch.device("fake:1") is the other one
        data = torch.ones(2, 3, device=fake_device)
        with crossings() as seen:
            values = network(data).cpu()
        assert seen.num_waits == 1, seen                      # printing it shows where: file:line < caller < ...
        assert seen.downloaded_bytes == values.nbytes
        assert not seen.uploads

`crossings` counts in all threads of the process, and also nests. Waits (`Crossings.waits`) are: reading a
value (``item``, ``tolist``, ``bool``, ``float``), a download that is not ``non_blocking``, and operations whose result
has a size that depends on values (``nonzero``, selection by a boolean mask, ``unique``, ``repeat_interleave`` by a
tensor, ...). A download by ``cpu()`` is one wait and one download. An upload that is not ``non_blocking`` makes a host
wait on CUDA as well; those are counted separately as `Crossings.blocking_uploads`, because a test should not count the
upload of its own input.

The device is registered with torch on the first use of the fixture, once in a process, and then stays; while no test
uses the fixture it says that it is not available, so that ``torch.accelerator`` and the like ignore it.

It cannot show the order of streams, use of memory after it was freed, pinned memory, results and restrictions of real
kernels, and, since results are available at once, a read that should have waited.
``torch.autocast("fake")`` changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from device_crossings import Crossings, crossings, note

__all__ = ["Crossings", "crossings", "fake_device", "is_fake", "make_available"]

NAME = "fake"
NUM_DEVICES = 2
_FACTORIES = ("arange", "empty", "empty_strided", "eye", "full", "linspace", "ones", "rand", "randint", "randn",
              "randperm", "scalar_tensor", "zeros")  # fmt: skip
_READ_BY_HOST = {
    "_unique",
    "_unique2",
    "allclose",
    "bincount",
    "equal",
    "masked_select",
    "nonzero",
    "unique_consecutive",
    "unique_dim",
}
"""Operations that cannot return before values of the device are known."""
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
_COMPOSITE = "CompositeImplicitAutograd"
_JOINING = {"cat", "stack"}
_MIXING = {"_pack_padded_sequence", "lstm", "gru"}
"""Operations with an argument on the CPU by design: lengths."""
_UNDIFFERENTIABLE = ("scaled_dot_product_attention", "lstm", "lstm_cell", "gru", "gru_cell")
"""torch takes these apart differently by device; they go to the CPU whole, for the CPU's results, without gradients."""


def is_fake(value: Any) -> bool:
    """Whether it is a tensor on the device."""
    return isinstance(value, DeviceTensor)


class DeviceTensor(Tensor):
    """A tensor of the device: shape, type and device for torch, and the values in a tensor on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor, device: torch.device) -> DeviceTensor:
        # In inference mode too an ordinary tensor: torch wants the views of one to be such.
        with torch.inference_mode(False):
            wrapper = Tensor._make_wrapper_subclass(
                cls,
                held.shape,
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=device,
            )
        wrapper.held = held
        return wrapper

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatched(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"DeviceTensor({tuple(self.shape)}, {self.dtype}, device='{self.device}')"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else repr(self)

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = __dlpack__ = numpy

    def data_ptr(self) -> int:
        raise RuntimeError(f"memory of {self.device} has no address on the host.")


def _dispatched(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation with at least one tensor of the device."""
    name = func.overloadpacket.__name__
    if name not in _UNDIFFERENTIABLE and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE):
        # Inference mode does not decompose composite operations, so this does.
        return func._op_dk(getattr(torch._C.DispatchKey, _COMPOSITE), *args, **kwargs)
    if name == "_to_copy":
        return _to_copy(func, *args, **kwargs)
    if name == "copy_":
        return _copy_(func, *args, **kwargs)
    if name in _UNDIFFERENTIABLE and torch.is_grad_enabled() and any(t.requires_grad for t in _tensors(args)):
        raise NotImplementedError(f"gradients of {name} on the fake device: work under torch.no_grad().")
    device = _common_device(name, args, kwargs)
    if name == "_local_scalar_dense":
        note("waits", name)
        note("downloads", name, args[0].held.nbytes)
    elif _waits(name, args, kwargs):
        note("waits", name)
    wanted = kwargs.get("device")
    if wanted is not None and torch.device(wanted).type == NAME:
        # A new tensor that is like one of the device.
        device, kwargs = _indexed(wanted), {**kwargs, "device": "cpu"}
        wanted = None
    owners = {id(tensor.held): tensor for tensor in _tensors((args, kwargs)) if isinstance(tensor, DeviceTensor)}
    results = func(*tree_map(_held, args), **tree_map(_held, kwargs))
    return results if wanted is not None else tree_map(lambda value: _wrapped(value, device, owners), results)


def _wrapped(value: Any, device: torch.device, owners: dict[int, DeviceTensor]) -> Any:
    if not isinstance(value, Tensor):
        return value
    owner = owners.get(id(value))
    if owner is None:
        return DeviceTensor(value, device)
    if (owner.shape, owner.stride()) != (value.shape, value.stride()):
        # Changed in place: out=, resize_, t_. The metadata of the wrapper are replaced, not the wrapper.
        owner.data = DeviceTensor(value, device)
    return owner


def _held(value: Any) -> Any:
    return value.held if is_fake(value) else value


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]


def _common_device(name: str, args: Any, kwargs: Any) -> torch.device:
    """Where the operation takes place; tensors elsewhere are an error, as on CUDA."""
    if name in _INDEXING:
        # Indices on the host are uploaded by torch.
        for index in _tensors(args[1]):
            if not is_fake(index) and index.ndim > 0 and is_fake(args[0]):
                note("uploads", name, index.nbytes)
        args = (args[0], [index for index in _tensors(args[1]) if is_fake(index)], args[2:])
    tensors = _tensors((args, kwargs))
    devices = {tensor.device for tensor in tensors if is_fake(tensor)}
    devices |= {tensor.device for tensor in tensors if tensor.ndim > 0 or name in _JOINING}
    if len(devices) > 1 and name not in _MIXING:
        found = " and ".join(sorted(str(device) for device in devices))
        raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {found}! "
                           f"(in {name})")  # fmt: skip
    return next(device for device in devices if device.type == NAME)


def _waits(name: str, args: Any, kwargs: Any) -> bool:
    """Whether the host has to know values of the device before the operation returns."""
    if name in _INDEXING:
        masks = [index for index in _tensors(args[1]) if index.dtype in (torch.bool, torch.uint8)]
        fills = name != "index" and args[2].numel() == 1 and len(_tensors(args[1])) == 1
        return bool(masks) and not fills
    if name == "repeat_interleave":
        return (kwargs.get("output_size") is None) and len(_tensors(args)) > 0
    return name in _READ_BY_HOST


def _to_copy(func: Any, tensor: DeviceTensor, **kwargs: Any) -> Tensor:
    device = _indexed(kwargs.pop("device", None) or tensor.device)
    blocking = not kwargs.pop("non_blocking", False)
    copied: Tensor = func(tensor.held, **kwargs)
    if device.type == NAME:
        return DeviceTensor(copied, device)
    if device.type != "cpu":
        return copied.to(device)
    _note_download(copied, tensor, blocking)
    return copied


def _copy_(func: Any, target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    blocking = not non_blocking
    if not is_fake(target):
        _note_download(target, source, blocking)
    elif not is_fake(source):
        # torch converts types on the side where it does not make the host wait.
        size = (target if blocking else source).element_size()
        note("uploads", "copy_", target.numel() * size, blocking)
    func(_held(target), _held(source))
    return target


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """Reached from ``torch.tensor(values, device=...)``, which keeps Python out while it makes the tensor."""
    return _copy_(_copy_into, target, source, non_blocking)


def _copy_into(target: Tensor, source: Tensor) -> Tensor:
    return target.copy_(source)


def _note_download(target: Tensor, source: Tensor, blocking: bool) -> None:
    size = (source if blocking else target).element_size()
    note("downloads", "copy", target.numel() * size, blocking)
    if blocking:
        note("waits", "copy")


def _indexed(device: Any) -> torch.device:
    wanted: torch.device = torch.device(device)
    if wanted.type != NAME:
        return wanted
    if (wanted.index or 0) >= NUM_DEVICES:
        raise RuntimeError(f"invalid device ordinal: {wanted}, there are {NUM_DEVICES}.")
    return torch.device(NAME, wanted.index or 0)


class _Module:
    """What torch asks of ``torch.fake``."""

    available = False

    def is_available(self) -> bool:
        return self.available

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return NUM_DEVICES if self.available else 0

    def current_device(self) -> int:
        return 0

    def synchronize(self, device: Any = None) -> None:
        note("waits", "synchronize")

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def manual_seed_all(self, seed: int) -> None:
        """Random numbers come from the CPU's generator."""

    def _is_in_bad_fork(self) -> bool:
        return False


_module = _Module()
_registered: list[torch.library.Library] = []


def _register() -> None:
    """Tells torch of the device; once in a process."""
    if _registered:
        return

    class Hooks(torch._C._acc.PrivateUse1Hooks):
        def is_available(self) -> bool:
            return _module.available

        def has_primary_context(self, dev_id: int) -> bool:
            return _module.available

        def is_built(self) -> bool:
            return True

    _setup_privateuseone_for_python_backend(rename=NAME, backend_module=_module, hook=Hooks())
    library = torch.library.Library("aten", "IMPL")
    for name in _FACTORIES:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            func = getattr(packet, overload)
            if any(argument.name == "device" for argument in func._schema.arguments):
                library.impl(func, _factory(func), "PrivateUse1")
    library.impl("_copy_from", _copy_from, "PrivateUse1")
    for name in _UNDIFFERENTIABLE:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            # Never called: with its own kernel, torch does not decompose the operation, so the CPU runs the same
            # kernels as on its own tensors.
            library.impl(getattr(packet, overload), _unreachable, "PrivateUse1")
    every = torch.library.Library("_", "IMPL")
    every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    _registered.extend((library, every))


def _factory(func: Any) -> Any:
    def make(*args: Any, device: Any = None, pin_memory: Any = None, **kwargs: Any) -> Tensor:
        return DeviceTensor(func(*args, device="cpu", **kwargs), _indexed(device))

    return make


def _unreachable(*_: Any, **__: Any) -> Any:
    raise AssertionError("an operation of the fake device reached its kernel")


def make_available() -> torch.device:
    """Register the device if needed, make it available, and return the first of the two, "fake:0"."""
    _register()
    _module.available = True
    return torch.device(NAME, 0)


@pytest.fixture
def fake_device() -> Iterator[torch.device]:
    """The first of the two devices, "fake:0"."""
    yield make_available()
    _module.available = False
