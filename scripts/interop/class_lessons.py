"""Computes the numbers of every lesson of the class (teaching/lessons) with PyTorch in float64, and compares them with what the
lesson's program prints.

Each program teaching/lessons/NAME.c has a file class/NAME.py with a function numbers(). It returns a dictionary with an
entry for every value that the program prints. An entry's name is the title up to " = " or a comma, such as dW in "dW = dyᵀ x".
Plain C and the tape must agree with PyTorch to 1e-12. Central differences must agree to 1e-7."""

import importlib.util
import re

import numpy as np
import torch

import common

LIMITS = {"plain C": 1e-12, "tape": 1e-12, "central difference": 1e-7}
NUMBER = r"-?[0-9.]+|-?nan|-?inf"
VERSION = "|".join(LIMITS)


def name_of(title):
    return re.split(" = |,", title)[0]


def read_output(text):
    """Returns {name: {version: list of numbers}} of a program's output with --digits 17."""
    values = {}
    for line in text.splitlines():
        inline = re.findall(rf"({VERSION}) +({NUMBER})", line)
        if inline:  # a title with its number
            values[name_of(line)] = {version: [float(number)] for version, number in inline}
        elif line.startswith("  ["):  # a row of each version
            for numbers, row in zip(values[name].values(), re.findall(r"\[([^]]*)\]", line), strict=True):
                numbers += map(float, row.split())
        elif line.startswith("  "):  # the names of the versions
            values[name] = {version: [] for version in re.findall(VERSION, line)}
        elif line:  # a title
            name = name_of(line)
    return values


def load(path):
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def compare(c):
    torch.set_default_dtype(torch.float64)
    for program in sorted((common.ROOT / "teaching" / "lessons").glob("[0-9]*.c")):
        lesson = program.stem
        ours = read_output(c.run(c.build / "teaching" / "lessons" / lesson, "--digits", "17").stdout)
        theirs = load(common.HERE / "class" / f"{lesson}.py").numbers()
        c.check(f"{lesson}: names", ours.keys() == theirs.keys(), sorted(ours.keys() ^ theirs.keys()))
        for name in ours.keys() & theirs.keys():
            for version, numbers in ours[name].items():
                expected = common.as_array(theirs[name]).reshape(-1)
                c.close(f"{lesson}: {version}", LIMITS[version], np.array(numbers), expected, name)


common.main(compare)
