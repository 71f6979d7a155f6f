"""What several benchmarks share: processes, options, statistics, charts."""
