"""Functions that an isolated process calls to inspect, read and render an upload.

All functions take paths and plain values, and return numbers, or the bytes of JSON, images and files. A process loads
models once, and keeps the last opened document open.
"""
