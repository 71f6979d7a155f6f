"""The interfaces of other libraries, so that programs written for them run with another import.

`mediatensor.compat.decord` has the readers of decord, `mediatensor.compat.torchvision_io` the functions of
`torchvision.io`; `mediatensor.compat.transformers` and `mediatensor.compat.vllm` let these programs read media with
this library. The pages "Coming from" these libraries list the differences.
"""

from __future__ import annotations

# For the modules below; not public.
from ._bounded_calls import BoundedCalls as BoundedCalls
from ._bounded_calls import check_timeout as check_timeout
from ._bounded_calls import run_bounded as run_bounded

__all__: list[str] = []
