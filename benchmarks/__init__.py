"""Speed comparisons; not part of the package."""
