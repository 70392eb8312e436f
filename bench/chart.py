"""Draws two kinds of charts as SVG with the standard library only: grouped bars, and lines on logarithmic axes.

The colors are from Okabe and Ito (2008), with dark gray instead of black: people with common color vision deficiencies
can tell them apart (tests/package/palette.py). Hatches, dashes and markers repeat the information without color."""

import math
from xml.sax.saxutils import escape

COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#444444"]
# Paths over a bar's color, in a repeated square of 8 x 8. The first is empty.
HATCHES = [
    "",
    "M-1 1l2 -2M0 8l8 -8M7 9l2 -2",  # rising lines
    "M-1 7l2 2M0 0l8 8M7 -1l2 2",  # falling lines
    "M0 2h8M0 6h8",
    "M2 0v8M6 0v8",
    "M-1 1l2 -2M0 8l8 -8M7 9l2 -2M-1 7l2 2M0 0l8 8M7 -1l2 2",  # both
    "M2 2h.1M6 6h.1",  # dots
    "M0 4h8M4 0v8",
]
DASHES = ["", "7 4", "2 3", "10 3 2 3", "12 5", "1 5", "6 2 1 2", "14 3"]
MARKERS = [  # centered at (0, 0)
    "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z",
    "M-3 -3h6v6h-6z",
    "M0 -4l4 7h-8z",
    "M0 -4l4 4l-4 4l-4 -4z",
    "M0 4l4 -7h-8z",
    "M-4 -1h3v-3h2v3h3v2h-3v3h-2v-3h-3z",
    "M-4 -2h8v4h-8z",
    "M-2 -4h4v8h-4z",
]
LEGEND_WIDTH = 190
STYLE = (
    "text { font: 13px sans-serif; fill: #222 } .title { font-size: 17px } .small { font-size: 11px; fill: #555 } "
    ".value { font-size: 11px; fill: #222; stroke: white; stroke-width: 3px; paint-order: stroke } "
    ".bar { stroke: #222; stroke-width: 0.8 }"
)


def text(x, y, content, anchor="middle", kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(content)}</text>'


def line(x1, y1, x2, y2, color="#ddd", dashes=""):
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{color}" stroke-dasharray="{dashes}" fill="none"/>'


