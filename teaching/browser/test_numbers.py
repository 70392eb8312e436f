"""The numbers that the page shows as text are the library's."""

import math
import os
import unittest

import browser
import page_file

FIGURE = """
const [section, id, kind] = arguments, view = views[section];
view.allDigits = true;
view.select({ tensor: view.tape.tensors[id] });
const figure = view.parts.details.querySelector(`[data-figure="${kind} ${id}"]`);
if (!figure)
    return null;
figure.querySelector("details.around")?.setAttribute("open", "");
figure.querySelector("details.around")?.dispatchEvent(new Event("toggle"));
return [...figure.querySelectorAll("table.numbers tbody tr")].map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent));
"""
LARGE = 300  # tensors; of a longer tape, only the first are read


def same(text, expected):
    """Returns whether a text is this number."""
    number = float(text)
    return math.isnan(expected) if math.isnan(number) else number == expected


def single(number):
    """Rounds a number to float32."""
    return page_file.array.array("f", [number])[0]


class Numbers(browser.PageTest):
    def check(self, section, tensor, kind, stored):
        """Compares the table of a figure with the array."""
        rows = self.run_script(FIGURE, section, tensor, kind)
        self.assertIsNotNone(rows, f"tensor {tensor} has no {kind}")
        expected = page_file.matrix(stored, [0] * 8)
        if not expected or not expected[0]:
            self.assertEqual(rows, [])
            return 0
        rounded = single if stored["type"] == "float32" else float
        for row, numbers in zip(rows, expected):
            for text, number in zip(row, numbers):
                self.assertTrue(same(rounded(float(text)), number), f"{kind} of tensor {tensor}: {text} is not {number}")
        self.assertTrue(rows and rows[0])
        return sum(len(row) for row in rows)

    def test_values_gradients_and_differences(self):
        compared = 0
        for name in browser.pages():
            self.open(name)
            for section, data in enumerate(page_file.sections(os.path.join(browser.PAGES, name))):
                self.run_script("views[arguments[0]].goTo(1e9)", section)
                for id_, tensor in list(enumerate(data["tensors"]))[:LARGE]:
                    for kind in ("value", "gradient", "difference"):
                        if tensor[kind] and (kind == "value" or tensor["requires_gradient"]):
                            compared += self.check(section, id_, kind, tensor[kind])
        self.assertGreater(compared, 3000)
        print(f"{compared} numbers of {len(browser.pages())} pages compared", flush=True)

    def test_computed_matrices_of_attention(self):
        """The viewer computes large matrices of attention. Here Python computes some rows again, from Q, K, V and dO."""
        for name in ("long.html", "grouped.html"):
            self.open(name)
            data = page_file.sections(os.path.join(browser.PAGES, name))[0]
            node = next(node for node in data["nodes"] if node["attention"])
            inside = node["attention"]
            self.assertTrue(inside["scores"]["computed"])
            self.run_script("views[0].goTo(1e9)")
            tensors = [data["tensors"][i] for i in node["inputs"][:3]] + [data["tensors"][node["outputs"][0]]]
            heads = inside["heads"]
            mask = page_file.numbers(inside["mask"])
            dropped = inside["dropped"] and page_file.numbers(inside["dropped"])
            queries, keys = inside["scores"]["shape"][-2:]
            for head, i in ((0, 0), (heads - 1, 1), (heads - 1, queries // 2), (0, queries - 1)):
                own = [[0, head * tensor["shape"][1] // heads] for tensor in tensors]
                q, k, v = (page_file.matrix(tensor["value"], at) for tensor, at in zip(tensors[:3], own))
                dout = page_file.matrix(tensors[3]["gradient"], own[3])
                begin = (head * queries + i) * keys
                seen = [mask[begin + j] for j in range(keys)]
                dots = lambda row, rows: [sum(x * y for x, y in zip(row, other)) if s else 0 for other, s in zip(rows, seen)]
                scores = [inside["scale"] * x for x in dots(q[i], k)]
                exponentials = [math.exp(x) if s else 0 for x, s in zip(scores, seen)]
                weights = [x / sum(exponentials) for x in exponentials]
                dweights = dots(dout[i], v)
                if dropped:
                    factors = [dropped[begin + j] / weights[j] if weights[j] else 0 for j in range(keys)]
                    self.assertLess(max(min(abs(f), abs(f - max(factors))) for f in factors), 1e-6, "a factor of dropout is not 0 or 1 / (1 - p)")
                    dweights = [x * f for x, f in zip(dweights, factors)]
                mean = sum(x * y for x, y in zip(weights, dweights))
                dscores = [a * (d - mean) for a, d in zip(weights, dweights)]
                for key, expected in (("scores", scores), ("weights", weights), ("dweights", dweights), ("dscores", dscores)):
                    shown = self.run_script("const [key, begin, end] = arguments;"
                                            "return [...numbersOf(views[0].attention.attention[key]).subarray(begin, end)]", key, begin, begin + keys)
                    self.assertLess(max(abs(a - b) for a, b in zip(shown, expected)), 1e-9, f"{name}: {key}, head {head}, row {i}")

    def test_readout_of_a_heat_map(self):
        self.open("model.html")
        data = page_file.sections(os.path.join(browser.PAGES, "model.html"))[0]
        node = next(i for i, node in enumerate(data["nodes"]) if node["attention"])
        self.run_script("views[0].select({ node: views[0].tape.nodes[arguments[0]] })", node)
        for i, j in ((0, 0), (63, 1), (40, 40)):
            text = self.run_script("views[0].attentionBoxes['A 2'].focus(); const [i, j] = arguments;"
                                   "const key = (name) => views[0].attentionBoxes['A 2'].dispatchEvent("
                                   "new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }));"
                                   "for (let k = 0; k < 64; k++) { key('ArrowUp'); key('ArrowLeft'); }"
                                   "for (let k = 0; k < i; k++) key('ArrowDown');"
                                   "for (let k = 0; k < j; k++) key('ArrowRight');"
                                   "return views[0].parts.attentionReadout.textContent", i, j)
            expected = page_file.matrix(data["nodes"][node]["attention"]["weights"], [0, 2])[i][j]
            place, number = text.split(" = ")
            self.assertEqual(place, f"A[{i}, {j}]")
            self.assertEqual(single(float(number)), expected)

    def test_special_numbers(self):
        self.open("sections.html")
        rows = self.run_script(FIGURE, 0, 0, "value")
        self.assertEqual(rows[0][:3], ["nan", "inf", "-inf"])
        self.assertIn("No numbers: the shape is 0 × 3.", self.run_script(
            "const view = views[0]; view.select({ tensor: view.tape.tensors.find((t) => t.name === 'empty') });"
            "return view.parts.details.textContent"))

    def test_cropped_arrays_say_so(self):
        self.open("cropped.html")
        text = self.run_script("views[0].select({ tensor: views[0].tape.tensors[0] }); return views[0].parts.details.textContent")
        self.assertRegex(text, r"The page has \d+ × \d+ of 40 × 30 numbers")


if __name__ == "__main__":
    unittest.main()
