"""The device of the tests behaves as an accelerator does, or tests with it would prove nothing."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fake_device import crossings, is_fake
from forked import run_program


@pytest.fixture
def pages() -> Tensor:
    return torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def test_what_is_made_on_the_device_is_there_and_stays_there(fake_device):
    made = [torch.zeros(2, device="fake"), torch.tensor([1.0, 2.0], device=fake_device), torch.arange(2).to("fake:0"),
            torch.as_tensor(np.ones(2), device="fake"), torch.rand(2, device="fake")]  # fmt: skip
    made += [torch.zeros_like(made[0]), made[0].new_tensor([1.0, 2.0]), made[0] + 1, made[0].bfloat16()]
    assert all(is_fake(tensor) and tensor.device == fake_device for tensor in made)
    with torch.device("fake:1"):
        assert torch.ones(1).device == torch.device("fake:1")
    with pytest.raises(RuntimeError, match="fake:2"):
        torch.ones(1, device="fake:2")


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


def test_a_number_on_the_host_may_meet_a_tensor_on_the_device(fake_device):
    with crossings() as seen:
        scaled = torch.ones(2, device=fake_device) * torch.tensor(3.0)
    assert scaled.device == fake_device
    assert (seen.waits, seen.uploads) == ([], [])
    assert scaled.tolist() == [3.0, 3.0]


def test_host_libraries_cannot_read_the_device(fake_device):
    data = torch.ones(2, device=fake_device)
    reads = (np.asarray, np.from_dlpack, lambda tensor: tensor.detach().numpy(), lambda tensor: tensor.data_ptr())
    for read in reads:
        with pytest.raises((TypeError, RuntimeError), match="fake:0"):
            read(data)


def test_views_share_the_memory_of_their_base(fake_device):
    base = torch.zeros(3, 4, device=fake_device)
    base[1:, :2].fill_(5)
    base.T[3].add_(1)
    base[0] = torch.tensor([7.0, 8, 9, 10])
    assert base.tolist() == [[7, 8, 9, 10], [5, 5, 0, 1], [5, 5, 0, 1]]
    assert base.permute(1, 0).unflatten(0, (2, 2)).shape == (2, 2, 3)


def test_operations_in_place_keep_shape_and_identity(fake_device):
    data = torch.ones(2, 3, device=fake_device)
    assert data.t_() is data
    assert (data.shape, data.stride()) == ((3, 2), (1, 3))
    out = torch.empty(0, device=fake_device)
    torch.add(data, data, out=out)
    assert out.tolist() == [[2.0, 2.0]] * 3


def test_a_network_follows_and_gives_the_values_of_the_cpu(fake_device, pages):
    torch.manual_seed(1)
    stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(2)).eval()
    layer, reader = nn.TransformerEncoderLayer(8, 2, batch_first=True).eval(), nn.LSTM(8, 4, batch_first=True).eval()

    def run(data: Tensor) -> Tensor:
        data = F.interpolate(data, (9, 9), mode="bilinear", antialias=True)
        grid = torch.linspace(-1, 1, 32, device=data.device).view(1, 4, 4, 2).expand(2, -1, -1, -1)
        tokens = stem(F.grid_sample(data, grid, align_corners=False)).transpose(1, 2)
        found, places = reader(layer(tokens))[0].softmax(2).topk(2)
        return torch.cat([found, places.float(), found.amax(1, keepdim=True)], dim=1)

    with torch.inference_mode():
        expected = run(pages)
        for module in (stem, layer, reader):
            module.to(fake_device)
        result = run(pages.to(fake_device))
    assert result.device == fake_device
    # Not to the bit: the CPU may take another kernel for memory that lies otherwise.
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_gradients_stay_on_the_device() -> None:
    """In a separate process: torch counts the devices at the first backward pass, which another test may make."""
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "shared")!r})
import torch
from fake_device import make_available
device = make_available()
layer = torch.nn.Linear(3, 2).to(device)
layer(torch.ones(4, 3, device=device)).sum().backward()
print(layer.weight.grad.device, layer.weight.grad.tolist())
"""
    run = run_program(program)
    assert run.stdout.split(maxsplit=1) == ["fake:0", f"{[[4.0] * 3] * 2}\n"]


def test_copies_of_modules_stay_on_the_device(fake_device):
    layer = nn.Linear(3, 2).to(fake_device)
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert isinstance(copied.weight, nn.Parameter)
        assert copied.weight.device == fake_device
    assert nn.Linear(3, 2).to("fake:1").load_state_dict(layer.state_dict())


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
