"""The benchmark of the service: its statistics of times, and its report."""

from __future__ import annotations

from benchmarks.apps.serve import Load, percentile, to_markdown

LOADS = [
    Load("predictor, 1 process", 1, (0.5, 0.5, 0.6), 1.6),
    Load("predictor, 2 processes", 2, (0.6, 0.6, 0.6, 0.6), 1.2),
    Load("service, 50 clients", 50, tuple(0.3 * number for number in range(1, 101)), 30.0, 1, 7),
]


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.01, 0.5, 0.95, 1.0)] == [1.0, 50.0, 95.0, 100.0]
    assert percentile([4.0], 0.95) == 4.0


def test_the_report_says_what_was_lost_and_what_the_queue_costs() -> None:
    text = to_markdown({"cores": "2"}, LOADS)
    assert "| service, 50 clients | 100 | 1 | 7 | 15.15 | 28.50 | 30.00 | 3.33 |" in text
    assert "an answer takes 15.0 s" in text  # 50 pages at 4 / 1.2 s a second
