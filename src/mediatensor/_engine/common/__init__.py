"""Modules that every room may use, and which use no other room.

Checks of arguments, limits of one call, threads and locks, devices, memory for batches, stages of reading, messages to
users, and the plain data of a decoded picture: its planes, its orientation, and the steps of its conversion.
"""
