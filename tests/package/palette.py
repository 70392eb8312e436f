"""palette.py SOURCE: checks that people with a color vision deficiency can tell the colors of pictures apart.

Simulates protanopia, deuteranopia and tritanopia (Machado, Oliveira and Fernandes 2009, severity 1). Fails if the
distance in CIELAB between two colors of a palette, or between a color and white, is less than 15. Also draws bars with
bench/chart.py and checks that the dashed line does not cross a number. Every series must have a different hatch, dash
and marker."""

import itertools
import pathlib
import re
import sys
import tempfile

MIN_DISTANCE = 15
VISION = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1, 1.089)


def product(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def linear(color):
    """Converts a color like "#0072b2" to linear RGB."""
    parts = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def lab(color, vision):
    visible = [min(1, max(0, part)) for part in product(VISION[vision], linear(color))]
    x, y, z = (
        t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116
        for t in (part / white for part, white in zip(product(TO_XYZ, visible), WHITE))
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(a, b, vision):
    return sum((x - y) ** 2 for x, y in zip(lab(a, vision), lab(b, vision))) ** 0.5


def check_palette(name, colors):
    assert len(colors) > 1, f"{name}: no colors found"
    for vision in VISION:
        smallest, a, b = min((distance(a, b, vision), a, b) for a, b in itertools.combinations([*colors, "#ffffff"], 2))
        print(f"{name}, {vision}: smallest distance {smallest:.1f}, between {a} and {b}")
        assert smallest >= MIN_DISTANCE, f"{name}, {vision}: {a} and {b} differ by only {smallest:.1f}"


def check_bars(chart):
    """Draws bars with numbers close to the dashed line, above and below it, and checks that it crosses no number."""
    names = [f"series {i}" for i in range(len(chart.COLORS))]
    shares = [0.7 + 0.005 * i for i in range(80)]
    values = {f"{i}": shares[i : i + len(names)] for i in range(0, len(shares), len(names))}
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "bars.svg"
        chart.bars(path, "title", list(values), names, values, "1")
        text = path.read_text()
    dashed = [float(y) for y in re.findall(r'd="M\S+ (\S+?)L[^>]*stroke-dasharray="[1-9]', text)]
    numbers = [float(y) for y in re.findall(r'<text x="\S+" y="(\S+)"[^>]*>\d\.\d\d<', text)]
    assert len(dashed) == 1 and len(numbers) == len(shares), (len(dashed), len(numbers))
    crossed = [y for y in numbers if y - 9 <= dashed[0] <= y]
    assert not crossed, f"the dashed line at {dashed[0]} crosses numbers with the baselines {crossed}"


def main():
    source = pathlib.Path(sys.argv[1])
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(source / "bench"))
    import chart

    curves = re.search(r"color\[\] = \{(.*?)\}", (source / "src/io/picture_curves.c").read_text(), re.S)
    check_palette("bench/chart.py", chart.COLORS)
    check_palette("picture_curves.c", re.findall("#[0-9a-f]{6}", curves[1]))
    for kind in ("HATCHES", "DASHES", "MARKERS"):
        styles = getattr(chart, kind)
        assert len(set(styles)) == len(styles) >= len(chart.COLORS), f"{kind} has duplicates or too few entries"
    check_bars(chart)


main()
