#!/usr/bin/env python3
"""draw.py [--check]: draws the pictures of the class, one SVG for each function below whose name begins with lesson_.

--check only compares them with the committed files. The pictures can be read in light and dark mode."""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
STYLE = """<style>
text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;font-size:15px;fill:#1f2328;text-anchor:middle}
.note{font-size:13px;fill:#57606a}.value{fill:#0550ae}.gradient{fill:#a04100}
.line{stroke:#57606a;stroke-width:1.5;fill:none}.box{fill:#f6f8fa;stroke:#57606a}.cell{fill:none;stroke:#8c959f}
.mark{fill:#ddeeff;stroke:#8c959f}.mark2{fill:#ffe3cc;stroke:#8c959f}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.value{fill:#79c0ff}.gradient{fill:#ffa657}
.line{stroke:#9198a1}.box{fill:#212830;stroke:#9198a1}.cell{stroke:#656c76}.mark{fill:#123d6b}.mark2{fill:#5a3410}}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#7d8590"/></marker></defs>
"""


def text(x, y, words, kind=""):
    return f'<text x="{x}" y="{y}" class="{kind}">{words}</text>\n'


def arrow(x1, y1, x2, y2):
    return f'<path d="M{x1} {y1}L{x2} {y2}" class="line" marker-end="url(#tip)"/>\n'


def box(x, y, words):
    return f'<rect x="{x - 40}" y="{y - 18}" width="80" height="36" rx="6" class="box"/>\n' + text(x, y + 5, words)


def matrix(x, y, title, rows, marked=(), marked2=(), size=40):
    """Draws the cells of a matrix of texts, with its upper left corner at (x, y)."""
    parts = text(x + size * len(rows[0]) / 2, y - 10, title)
    for i, row in enumerate(rows):
        for j, word in enumerate(row):
            kind = "mark" if (i, j) in marked else "mark2" if (i, j) in marked2 else "cell"
            parts += f'<rect x="{x + j * size}" y="{y + i * size}" width="{size}" height="{size}" class="{kind}"/>\n'
            parts += text(x + (j + 0.5) * size, y + (i + 0.5) * size + 5, word)
    return parts


def lesson_1_chain_rule():
    """The graph of the three operations, with values above the arrows and gradients below."""
    parts = text(370, 22, "forward, left to right: values above the arrows", "note value")
    parts += text(370, 218, "backward, right to left: gradients below the arrows", "note gradient")
    parts += arrow(20, 66, 160, 104) + text(60, 60, "w = 2", "value") + text(60, 100, "dw = 10.5", "gradient")
    parts += arrow(20, 166, 160, 124) + text(60, 144, "x = 1.5", "value") + text(60, 182, "dx = 14", "gradient")
    parts += box(202, 112, "u = w x") + box(402, 72, "v = u u") + box(592, 112, "L = v + u")
    parts += arrow(242, 102, 360, 68) + arrow(242, 110, 360, 82) + arrow(242, 120, 550, 120) + arrow(442, 76, 550, 104)
    parts += text(284, 72, "u = 3", "value") + text(330, 142, "du = 1 + 3 + 3 = 7", "gradient")
    parts += text(500, 78, "v = 9", "value") + text(470, 108, "dv = 1", "gradient")
    parts += arrow(632, 112, 720, 112) + text(674, 102, "L = 12", "value") + text(674, 134, "dL = 1", "gradient")
    return 740, 230, parts


def lesson_2_dense():
    """Element (0, 0) of dW is the product of column 0 of dy and column 0 of x."""
    column, first = [(0, 0), (1, 0)], [(0, 0)]
    dw = [["5", "-2", "3"], ["-5", "2", "-3"], ["1", "2", "-1"], ["3.5", "1", "0.5"]]
    parts = matrix(20, 40, "dy", [["-1", "1", "1", "0.5"], ["2", "-2", "0", "1"]], column)
    parts += matrix(240, 40, "x", [["1", "2", "-1"], ["3", "0", "1"]], marked2=column)
    parts += matrix(420, 40, "dW = dyᵀ x", dw, first)
    parts += text(190, 160, "dW[0][0] = -1 · 1 + 2 · 3 = 5", "value")
    parts += text(190, 184, "one term for each row, because each row uses W[0][0]", "note")
    return 560, 215, parts


