"""Reads the data of a page without a browser, as the library wrote it."""

import array
import base64
import json
import re
import sys

SECTION = re.compile(r'<script type="application/json">(.*?)</script>', re.S)


def sections(path):
    """Returns the data of each section."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(text) for text in SECTION.findall(file.read())]


def numbers(stored):
    """Returns the elements of an array as a list, in row-major order."""
    if stored["type"] == "bits":
        packed = base64.b64decode(stored["data"])
        return [float(packed[i // 8] >> i % 8 & 1) for i in range(count(stored["shape"]))]
    elements = array.array("d" if stored["type"] == "float64" else "f", base64.b64decode(stored["data"]))
    if sys.byteorder == "big":
        elements.byteswap()
    return list(elements)


def count(shape):
    """Returns the number of elements of a shape."""
    product = 1
    for size in shape:
        product *= size
    return product


def matrix(stored, leading):
    """Returns the last two dimensions of an array, at an index of the others, as rows."""
    shape = [1, 1, *stored["shape"]]
    rows, cols = shape[-2:]
    offset = 0
    for size, index in zip(stored["shape"][:-2], leading):
        offset = offset * size + index
    elements = numbers(stored)[offset * rows * cols:]
    return [elements[i * cols:(i + 1) * cols] for i in range(rows)]
