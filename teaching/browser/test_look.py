"""How a page looks: themes, contrast, narrow windows, print; and what a screen reader reads."""

import base64
import os
import unittest

import browser
from test_first import MARK_FOCUS, PALE, UNREACHED

ATTENTION = """
const view = views[0], node = view.tape.nodes.find((n) => n.attention);
view.goTo(view.tape.positionOf(node));
pickScore(view, node, 0, 4, 2);
"""

# Returns the least contrast between the text and the background of a table's cells.
CONTRAST = """
const luminance = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map((x) => x / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratios = [...document.querySelectorAll("table.numbers td[data-i]")].map((cell) => {
    const style = getComputedStyle(cell), [a, b] = [style.color, style.backgroundColor].map(luminance);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
});
return [ratios.length, Math.min(...ratios)];
"""

# Returns the elements that a printed page of this width would cut off.
CUT = """
const width = arguments[0], found = [];
for (const element of document.querySelectorAll(".viewer *")) {
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    if (style.display === "none" || style.visibility === "hidden" || box.width === 0 || element.closest(".unseen, .marks, details:not([open])"))
        continue;
    if (box.right > width + 1)
        found.push(`${element.tagName}.${element.className} ends at ${box.right}`);
    if (!["visible", "clip"].includes(style.overflowX) && element.scrollWidth > element.clientWidth + 1)
        found.push(`${element.tagName}.${element.className} scrolls`);
}
return found.slice(0, 5);
"""

# Returns the number of matrices, and what those with a horizontal scrollbar show.
SCROLLING = """
const boxes = [...document.querySelectorAll(".viewer .scroll")];
return [boxes.length, boxes.filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.textContent)];
"""
PRINTED_WIDTH = 688  # pixels: A4 without margins of 14 mm

NAMED_ROLES = {"button", "combobox", "slider", "checkbox", "application", "treeitem", "tree", "table", "spinbutton", "image"}


class Look(browser.PageTest):
    def test_narrow_windows_do_not_scroll_sideways(self):
        for name in browser.pages():
            self.open(name)
            self.run_script("views.forEach((view) => view.goTo(1e9))")
            for width in (320, 360, 768, 1024):
                self.window(width, 800)
                wide = self.run_script("return document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width, f"{name} is {wide} pixels wide in a window of {width}")

    def test_small_matrices_have_no_scrollbar(self):
        self.window(1400, 1000)
        for name in ("attention_1.html", "attention_2.html"):
            self.open(name)
            self.run_script(ATTENTION.replace("4, 2", "1, 0"))
            count, wide = self.run_script(SCROLLING)
            self.assertGreater(count, 10)
            self.assertEqual(wide, [], name)

    def test_contrast_of_numbers(self):
        for theme in ("light", "dark"):
            self.theme(theme)
            for name in ("fused.html", "rules.html", "attention_2.html", "sections.html"):
                self.open(name)
                self.run_script("views.forEach((view) => view.goTo(1e9))")
                count, least = self.run_script(CONTRAST)
                self.assertGreater(count, 0)
                self.assertGreaterEqual(least, 4.5, f"{name}, {theme}")

    def test_contrast_of_texts(self):
        for theme in ("light", "dark"):
            self.theme(theme)
            for name in ("attention_1.html", "model.html", "rules.html", "sections.html"):
                self.open(name)
                self.run_script("views.forEach((view) => view.goTo(1e9));"
                                "document.querySelectorAll('details').forEach((details) => (details.open = true))")
                count, pale = self.run_script(PALE)
                self.assertGreater(count, 20, name)
                self.assertEqual(pale, [], f"{name}, {theme}")

    def test_everything_is_reached_by_keyboard(self):
        self.open("attention_1.html")
        self.run_script(ATTENTION.replace("4, 2", "1, 0"))
        for _ in range(300):
            self.press(browser.Keys.TAB)
            if self.run_script(MARK_FOCUS):
                break
        self.assertEqual(self.run_script(UNREACHED), [])

    def test_themes(self):
        drawn = "return [...new Set([...document.querySelectorAll('canvas.heat')].map((c) => c.dataset.drawn).filter(Boolean))]"
        background = "return getComputedStyle(document.body).backgroundColor"
        self.open("model.html")
        self.theme("dark")
        self.picture("model_dark")
        self.assertEqual(self.run_script(drawn), ["dark"])
        self.assertEqual(self.run_script(background), "rgb(20, 23, 29)")
        self.run_script("setTheme('light')")
        self.picture("model_light")
        self.assertEqual(self.run_script(drawn), ["light"])
        self.assertEqual(self.run_script(background), "rgb(255, 255, 255)")

    def test_pictures(self):
        for theme in ("light", "dark"):
            self.theme(theme)
            for name in ("model", "attention_2", "copy", "rules"):
                for label, width, height in (("wide", 1400, 2400), ("narrow", 360, 2400)):
                    self.window(width, height)
                    self.open(name + ".html")
                    self.run_script("views[0].goTo(views[0].tape.forwardSteps + 5)" if name == "rules" else ATTENTION)
                    self.picture(f"{name}_{theme}_{label}")

    def test_picture_of_the_page(self):
        """Attention and its gradients: docs/looking-inside.md has the picture as docs/images/tape_page.png."""
        self.theme("light")
        self.window(1100, 976)
        self.open("attention_1.html")
        self.run_script("const view = views[0], node = view.tape.nodes.find((n) => n.attention);"
                        "view.goTo(view.tape.positionOf(node))")
        self.assertIn("Largest deviation", self.find(".details").text)
        self.picture("tape_page", ".attention-panel")

    def test_names_for_screen_readers(self):
        self.open("model.html")
        self.run_script(ATTENTION)
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        roles = {}
        for node in nodes:
            role = node.get("role", {}).get("value")
            if not node.get("ignored") and role in NAMED_ROLES:
                roles[role] = roles.get(role, 0) + 1
                self.assertTrue(node.get("name", {}).get("value"), f"a {role} has no name")
        self.assertLessEqual({"button", "combobox", "slider", "checkbox", "application", "treeitem", "tree"}, set(roles))
        self.assertEqual(self.find(".sentence").get_attribute("aria-live"), "polite")
        self.assertIn("backward step", self.find(".track input").get_attribute("aria-valuetext"))

    def test_print(self):
        for name in browser.pages():
            if name == "long.html":
                continue  # its numbers are of no use on paper
            self.open(name)
            self.run_script("views.forEach((view) => view.goTo(1e9))")
            if name not in ("rules.html", "sections.html", "cropped.html"):
                self.run_script(ATTENTION)
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
            self.window(PRINTED_WIDTH, 1000)
            self.assertEqual(self.run_script(CUT, PRINTED_WIDTH), [], name)
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
            pdf = self.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": False})["data"]
            if browser.PICTURES:
                with open(os.path.join(browser.PICTURES, name.replace(".html", ".pdf")), "wb") as file:
                    file.write(base64.b64decode(pdf))

    def test_a_page_that_cannot_be_shown_says_so(self):
        self.driver.get("data:text/html,<p>empty")
        self.open("rules.html")
        said = self.run_script(
            "const section = document.createElement('section'), script = document.createElement('script');"
            "script.type = 'application/json'; script.textContent = '{\"version\": 9}'; section.append(script);"
            "document.body.append(section); openSection(script); return section.textContent")
        self.assertIn("This tape cannot be shown: the data has version 9, and this viewer reads version 2.", said)


if __name__ == "__main__":
    unittest.main()
