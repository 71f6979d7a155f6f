"""Helpers that every package may use and that use no other package.

Argument checks, limits per call, threads and locks, devices, memory for batches, timed stages, messages to users, and
the plain data of a decoded frame: its planes, its orientation and its conversion steps.
"""
