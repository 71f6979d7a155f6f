"""What is wrong with the files of a dataset, found before a training meets it.

`findings` has the types and what each kind of finding means. `media` checks one file: it opens it, decodes it, and asks
`pictures` and `sound`, which are pure. `comparing` looks for what only shows between files. `checking` does that for
all files, in processes, and keeps what is done; `lerobot` knows the videos of such a dataset. `report` has the result
as text, JSON, HTML and a manifest.
"""

from __future__ import annotations

from .checking import check_dataset
from .findings import FINDING_KINDS, CheckedFile, Finding, MediaFacts
from .report import DatasetReport

__all__ = ["FINDING_KINDS", "CheckedFile", "DatasetReport", "Finding", "MediaFacts", "check_dataset"]
