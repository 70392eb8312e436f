"""Steps forward and backward, with the mouse and with the keyboard alone."""

import os
import unittest

import browser
import page_file

STATES = "return [...document.querySelectorAll('[data-parameter]')].map((row) => row.dataset.state)"


class Steps(browser.PageTest):
    def position(self):
        return int(self.find(".tapehead").get_attribute("data-position"))

    def test_after_the_last_step_every_parameter_has_its_gradient(self):
        checked = 0
        for name in browser.pages():
            self.open(name)
            for section, data in enumerate(page_file.sections(os.path.join(browser.PAGES, name))):
                steps = sum(node["order"] >= 0 for node in data["nodes"]) if data["backward"] else 0
                root = self.find_all(".tapehead")[section]
                for step in range(len(data["nodes"]), len(data["nodes"]) + steps + 1):
                    self.assertEqual(int(root.get_attribute("data-position")), step)
                    root.find_element(browser.By.CSS_SELECTOR, "[data-key=next]").click()
                for tensor, stored in enumerate(data["tensors"]):
                    if stored["node"] >= 0 or not stored["gradient"]:
                        continue
                    row = root.find_element(browser.By.CSS_SELECTOR, f"[data-parameter='{tensor}']")
                    self.assertEqual(row.get_attribute("data-state"), "complete")
                    self.assertTrue(row.find_elements(browser.By.CSS_SELECTOR, "td:nth-child(4) :is(canvas, .number)"))
                    checked += 1
        self.assertGreater(checked, 30)

    def test_each_step_shows_its_node(self):
        self.open("rules.html")
        data = page_file.sections(os.path.join(browser.PAGES, "rules.html"))[0]
        order = {node["order"]: i for i, node in enumerate(data["nodes"]) if node["order"] >= 0}
        for step in range(len(order)):
            self.find("[data-key=next]").click()
            node = data["nodes"][order[step]]
            details = self.find(".details").text
            self.assertIn(f"node {order[step]}", details)
            self.assertIn(node["gradient"], details)
            for contribution in node["contributions"]:
                figure = self.find(f"[data-contribution='{contribution['input']}'] .how")
                self.assertIn({"view": "a view"}.get(contribution["how"], contribution["how"]), figure.text)
                if contribution["summed"]:
                    self.assertIn("summed over", figure.text)
        self.assertIn("Backward is complete.", self.find(".sentence").text)

    def test_start_of_backward_is_visible(self):
        for name in ("rules.html", "attention_1.html"):
            self.open(name)
            data = page_file.sections(os.path.join(browser.PAGES, name))[0]
            before = self.find(".sentence").text
            self.find("[data-key=middle]").click()
            self.assertEqual(self.position(), len(data["nodes"]) + 1)
            self.assertNotEqual(self.find(".sentence").text, before)
            self.assertIn("Backward begins at the loss.", self.find(".sentence").text)
            first = next(i for i, node in enumerate(data["nodes"]) if node["order"] == 0)
            self.assertIn(f"node {first}", self.find(".details h3").text)

    def test_attention_comes_first(self):
        self.window(1280, 720)
        self.open("attention_1.html")
        top, bottom = self.run_script("const box = document.querySelector('[data-kind=A]').getBoundingClientRect(); return [box.top, box.bottom]")
        self.assertTrue(0 < top < bottom < 720, "the weights are not on the first screen")
        self.assertIn("softmax", self.find(".details h3").text)

    def test_nodes_show_names_and_numbers(self):
        """A scalar's value appears when its node has run, and its gradient when backward has computed it."""
        self.open("rules.html")
        data = page_file.sections(os.path.join(browser.PAGES, "rules.html"))[0]
        loss = next(i for i, node in enumerate(data["nodes"]) if data["tensors"][node["outputs"][0]]["name"] == "loss")
        text = lambda: self.run_script("return [...document.querySelectorAll(`[data-node='${arguments[0]}'] text`)].map((t) => t.textContent)", loss)
        value = page_file.numbers(data["tensors"][data["nodes"][loss]["outputs"][0]]["value"])[0]
        self.run_script("views[0].goTo(0)")
        self.assertEqual([line for line in text() if line.startswith(("value", "grad"))], [])
        self.run_script("views[0].goTo(views[0].tape.forwardSteps - 1)")
        self.run_script("views[0].goTo(1e9)")
        shown = text()
        self.assertEqual(shown[0], "loss = sum")
        self.assertAlmostEqual(float(shown[1].removeprefix("value ")), value, delta=1e-3 * abs(value))
        self.assertEqual(shown[2], "grad 1")
        c = next(i for i, tensor in enumerate(data["tensors"]) if tensor["name"] == "c")
        leaf = self.run_script("return [...document.querySelectorAll(`.leaf[data-tensor='${arguments[0]}'] text`)].map((t) => t.textContent)", c)
        gradient = page_file.numbers(data["tensors"][c]["gradient"])[0]
        self.assertAlmostEqual(float(leaf[2].removeprefix("grad ")), gradient, delta=1e-3 * abs(gradient))

    def test_steps_back_undo(self):
        self.open("rules.html")
        before = self.run_script(STATES)
        for _ in range(30):
            self.find("[data-key=next]").click()
        self.assertNotEqual(self.run_script(STATES), before)
        self.find("[data-key=middle]").click()
        self.assertEqual(self.run_script(STATES), before)
        self.find("[data-key=first]").click()
        self.assertEqual(self.position(), 0)
        self.assertIn("Nothing has run yet.", self.find(".sentence").text)

    def test_partial_sums(self):
        """The sums so far of a tensor with several uses end at its gradient."""
        self.open("rules.html")
        sums = self.run_script(
            "const view = views[0], tensor = view.tape.tensors.find((t) => t.contributions.length > 1 && t.users.length > 1);"
            "const states = [];"
            "for (view.goTo(view.tape.forwardSteps); view.position <= view.tape.steps; view.position++)"
            "  states.push(view.tape.gradientState(tensor, view.position));"
            "const last = addArrays(tensor.contributions.map((c) => c.gradient));"
            "return [states, largestDeviation(last, tensor.gradient).deviation]")
        self.assertEqual(sorted(set(sums[0])), ["complete", "partial", "waiting"])
        self.assertLess(sums[1], 1e-12)

    def test_keyboard_alone(self):
        self.open("model.html")
        start = self.position()
        self.press(browser.Keys.ARROW_RIGHT, browser.Keys.ARROW_RIGHT, browser.Keys.ARROW_LEFT)
        self.assertEqual(self.position(), start + 1)
        self.press(browser.Keys.END)
        self.assertEqual(set(self.run_script(STATES)), {"complete"})
        for _ in range(90):
            self.press(browser.Keys.TAB)
            if self.run_script("return document.activeElement.getAttribute('role')") == "treeitem":
                break
        self.assertEqual(self.run_script("return document.activeElement.getAttribute('role')"), "treeitem")
        outline = self.run_script("return getComputedStyle(document.activeElement.querySelector('rect')).strokeWidth")
        self.assertEqual(outline, "3.5px", "the focus is not visible")
        self.press(browser.Keys.ARROW_DOWN, browser.Keys.ARROW_DOWN)
        seen = set()
        while not self.run_script("return document.activeElement.dataset.box"):
            self.press(browser.Keys.ARROW_DOWN)
            self.assertNotIn(self.run_script("return document.activeElement.dataset.key"), seen)
            seen.add(self.run_script("return document.activeElement.dataset.key"))
        box = self.run_script("return document.activeElement.dataset.box")
        self.press(browser.Keys.ENTER)
        self.assertEqual(self.run_script("return document.activeElement.dataset.box"), box, "the box lost the focus")
        self.assertEqual(self.run_script("return document.activeElement.getAttribute('aria-expanded')"), "false")
        self.press(browser.Keys.ENTER)
        self.assertEqual(self.run_script("return document.activeElement.getAttribute('aria-expanded')"), "true")
        while not self.run_script("return document.activeElement.dataset.node"):
            self.press(browser.Keys.ARROW_DOWN)
        node = self.run_script("return document.activeElement.dataset.node")
        self.press(browser.Keys.ENTER)
        self.assertIn(f"node {node}", self.find(".details h3").text)

    def test_sections_are_independent(self):
        self.open("sections.html")
        first, second = self.find_all(".tapehead")
        second.find_element(browser.By.CSS_SELECTOR, "[data-key=last]").click()
        self.assertEqual(first.get_attribute("data-position"), "2")
        self.assertEqual(second.get_attribute("data-position"), "4")
        self.assertEqual(len(first.find_elements(browser.By.CSS_SELECTOR, "[data-key=middle]")), 0)
        self.assertIn("This page has no backward.", first.text)


if __name__ == "__main__":
    unittest.main()
