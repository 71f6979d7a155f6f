"""Helpers that every package may use and that use no other package.

The modules cover argument checks, limits per call, threads and locks, devices, memory for batches, timed stages,
messages to users, and decoded frames before conversion to RGB.
"""