def lesson_3_shapes():
    """Memory with six numbers, and the place that each element of z, t and s reads."""
    z = [4, 2, 6, -5, -4, -6]
    parts = matrix(200, 56, "memory of z", [z], [(0, 4)]) + text(168, 116, "place", "note")
    for place in range(6):
        parts += text(220 + 40 * place, 116, place, "note")
    place_of = {
        "z: place 3i + j": ([[0, 1, 2], [3, 4, 5]], [(1, 1)], 30),
        "t = zᵀ: place i + 3j": ([[0, 3], [1, 4], [2, 5]], [(1, 1)], 270),
        "s: place 2i + j": ([[0, 1], [2, 3], [4, 5]], [(2, 0)], 470),
    }
    for title, (places, marked, x) in place_of.items():
        parts += matrix(x, 172, title, [[z[place] for place in row] for row in places], marked)
    parts += text(320, 318, "One number, at place 4, is in z[1][1], t[1][1] and s[2][0].", "note")
    return 640, 335, parts


def lesson_4_softmax_cross_entropy():
    """Row 0: the probabilities p, the target y, and the gradient p - y."""
    bars = {"p": [0.125, 0.25, 0.625], "y": [0, 0, 1], "p − y": [0.125, 0.25, -0.375]}
    parts = ""
    for k, (title, values) in enumerate(bars.items()):
        x, zero = 30 + 210 * k, 160
        parts += text(x + 75, 24, title)
        for i, value in enumerate(values):
            height = abs(value) * 110
            top = zero - height if value > 0 else zero
            kind = "mark" if value > 0 else "mark2"
            parts += f'<rect x="{x + 50 * i + 10}" y="{top:g}" width="30" height="{height:g}" class="{kind}"/>\n'
            above = top - 6 if value >= 0 else zero + height + 18
            parts += text(x + 50 * i + 25, f"{above:g}", f"{value:g}", "note")
            parts += text(x + 50 * i + 25, 236, f"class {i}", "note")
        parts += f'<path d="M{x} {zero}h150" class="line"/>\n'
    return 640, 250, parts


def lesson_5_layer_norm_embedding():
    """The rows of dx for word 0 are added to row 0 of dtable; no row is added to row 1."""
    dx = [["0.18", "0.12", "-0.36", "0.06"], ["-1", "1", "-1", "1"], ["0.184", "0.216", "-0.088", "-0.312"]]
    dtable = [["0.364", "0.336", "-0.448", "-0.252"], ["0"] * 4, ["-1", "1", "-1", "1"]]
    rows = [[(row, column) for column in range(4)] for row in range(3)]
    parts = matrix(90, 40, "dx", dx, rows[0] + rows[2], rows[1], 56)
    parts += matrix(460, 40, "dtable", dtable, rows[0], rows[2], 56)
    for t, word in enumerate([0, 2, 0]):
        parts += text(48, 73 + 56 * t, f"word {word}", "note")
        parts += arrow(316, 68 + 56 * t, 456, 60 + 56 * word + 8 * t)
    return 700, 225, parts


def lesson_6_attention():
    """Query 0 is compared with all keys; its scores become weights; its output is the mean of the values."""
    q, k = [["1", "0"], ["0", "2"], ["1", "1"]], [["1", "0.5"], ["-1", "1.5"], ["0.5", "-1"]]
    v = [["1", "2"], ["3", "-1"], ["-2", "0.5"]]
    s = [["0.71", "-0.71", "0.35"], ["0.71", "2.12", "-1.41"], ["1.06", "0.35", "-0.35"]]
    a = [["0.51", "0.13", "0.36"], ["0.19", "0.79", "0.02"], ["0.58", "0.28", "0.14"]]
    o = [["0.17", "1.08"], ["2.50", "-0.39"], ["1.15", "0.94"]]
    row, all_rows = [(0, i) for i in range(3)], [(i, d) for i in range(3) for d in range(2)]
    steps = [("Q", q, row, 20), ("K", k, all_rows, 125), ("S = Q Kᵀ / √2", s, row, 265), ("A = softmax(S)", a, row, 435)]
    steps += [("V", v, all_rows, 605), ("O = A V", o, row, 745)]
    parts = text(425, 22, "forward, left to right: row 0 follows query 0", "note value")
    for title, rows, marked, x in steps:
        queries = title not in "KV"
        parts += matrix(x, 66, title, rows, marked if queries else (), () if queries else marked, 42)
    for start, end in (214, 258), (395, 429), (565, 599), (693, 739):
        parts += arrow(start, 129, end, 129)
    for words, x in ("dQ", 62), ("dK", 167), ("dS", 328), ("dA", 498), ("dV", 647), ("dO", 787):
        parts += text(x, 240, words, "gradient")
    parts += arrow(766, 235, 670, 235) + arrow(306, 235, 190, 235) + arrow(476, 235, 350, 235)
    parts += '<path d="M780 246C740 276 560 276 512 248" class="line" marker-end="url(#tip)"/>\n'
    parts += '<path d="M320 246C270 276 110 276 72 248" class="line" marker-end="url(#tip)"/>\n'
    parts += text(425, 300, "backward, right to left", "note gradient")
    return 850, 315, parts