def write_svg(path, width, height, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    parts = [
        head,
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *parts,
        "</svg>",
    ]
    path.write_text("\n".join(parts) + "\n")


def patterns(count):
    """Yields definitions of the fills that bar() uses: a color with a hatch over it."""
    yield "<defs>"
    for i in range(count):
        yield (
            f'<pattern id="fill{i}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<rect width="8" height="8" fill="{COLORS[i]}"/>'
            f'<path d="{HATCHES[i]}" stroke="#222" stroke-width="1.2" stroke-linecap="round" fill="none"/></pattern>'
        )
    yield "</defs>"


def bar(x, y, width, height, i):
    return f'<rect x="{x}" y="{y:.1f}" width="{width}" height="{height:.1f}" fill="url(#fill{i})" class="bar"/>'


def legend(x, y, names, columns):
    for i, name in enumerate(names):
        at_x, at_y = x + LEGEND_WIDTH * (i % columns), y + 24 * (i // columns)
        yield bar(at_x, at_y - 13, 22, 16, i)
        yield text(at_x + 29, at_y, name, "start")


VALUE_HEIGHT = 9  # of a digit, above its baseline


def value_baseline(top, dashed):
    """Returns the baseline of the number above a bar; moves it above the dashed line if the line would cross the
    number."""
    baseline = top - 4
    return dashed - 4 if baseline - VALUE_HEIGHT - 2 < dashed < baseline + 2 else baseline


def bars(path, title, groups, names, values, reference):
    """values[group][i]: height of the bar for names[i]; None: no bar. reference: label of the dashed line at 1."""
    group_width = 30 * len(names) + 26
    left, columns = 50, 4
    top = 64 + 24 * math.ceil(len(names) / columns)
    bottom = top + 276
    width = left + max(group_width * len(groups), LEGEND_WIDTH * min(columns, len(names))) + 20
    most = max([1.0] + [v for group in groups for v in values[group] if v is not None]) * 1.06
    unit = next(u for u in (0.5, 1, 2, 5, 10, 20, 50, 100) if most / u <= 10 or u == 100)

    def height_of(value):
        return bottom - (bottom - top) * value / most

    parts = [*patterns(len(names)), text(left, 28, title, "start", "title"), *legend(left, 56, names, columns)]
    numbers = []
    for i in range(int(most / unit) + 1):
        parts += [line(left, height_of(i * unit), width - 20, height_of(i * unit))]
        parts += [text(left - 8, height_of(i * unit) + 4, f"{i * unit:g}x", "end")]
    for g, group in enumerate(groups):
        x = left + g * group_width + 13
        parts.append(text(x + 15 * len(names), bottom + 20, group))
        for i, value in enumerate(values[group]):
            if value is None:
                parts.append(text(x + 30 * i + 13, bottom - 5, "none", kind="small"))
                continue
            y = height_of(value)
            parts.append(bar(x + 30 * i, y, 26, bottom - y, i))
            at_y = value_baseline(y, height_of(1))
            numbers.append(text(x + 30 * i + 13, at_y, f"{value:.2f}", kind="value"))
    parts += [line(left, height_of(1), width - 20, height_of(1), "#222", "5 4"), *numbers]
    parts += [text(left, bottom + 44, f"Dashed line: {reference}.", "start", "small")]
    write_svg(path, width, bottom + 60, parts)


def logarithmic(path, title, panels):
    """Draws panels, at most two in a row, with logarithmic axes. A panel: (x label, y label, {name: [(x, y), ...]})."""
    columns = min(len(panels), 2)
    width, height = 920 // columns, 290 + 16 * (max(len(lines) for _, _, lines in panels) - 1)
    parts = [text(20, 28, title, "start", "title")]
    for i, panel in enumerate(panels):
        parts += log_panel(20 + i % columns * width, 44 + i // columns * height, width - 20, height - 20, *panel)
    write_svg(path, width * columns + 20, 60 + height * math.ceil(len(panels) / columns), parts)


def log_panel(x0, y0, width, height, x_label, y_label, lines):
    left, right, top, bottom = x0 + 64, x0 + width - 14, y0 + 18 + 16 * len(lines), y0 + height - 44
    points = [point for some in lines.values() for point in some]
    (low_x, high_x), (low_y, high_y) = (log_range([p[axis] for p in points]) for axis in (0, 1))

    def place(x, y):
        return (
            left + (right - left) * (math.log10(x) - low_x) / (high_x - low_x),
            bottom - (bottom - top) * (math.log10(y) - low_y) / (high_y - low_y),
        )

    parts = [text((left + right) / 2, y0 + height - 8, x_label), text(left, y0 + 20, y_label, "start")]
    given = sorted({p[0] for p in points})
    for x in given if all(x == int(x) for x in given) else ticks(low_x, high_x):
        at = place(x, points[0][1])[0]
        parts += [line(at, top, at, bottom), text(at, bottom + 16, f"{x:g}", kind="small")]
    for y in ticks(low_y, high_y):
        at = place(points[0][0], y)[1]
        parts += [line(left, at, right, at), text(left - 6, at + 4, f"{y:g}", "end", "small")]
    for i, (name, some) in enumerate(lines.items()):
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*p) for p in some))
        parts.append(
            f'<polyline points="{joined}" fill="none" stroke="{COLORS[i]}" stroke-width="2" '
            f'stroke-dasharray="{DASHES[i]}"/>'
        )
        name_y = y0 + 20 + 16 * i
        parts += [
            f'<path d="{MARKERS[i]}" transform="translate({x:.1f} {y:.1f})" fill="{COLORS[i]}"/>'
            for x, y in [*(place(*p) for p in some), (right - 4, name_y - 4)]
        ]
        parts.append(text(right - 14, name_y, name, "end"))
    return parts


def log_range(values):
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.05 * (high - low), 0.05)
    return low - room, high + room


def ticks(low, high):
    """Returns 1, 2 and 5 times powers of ten; only powers of ten if there are many, other round numbers if there are
    few."""
    shown = [
        m * 10.0**e
        for e in range(math.floor(low), math.ceil(high) + 1)
        for m in (1, 2, 5)
        if low <= math.log10(m) + e <= high
    ]
    if len(shown) > 7:
        return [10.0**e for e in range(math.ceil(low), math.floor(high) + 1)]
    if len(shown) < 3:
        return sorted({float(f"{10 ** (low + (high - low) * i / 8):.2g}") for i in (1, 3, 5, 7)})
    return shown
