"""Interfaces of other libraries: programs written for them only need another import.

`mediatensor.compat.decord` has the readers of decord, and `mediatensor.compat.torchvision_io` the functions of
`torchvision.io`. `mediatensor.compat.transformers` and `mediatensor.compat.vllm` make transformers and vLLM read media
with this library. The documentation pages named "Coming from ..." list the differences.
"""

from __future__ import annotations

# Not public: used by the modules of this package.
from ._bounded_calls import BoundedCalls as BoundedCalls
from ._bounded_calls import check_timeout as check_timeout
from ._bounded_calls import run_bounded as run_bounded

__all__: list[str] = []