def lesson_7_heads():
    """The columns of Q, K and V are divided between two heads, whose outputs stand side by side."""
    blank = [[""] * 4] * 3
    left, right = ([(t, i + shift) for t in range(3) for i in range(2)] for shift in (0, 2))
    parts = matrix(20, 90, "F", blank, size=26)
    for k, name in enumerate("QKV"):
        parts += matrix(190, 34 + 112 * k, name, blank, left, right, 22)
        middle = 67 + 112 * k
        parts += arrow(128, 129, 184, middle) + arrow(282, middle, 348, 100) + arrow(282, middle, 348, 230)
    parts += text(155, 268, "F Wᵀ", "note")
    for head, kind, y in (0, "mark", 65), (1, "mark2", 195):
        parts += f'<rect x="350" y="{y}" width="164" height="70" rx="6" class="{kind}"/>\n'
        parts += text(432, y + 24, f"head {head}")
        parts += text(432, y + 44, "scores, mask, softmax,", "note") + text(432, y + 60, "dropout, mean of V", "note")
        parts += arrow(514, y + 35, 566, 165 if head else 140)
    parts += matrix(572, 113, "O", blank, left, right, 26) + arrow(680, 152, 752, 152) + text(716, 142, "Woᵀ", "note")
    parts += matrix(758, 113, "Y", blank, size=26)
    parts += text(429, 350, "Each head reads its own two columns of Q, K and V, and writes the same columns of O.", "note")
    return 880, 370, parts


def lesson_9_memory():
    """A chain of 16 steps in segments of 4: the vectors in memory after forward, and before three parts of backward."""
    ends = [3, 7, 11, 15]
    rows = [
        ("after forward", ends, [], "4 vectors"),
        ("segment 3 again", ends, [12, 13, 14], "7 vectors and the gradient"),
        ("segment 2 again", ends[:3], [8, 9, 10], "6 vectors and the gradient"),
        ("segment 0 again", ends[:1], [0, 1, 2], "4 vectors and the gradient"),
    ]
    parts = text(410, 22, "blue: saved by forward, orange: computed again, empty: freed", "note")
    for i, (title, saved, again, total) in enumerate(rows):
        names = [f"x{j + 1}" if j in saved + again else "" for j in range(16)]
        y = 44 + 52 * i
        marked, marked2 = [(0, j) for j in saved], [(0, j) for j in again]
        parts += matrix(150, y, "", [names], marked, marked2, 32)
        parts += text(75, y + 21, title, "note") + text(755, y + 21, total, "note")
    for j in range(1, 4):
        parts += f'<path d="M{150 + 128 * j} 36V240" class="line"/>\n'
    return 850, 250, parts


def lesson_10_running_softmax():
    """Query 0: six scores in three tiles, and what is kept after each tile."""
    tiles = [["0.71", "-0.71"], ["0.35", "2.12"], ["0", "1.41"]]
    after = [["0.71", "1.24", "1.73", "1.76"], ["2.12", "1.47", "0.08", "1.51"], ["2.12", "2.09", "-0.29", "1.63"]]
    factors = ["0.2431", "1"]
    parts = ""
    for i, (tile, kept) in enumerate(zip(tiles, after)):
        x = 20 + 280 * i
        parts += matrix(x + 55, 40, f"scores of tile {i}", [tile], [(0, 0), (0, 1)], size=50)
        parts += arrow(x + 105, 94, x + 105, 128)
        parts += matrix(x, 160, "m, z, mix", [kept], (), [(0, j) for j in range(4)], 50)
        if i < 2:
            parts += arrow(x + 204, 185, x + 276, 185) + text(x + 240, 176, "z, mix", "note")
            parts += text(x + 240, 204, f"· {factors[i]}", "note")
    parts += text(390, 246, "The scores of a tile are forgotten. O = mix / z = (−0.1410, 0.7826)", "note")
    return 800, 262, parts


def main():
    stale = []
    for name, draw in sorted(globals().items()):
        if not name.startswith("lesson_"):
            continue
        width, height, parts = draw()
        title = draw.__doc__.split("\n")[0]
        size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<title>{title}</title>\n{STYLE}{parts}</svg>\n'
        path = HERE / (name.removeprefix("lesson_").replace("_", "-") + ".svg")
        if "--check" not in sys.argv:
            path.write_text(svg)
        elif not path.exists() or path.read_text() != svg:
            stale.append(path.name)
    if stale:
        sys.exit(f"teaching/lessons/images/draw.py draws these pictures differently: {', '.join(stale)}")


main()
