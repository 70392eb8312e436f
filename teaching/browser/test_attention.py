"""The attention panel: a click on dS explains it, and hovering marks tokens."""

import os
import re
import unittest

import browser
import page_file
from selenium.webdriver.common.action_chains import ActionChains

KINDS = "return [...document.querySelectorAll('.kind')].map((kind) => kind.dataset.kind)"


class Attention(browser.PageTest):
    def open_at_end(self, name):
        self.open(name)
        self.run_script("views[0].goTo(1e9)")

    def matrices(self, name):
        """Returns the arrays of the attention node."""
        data = page_file.sections(os.path.join(browser.PAGES, name))[0]
        return next(node["attention"] for node in data["nodes"] if node["attention"])

    def click_cell(self, symbol, head, i, j):
        """Clicks a cell of a table or of a heat map with the mouse."""
        x, y = self.run_script(
            "const [key, i, j] = arguments, box = views[0].attentionBoxes[key], cell = box.querySelector(`td[data-i='${i}'][data-j='${j}']`);"
            "(cell || box).scrollIntoView({ block: 'center', inline: 'center' });"
            "if (cell) { const r = cell.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }"
            "const r = box.getBoundingClientRect(), g = mapGeometry(box.matrix, { ...box.options });"
            "return [r.x + g.margin + (j + 0.5) * g.cellWidth, r.y + g.margin + (i + 0.5) * g.cellHeight]", f"{symbol} {head}", i, j)
        actions = ActionChains(self.driver)
        actions.w3c_actions.pointer_action.move_to_location(round(x), round(y)).click()
        actions.perform()

    def result(self, line):
        text = self.find(f".line[data-line='{line}'] .result").text
        return float(text.removeprefix("= "))

    def check_explanation(self, name, head, i, j):
        """Clicks dS[i, j] and compares the explanation with the library's numbers."""
        stored = self.matrices(name)
        leading = [0] * (len(stored["weights"]["shape"]) - 3) + [head]
        a, da, ds = (page_file.matrix(stored[key], leading) for key in ("weights", "dweights", "dscores"))
        self.click_cell("dS", head, i, j)
        mean = sum(x * y for x, y in zip(a[i], da[i]))
        for line, expected in ((f"dS[{i},{j}]", ds[i][j]), ("Σ A dA", mean), (f"A[{i},{j}]", a[i][j])):
            self.assertAlmostEqual(self.result(line), expected, delta=1e-3 * abs(expected) + 1e-9, msg=line)
        text = self.find(f".line[data-line='dS[{i},{j}]']").text
        self.assertIn("A (dA − Σ A dA)", text)
        weight, gradient = (float(x) for x in re.search(r"= ([-\d.e]+) · \(([-\d.e]+) −", text).groups())
        self.assertAlmostEqual(weight, a[i][j], delta=1e-3 * abs(a[i][j]) + 1e-9)
        self.assertAlmostEqual(gradient, da[i][j], delta=1e-3 * abs(da[i][j]) + 1e-9)

    def test_click_on_a_table(self):
        self.open_at_end("fused.html")
        self.check_explanation("fused.html", 1, 4, 2)
        marked = self.run_script(
            "return Object.fromEntries(Object.entries(views[0].attentionBoxes).map(([key, box]) =>"
            "[key, [...box.querySelectorAll('[class*=pick-]')].map((cell) => `${cell.dataset.i},${cell.dataset.j}`)]))")
        self.assertEqual(marked["dS 1"], ["4,2"])
        self.assertEqual(marked["dA 1"], [f"4,{k}" for k in range(5)])
        self.assertEqual(marked["A 1"], [f"4,{k}" for k in range(5)])
        self.assertEqual(marked["dO 1"], [f"4,{k}" for k in range(3)])
        self.assertEqual(marked["V 1"], [f"2,{k}" for k in range(3)])
        self.assertEqual(marked["dS 0"], [])
        self.press(browser.Keys.ESCAPE)
        self.assertFalse(self.find(".explanation").is_displayed())
        self.assertEqual(self.find_all("[class*=pick-]"), [])

    def test_click_on_a_heat_map(self):
        self.open_at_end("model.html")
        self.check_explanation("model.html", 2, 50, 20)
        self.assertIn("head 2", self.find(".explanation h4").text)
        self.assertEqual(len(self.find_all("[data-kind=J] canvas")), 1)

    def test_composed_attention_has_the_same_matrices(self):
        self.open_at_end("fused.html")
        fused = self.run_script(KINDS)
        self.open_at_end("composed.html")
        composed = self.run_script(KINDS)
        self.assertEqual([kind for kind in fused if kind != "P"], composed)
        self.assertEqual(composed, ["Q", "K", "V", "S", "mask", "A", "O", "dO", "dV", "dA", "dS", "dQ", "dK"])
        self.check_explanation("composed.html", 0, 3, 1)

    def test_before_backward_there_are_no_gradients(self):
        self.open("fused.html")
        self.assertNotIn("dS", self.run_script(KINDS))
        self.find("[data-key='jump attention']").click()
        self.assertIn("dS", self.run_script(KINDS))

    def test_scales_are_shared(self):
        self.open_at_end("model.html")
        scales = self.run_script("return Object.fromEntries([...document.querySelectorAll('.kind')].map((kind) =>"
                                 "[kind.dataset.kind, kind.querySelector('.scale').textContent]))")
        self.assertEqual(len({scales[kind] for kind in ("dO", "dV", "dA", "dS", "dQ", "dK")}), 1)

    def test_hovering_a_token_marks_it_everywhere(self):
        self.open_at_end("model.html")
        token = self.find("[data-token='7']")
        self.run_script("arguments[0].scrollIntoView({ block: 'center' })", token)
        ActionChains(self.driver).move_to_element(token).perform()
        bands = self.run_script("return Object.fromEntries(Object.entries(views[0].attentionBoxes).map(([key, box]) =>"
                                "[key, box.querySelectorAll('.hover .band').length]))")
        for head in range(4):
            self.assertEqual(bands[f"A {head}"], 2)
            self.assertEqual(bands[f"dS {head}"], 2)
            self.assertEqual(bands[f"V {head}"], 1)
        ActionChains(self.driver).move_to_element(self.find("h2")).perform()
        self.assertEqual(self.find_all(".hover .band"), [])


if __name__ == "__main__":
    unittest.main()
