"""Whether a training loop waits for its input, and what to change if it does.

`meter` watches a loop and writes down times, `facts` makes shares and advice of them, `plot` shows them as text and as
a picture. This room knows only the timings that batches carry, and nothing else of the package.
"""

from __future__ import annotations

from .facts import EpochRecord, StallFacts, advice, facts_of
from .meter import StallMeter

__all__ = ["EpochRecord", "StallFacts", "StallMeter", "advice", "facts_of"]
