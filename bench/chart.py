"""Two charts as SVG, from the standard library alone: bars in groups, and lines on logarithmic axes."""

import math
from xml.sax.saxutils import escape

COLOURS = ["#2f6f9f", "#d9822b", "#5b9a57", "#8d5a97", "#7fb2d6", "#c0504d", "#a3a33c", "#777777"]
LEGEND_WIDTH = 190
STYLE = "text { font: 13px sans-serif; fill: #222 } .title { font-size: 17px } .small { font-size: 11px; fill: #555 }"


def text(x, y, content, anchor="middle", kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(content)}</text>'


def line(x1, y1, x2, y2, colour="#ddd", dashes=""):
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-dasharray="{dashes}" fill="none"/>'


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


def legend(x, y, names, columns):
    for i, name in enumerate(names):
        at_x, at_y = x + LEGEND_WIDTH * (i % columns), y + 20 * (i // columns)
        yield f'<rect x="{at_x}" y="{at_y - 10}" width="12" height="12" fill="{COLOURS[i]}"/>'
        yield text(at_x + 18, at_y, name, "start")


def bars(path, title, groups, names, values, reference):
    """values[group][i]: height of the bar of names[i], None: no bar. reference: what the line at 1 is called."""
    group_width = 30 * len(names) + 26
    left, columns = 50, 4
    top = 64 + 20 * math.ceil(len(names) / columns)
    bottom = top + 276
    width = left + max(group_width * len(groups), LEGEND_WIDTH * min(columns, len(names))) + 20
    most = max([1.0] + [v for group in groups for v in values[group] if v is not None]) * 1.06
    unit = next(u for u in (0.5, 1, 2, 5, 10, 20, 50, 100) if most / u <= 10 or u == 100)

    def height_of(value):
        return bottom - (bottom - top) * value / most

    parts = [text(left, 28, title, "start", "title"), *legend(left, 56, names, columns)]
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
            parts.append(
                f'<rect x="{x + 30 * i}" y="{y:.1f}" width="26" height="{bottom - y:.1f}" fill="{COLOURS[i]}"/>'
            )
            parts.append(text(x + 30 * i + 13, y - 4, f"{value:.2f}", kind="small"))
    parts += [line(left, height_of(1), width - 20, height_of(1), "#222", "5 4")]
    parts += [text(left, bottom + 44, f"Dashed line: {reference}.", "start", "small")]
    write_svg(path, width, bottom + 60, parts)


def logarithmic(path, title, panels):
    """panels: (x label, y label, {name: [(x, y), ...]}), in rows of two; both axes logarithmic."""
    width, height, columns = 460, 290, 2
    parts = [text(20, 28, title, "start", "title")]
    for i, panel in enumerate(panels):
        parts += log_panel(20 + i % columns * width, 44 + i // columns * height, width - 20, height - 20, *panel)
    write_svg(path, width * columns + 20, 60 + height * math.ceil(len(panels) / columns), parts)


def log_panel(x0, y0, width, height, x_label, y_label, lines):
    left, right, top, bottom = x0 + 64, x0 + width - 14, y0 + 34, y0 + height - 44
    points = [point for some in lines.values() for point in some]
    (low_x, high_x), (low_y, high_y) = (log_range([p[axis] for p in points]) for axis in (0, 1))

    def place(x, y):
        return (
            left + (right - left) * (math.log10(x) - low_x) / (high_x - low_x),
            bottom - (bottom - top) * (math.log10(y) - low_y) / (high_y - low_y),
        )

    parts = [text((left + right) / 2, y0 + height - 8, x_label), text(left, y0 + 20, y_label, "start")]
    for x in sorted({p[0] for p in points}):
        at = place(x, points[0][1])[0]
        parts += [line(at, top, at, bottom), text(at, bottom + 16, f"{x:g}", kind="small")]
    for y in ticks(low_y, high_y):
        at = place(points[0][0], y)[1]
        parts += [line(left, at, right, at), text(left - 6, at + 4, f"{y:g}", "end", "small")]
    for i, (name, some) in enumerate(lines.items()):
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*p) for p in some))
        parts.append(f'<polyline points="{joined}" fill="none" stroke="{COLOURS[i]}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[i]}"/>' for x, y in (place(*p) for p in some)
        ]
        parts.append(text(right, y0 + 20 - 16 * (len(lines) - 1 - i), name, "end"))
    return parts


def log_range(values):
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.05 * (high - low), 0.05)
    return low - room, high + room


def ticks(low, high):
    """1, 2 and 5 times powers of ten: the powers alone when there are many, other round numbers when there are few."""
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
