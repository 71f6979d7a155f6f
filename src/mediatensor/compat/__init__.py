"""The calls of other libraries, done by this one: programs that were written for those run with another import.

`mediatensor.compat.decord` has the readers of decord, `mediatensor.compat.torchvision_io` the functions of
`torchvision.io`; `mediatensor.compat.transformers` and `mediatensor.compat.vllm` are what these programs read media
with. What is different is on the pages "Coming from" these libraries.
"""

from __future__ import annotations

# For the modules below, and not public.
from ._bounded_calls import BoundedCalls as BoundedCalls
from ._bounded_calls import check_timeout as check_timeout
from ._bounded_calls import run_bounded as run_bounded

__all__: list[str] = []
