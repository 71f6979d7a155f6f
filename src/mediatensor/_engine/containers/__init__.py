"""Parse containers: pure functions of bytes that the caller has read, which validate every number."""
