"""What every room may use, and which knows none of them.

Checks of arguments, limits of one call, threads and locks, devices, memory for batches, stages of reading, messages
to people. Nothing here knows what a frame or a page is.
"""
