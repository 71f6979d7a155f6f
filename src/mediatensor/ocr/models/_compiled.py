"""Models that ``torch.compile`` has wrapped, and sizes that a compiled model is to leave open.

A graph is compiled for the shapes of its inputs, and pages differ in theirs. The predictors mark what varies from page
to page (the size of a batch, the height and width of a page, the width of a line), so that one graph serves all sizes
rather than one graph each size. Torch compiles apart where a dimension is 1, and for small inputs on a CPU, whose
convolutions are others: a network has one to four graphs, however many pages there are. (PARSeq and MASTER, which stop
when all words have ended, have up to ten smaller ones.)
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

__all__ = ["compile_network", "is_compiled", "plain", "with_open_sizes"]


def plain(model: Any) -> Any:
    """The module inside one that ``torch.compile`` made; any other as it is.

    What is not called on its way through the network, such as names of classes, is looked up and set on this one.
    """
    return getattr(model, "_orig_mod", model)


def is_compiled(model: Any) -> bool:
    """Whether calls go through a compiler: after ``torch.compile(model)`` as after ``model.compile()``."""
    return plain(model) is not model or getattr(model, "_compiled_call_impl", None) is not None


def compile_network(model: nn.Module | None, *args: Any, **kwargs: Any) -> None:
    """Compile a network in place, if there is one that is not compiled.

    Args:
        model: The network.
        *args: Of ``torch.compile``.
        **kwargs: Of ``torch.compile``.
    """
    if model is not None and not is_compiled(model):
        model.compile(*args, **kwargs)


def with_open_sizes(model: Any, data: Tensor, *dimensions: int) -> Tensor:
    """Tell the compiler which sizes of an input differ from call to call; for models that are not compiled, nothing.

    Args:
        model: The network that the input is for.
        data: The input.
        *dimensions: Those of other sizes the next time. A size of 1 is never left open: it has a graph of its own.

    Returns:
        The input.
    """
    if is_compiled(model):
        # Imported here, as it takes a second that only those who compile should wait.
        from torch import _dynamo

        for dimension in dimensions:
            if data.shape[dimension] > 1:
                _dynamo.maybe_mark_dynamic(data, dimension)
    return data
