"""The device of the tests refuses and counts what an accelerator does, or tests with it would prove nothing."""

import numpy as np
import pytest
import torch

from fake_device import crossings


@pytest.mark.parametrize("operation", [
    torch.add, lambda one, other: torch.cat([one, other]), lambda one, other: one.mul_(other),
    lambda one, other: torch.stack([one[0], other[0]]), lambda one, other: one[:1] @ other[:1],
])  # fmt: skip
def test_tensors_of_two_devices_do_not_mix(fake_device, operation):
    devices = ["fake:0", "fake:1", "cpu"]
    for first in devices:
        for second in devices:
            tensors = torch.ones(2, device=first), torch.ones(2, device=second)
            if first == second:
                operation(*tensors)
            else:
                with pytest.raises(RuntimeError, match="same device"):
                    operation(*tensors)


def test_host_libraries_cannot_read_the_device(fake_device):
    data = torch.ones(2, device=fake_device)
    reads = (np.asarray, np.from_dlpack, lambda tensor: tensor.detach().numpy(), lambda tensor: tensor.data_ptr())
    for read in reads:
        with pytest.raises((TypeError, RuntimeError), match="fake:0"):
            read(data)


WAITS = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[0]),
    "bool": lambda x: bool(x[0] > 0),
    "format": lambda x: f"{x[0]:.1f}",
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu", torch.float64),
    "copy": lambda x: torch.empty(3).copy_(x),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "assignment by a mask": lambda x: x.__setitem__(x > 0, x[:2] + 1),
    "unique": lambda x: x.unique(),
    "allclose": lambda x: torch.allclose(x, x),
    "index of a number": lambda x: x[x[2].long()],
    "repeat": lambda x: x.repeat_interleave(x.long()),
}
FREE = {
    "arithmetic": lambda x: (x + 1).sum() > 2,
    "index": lambda x: x[x.long()],
    "fill by a mask": lambda x: x.__setitem__(x > 1, 0.0),
    "where": lambda x: torch.where(x > 1, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(x > 1, 0.0),
    "max": lambda x: x.max(0),
    "slices": lambda x: list(x[1:]),
    "on the device": lambda x: x.to(x.device, torch.bfloat16),
    "non-blocking": lambda x: x.to("cpu", non_blocking=True),
}


@pytest.mark.parametrize("inference", [False, True], ids=["gradients", "inference"])
@pytest.mark.parametrize(("operations", "waits"), [(WAITS, 1), (FREE, 0)], ids=["waits", "free"])
def test_waits_are_counted(fake_device, operations, waits, inference):
    for name, operation in operations.items():
        data = torch.tensor([1.0, 2.0, 0.0], device=fake_device)
        with torch.inference_mode(inference), crossings() as seen:
            operation(data)
        assert (name, seen.num_waits) == (name, waits), seen
        assert all("test_fake_device.py" in wait.where for wait in seen.waits)


def test_bytes_are_counted_both_ways(fake_device):
    values = torch.ones(5, dtype=torch.float32)
    with crossings() as outer:
        data = values.to(fake_device)
        with crossings() as inner:
            values.to(fake_device, torch.float64, non_blocking=True)
            data.bfloat16().cpu()
            torch.tensor([1, 2], device=fake_device)
            data[torch.tensor([1, 2])]
    assert [crossing.num_bytes for crossing in inner.uploads] == [20, 16, 16]
    assert [crossing.num_bytes for crossing in inner.blocking_uploads] == [16, 16]
    assert (inner.downloaded_bytes, inner.num_waits) == (10, 1)
    assert outer.uploaded_bytes == 20 + inner.uploaded_bytes
    with crossings() as later:
        pass
    assert (later.uploads, later.downloads) == ([], [])


@pytest.mark.parametrize("taken", [True, False], ids=["in a test with the device", "in the next without"])
def test_torch_takes_note_of_the_device_only_in_tests_that_use_it(taken, request):
    if taken:
        request.getfixturevalue("fake_device")
    current = torch.accelerator.current_accelerator(check_available=True)
    assert (current is not None and current.type == "fake") == taken
