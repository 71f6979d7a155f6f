"""Modules with the interfaces of other libraries, for programs that were written for these libraries.

For programs that use decord or torchvision, only the import changes: `mediatensor.compat.decord` has the readers of
decord, and `mediatensor.compat.torchvision_io` has the functions of `torchvision.io`. `mediatensor.compat.transformers`
and `mediatensor.compat.vllm` make transformers and vLLM read media with this library. The documentation pages named
"Coming from ..." list the differences.
"""

__all__: list[str] = []
