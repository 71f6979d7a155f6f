"""Functions that isolated processes call to inspect, read and render uploads.

Their arguments are paths and simple values. They return simple values, or the bytes of JSON, images and files. Each
process loads a model only once, and keeps the most recently opened document open.
"""
