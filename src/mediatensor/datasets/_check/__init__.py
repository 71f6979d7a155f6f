"""What is wrong with the files of a dataset, found before a training meets it.

`findings` has the types and what each kind of finding means. `media` checks one file: it opens it, decodes it, and asks
`pictures`, `sound` and `headers`, which are pure. `comparing` finds faults that only show between files, and `rows`
rows that do not fit their files. `checking` does that for all files, in processes, and keeps what is done; `lerobot`
knows the tables and videos of such a dataset. `report` has the result as text, JSON and a manifest, `page` as HTML.
"""

from __future__ import annotations

from .checking import ListedDataset, check_dataset, is_check_state, list_dataset
from .findings import FINDING_KINDS, CheckedFile, Finding, FindingKind, MediaFacts
from .report import DatasetReport, check_manifest_name

__all__ = [
    "FINDING_KINDS",
    "CheckedFile",
    "DatasetReport",
    "Finding",
    "FindingKind",
    "ListedDataset",
    "MediaFacts",
    "check_dataset",
    "check_manifest_name",
    "is_check_state",
    "list_dataset",
]
