"""The base class of the classification networks, and functions that create these networks and their configurations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...datasets import VOCABS
from .._networks.registry import make_network
from .._networks.weights import StateDictNetwork, load_weights


class Classifier(StateDictNetwork):
    """A network that maps images (N, 3, H, W) to scores (N, classes). Its attribute ``cfg`` is its configuration."""

    cfg: dict[str, Any]


ClassifierT = TypeVar("ClassifierT", bound=Classifier)


def classifier_cfg(
    url: str, size: int = 32, classes: Sequence[str | int] = tuple(VOCABS["french"]), *, release: bool = False
) -> dict[str, Any]:
    """Return the configuration of a classifier for images of ``size`` by ``size`` pixels.

    By default, it classifies characters. ``url`` is the end of the address of its weights. They are in a release of
    docTR's repository if ``release`` is true, otherwise on docTR's server.
    """
    server = (
        "https://github.com/mindee/doctr/releases/download/"
        if release
        else "https://doctr-static.mindee.com/models?id="
    )
    return {
        "mean": (0.694, 0.695, 0.693),
        "std": (0.299, 0.296, 0.301),
        "input_shape": (3, size, size),
        "classes": list(classes),
        "url": f"{server}{url}",
    }


def build_classifier(
    cfgs: dict[str, dict[str, Any]],
    arch: str,
    network: Callable[..., ClassifierT],
    head: str,
    pretrained: bool,
    kwargs: dict[str, Any],
    takes_input_shape: bool = False,
) -> ClassifierT:
    """Create a classifier, set its ``cfg``, and load its weights if ``pretrained`` is true.

    ``cfgs`` has the default configuration of the architecture ``arch``. ``kwargs`` are the options of the user.
    ``network`` is called with ``num_classes`` and with all options except ``classes`` and ``input_shape``. ``head`` is
    the name of the last layers in the state dict; they are not loaded if the number of classes is not the default.
    ``takes_input_shape`` is true for networks that are built for one image size: they also get ``input_shape``.
    """
    kwargs, default_cfg = dict(kwargs), cfgs[arch]
    classes = list(kwargs.pop("classes", default_cfg["classes"]))
    # As in docTR, ``classes`` changes only the names, not the size of the head.
    num_classes = kwargs.pop("num_classes", len(default_cfg["classes"]))
    input_shape = tuple(kwargs.pop("input_shape", default_cfg["input_shape"]))
    if takes_input_shape:
        kwargs["input_shape"] = input_shape
    other_options = ("num_classes", "classes", "input_shape")
    model = make_network(arch, network, options=kwargs, other_options=other_options, num_classes=num_classes)
    model.cfg = {**default_cfg, "input_shape": input_shape, "classes": classes, "num_classes": num_classes}
    if pretrained:
        other_head = num_classes != len(default_cfg["classes"])
        left = [name for name in model.state_dict() if name.startswith(f"{head}.")] if other_head else ()
        load_weights(model, arch, ignore_keys=left)
    return model
