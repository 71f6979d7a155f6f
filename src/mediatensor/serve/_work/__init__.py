"""Inspect, read and render an upload: functions that an isolated process calls.

All functions take paths and plain values. They return numbers, or the bytes of JSON, images and files. A process loads
each model once, and keeps the last opened document open.
"""
