"""The class's page as a reader meets it: the first screen, the tour, both languages, the keyboard, contrast. TAPEHEAD_CLASS is
class.html."""

import os
import time
import unittest
from urllib.parse import quote

import browser

CLASS = os.environ.get("TAPEHEAD_CLASS")
PATIENCE = 60 * float(os.environ.get("TAPEHEAD_SLOWER", "1"))  # seconds

# What the first screen shows.
FIRST = [".lead", "#train button[name=run]", "#train [data-place=reads]", "#train [data-place=writes]", "#train [data-place=loss]",
         "#train [data-place=heads] .head:first-child canvas", "#train [data-place=heads] .head:last-child canvas"]

# Returns how dark the cells of the diagonal are in the map that has the darkest ones. A map has 16 rows, 32 columns and 14 pixels of labels.
DIAGONAL = """
return Math.max(...[...document.querySelectorAll("#train canvas.heat")].map((canvas) => {
    const { width, height } = canvas, { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    let dark = 0;
    for (let i = 0; i < 16; i++) {
        const x = Math.round(14 + (i + 0.5) * (width - 14) / 32), y = Math.round(14 + (i + 0.5) * (height - 14) / 16);
        dark += (255 - data[4 * (y * width + x)]) / 16;
    }
    return dark;
}));
"""

# Returns the texts that are not in texts.json, and those without a value: {cols}. In the language "marked" each text of the file stands
# between ⟦ and ⟧.
UNMARKED = r"""
const found = [];
const check = (text, where) => {
    const rest = text.replace(/⟦[^⟦⟧]*(⟦[^⟦⟧]*⟧[^⟦⟧]*)*⟧/g, "");
    if (/\p{L}{2,}/u.test(rest) || /\{\w+\}/.test(text))
        found.push(`${where}: ${rest.trim()}`);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!parent.closest("script, noscript, style, [lang]:not(html), [translate=no]"))
        check(walker.currentNode.textContent, parent.tagName);
}
for (const element of document.querySelectorAll("main [aria-label], main [title], main [placeholder], main [alt]"))
    if (!element.closest("[lang]:not(html)"))
        for (const name of ["aria-label", "title", "placeholder", "alt"])
            check(element.getAttribute(name) || "", name);
return found;
"""

# Returns the texts whose contrast with their background is below 4.5, or 3 if they are large. The symbol of a node's state stands on a
# disc, which is not the background of an element.
PALE = r"""
const channel = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
const parse = (color) => (color.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
const luminance = ([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
const backgroundOf = (element) => {
    for (let e = element; e; e = e.parentElement) {
        const color = parse(getComputedStyle(e).backgroundColor);
        if (color.length === 3 || color[3] > 0.99)
            return color;
    }
    return [255, 255, 255];
};
const found = [], seen = new Set();
let count = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (seen.has(e) || !walker.currentNode.textContent.trim() || !e.getClientRects().length || e.closest(".unseen, :disabled, .hidden-value, .hidden-gradient, script, option, svg .state"))
        continue;
    seen.add(e);
    count++;
    const style = getComputedStyle(e);
    const [a, b] = [e.closest("svg") ? style.fill : style.color].map(parse).concat([backgroundOf(e)]).map(luminance);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5))
        found.push(`${e.tagName} "${e.textContent.trim().slice(0, 30)}": ${ratio.toFixed(2)}`);
}
return [count, found];
"""

# Returns the visible controls that have not been reached: arguments[0] is a list of data-reached marks.
UNREACHED = """
return [...document.querySelectorAll("main :is(button, select, input, textarea, a, summary, [tabindex='0'])")]
    .filter((e) => e.getClientRects().length && !e.disabled && !e.dataset.reached && e.tabIndex >= 0)
    .map((e) => `${e.tagName} ${e.name || e.textContent.slice(0, 20)}`);
"""
MARK_FOCUS = "document.activeElement.dataset.reached = 'yes'; return document.activeElement === document.body"

WALK = {  # what the reader does in the tour's steps
    "run": "document.querySelector('#train button[name=run]').click()",
    "touch": "document.querySelector('#train .map').focus()",
    "both": "document.querySelector('#rules button[name=run]').click()",
    "forward": "const walk = document.querySelector('[name=walk]'); walk.value = Math.floor(walk.max / 2); walk.dispatchEvent(new Event('input'))",
    "backward": "document.querySelector('#follow button[name=all]').click()",
}


@unittest.skipUnless(CLASS, "TAPEHEAD_CLASS is not set")
class First(browser.PageTest):
    def load(self, width=1280, height=720):
        self.window(width, height)
        self.driver.get("file://" + quote(CLASS))
        self.wait("the first path", "document.querySelectorAll('#follow [data-place=path] tr').length > 2 &&"
                  "document.querySelector('#rules [data-place=check-wrong]').textContent")

    def setUp(self):
        self.driver.get("file://" + quote(CLASS))
        self.run_script("localStorage.clear()")

    def tearDown(self):
        self.run_script("localStorage.clear()")
        super().tearDown()

    def wait(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not self.run_script("return " + condition):
            self.assertLess(time.monotonic(), end, f"{what}: not after {PATIENCE:.0f} s")
            time.sleep(0.1)

    def train(self):
        self.run_script("document.querySelector('#train button[name=run]').click()")
        self.wait("the diagonal", "document.querySelector('#train [data-place=symbols]').textContent === '100 %'")

    def test_the_first_screen(self):
        for width, height in ((1280, 720), (400, 800)):
            self.load(width, height)
            for trained in (False, True):
                if trained:
                    self.train()
                for selector in FIRST:
                    top, bottom, left, right = self.run_script(
                        "const r = document.querySelector(arguments[0]).getBoundingClientRect(); return [r.top, r.bottom, r.left, r.right]", selector)
                    self.assertTrue(0 <= top < bottom <= height and 0 <= left < right <= width,
                                    f"{selector} is at {top:.0f} to {bottom:.0f} in a window of {width} x {height}")
                self.assertEqual(self.run_script("return scrollY"), 0)
                self.picture(f"first_{width}_{'trained' if trained else 'new'}")
            self.assertFalse(self.run_script("return document.querySelector('[data-place=fold-settings]').open"))
            diagonal = self.run_script(DIAGONAL)
            self.assertGreater(diagonal, 150, "no map shows a diagonal")

    def test_at_most_three_tabs_to_run(self):
        self.load()
        for tabs in range(1, 4):
            self.press(browser.Keys.TAB)
            if self.run_script("return document.activeElement.name === 'run'"):
                break
        self.assertEqual(self.run_script("return document.activeElement.name"), "run")
        self.press(browser.Keys.ENTER)
        self.wait("a step", "document.querySelector('#train [data-place=steps]').textContent.startsWith('0') === false")

    def test_every_text_is_in_the_file(self):
        self.load()
        self.run_script("document.querySelectorAll('details').forEach((details) => (details.open = true))")
        self.run_script("document.querySelector('button[name=tour]').click()")
        self.run_script("setLanguage('marked')")
        steps = self.run_script("return TOUR.length")
        for step in range(steps):
            self.run_script("TOUR[arguments[0]].trained = false; document.querySelector('#tour button[name=next]').disabled = false", step)
            self.assertEqual(self.run_script(UNMARKED), [], f"step {step + 1} of the tour")
            if step < steps - 1:
                self.run_script("const next = document.querySelector('#tour button[name=next]'); next.disabled = false; next.click()")
        self.run_script("setLanguage('marked')")
        self.train()
        self.run_script("document.querySelector('#tour button[name=close]').click();"
                        "document.querySelector('#train .map').focus(); document.querySelector('#tape button').click()")
        self.wait("the tape", "views.length === 1")
        self.assertEqual(self.run_script(UNMARKED), [])
        self.run_script("document.querySelector('#follow button[name=all]').click()")
        self.assertEqual(self.run_script(UNMARKED), [])

    def test_chinese(self):
        self.load()
        self.run_script("const menu = document.querySelector('select[name=language]'); menu.value = 1; menu.dispatchEvent(new Event('change'))")
        self.assertEqual(self.find("#train button[name=run]").text, "运行")
        self.assertEqual(self.run_script("return document.documentElement.lang"), "zh-CN")
        for width, height in ((1280, 720), (400, 800)):
            self.window(width, height)
            self.assertLessEqual(self.run_script("return document.documentElement.scrollWidth"), width)
            self.picture(f"first_{width}_chinese")
        self.load()
        self.assertEqual(self.find("#train button[name=run]").text, "运行", "the language is forgotten")

    def walk_tour(self, label):
        for step in range(self.run_script("return TOUR.length")):
            name = self.run_script("return TOUR[arguments[0]].name", step)
            self.assertEqual(self.run_script("return document.querySelectorAll('.tour-target').length"), 1)
            self.picture(f"tour_{label}_{step + 1:02}_{name}")
            if self.find_all("#tour .choices button"):
                self.assertFalse(self.find("#tour button[name=next]").is_enabled(), "the tour does not wait for the prediction")
                self.run_script("document.querySelector('#tour .choices button').click()")
            if name in WALK:
                self.assertFalse(self.find("#tour button[name=next]").is_enabled(), f"the tour does not wait at {name}")
                time.sleep(0.3)
                self.run_script("window.pressed = document.querySelector('#tour button[name=next]');" + WALK[name])
            self.wait(f"step {name} of the tour", "!document.querySelector('#tour button[name=next]').disabled")
            self.assertTrue(self.run_script("return !window.pressed || window.pressed.isConnected"), f"{name} replaces the button that a reader presses")
            box = self.run_script("const r = document.querySelector('#tour').getBoundingClientRect(); return [r.top, r.bottom, innerHeight]")
            self.assertTrue(0 <= box[0] and box[1] <= box[2], "the tour leaves the window")
            self.picture(f"tour_{label}_{step + 1:02}_{name}_done")
            self.run_script("window.pressed = null; document.querySelector('#tour button[name=next]').click()")
        self.assertFalse(self.find("#tour").is_displayed())

    def test_the_tour(self):
        for label, width, height, theme, language in (("light", 1280, 720, "light", "en"), ("dark_chinese", 1280, 720, "dark", "zh"),
                                                      ("narrow", 400, 800, "light", "en")):
            self.theme(theme)
            self.load(width, height)
            self.run_script("setLanguage(arguments[0]); document.querySelector('button[name=tour]').click()", language)
            self.walk_tour(label)

    def test_the_tour_survives_a_reload(self):
        self.load()
        self.run_script("document.querySelector('button[name=tour]').click()")
        for _ in range(2):
            if self.find_all("#tour .choices button"):
                self.run_script("document.querySelector('#tour .choices button').click()")
            self.run_script("document.querySelector('#tour button[name=next]').click()")
        title = self.find("#tour h2").text
        self.load()
        self.assertEqual(self.find("#tour h2").text, title)
        self.run_script("document.querySelector('#tour button[name=previous]').click()")
        self.assertEqual(len(self.find_all("#tour .choices [aria-pressed=true]")), 1, "the prediction is forgotten")
        self.run_script("for (let i = 0; i < 5; i++) { const next = document.querySelector('#tour button[name=next]'); next.disabled = false; next.click(); }")
        self.load()
        self.assertIn("press run", self.find("#tour .said").text.lower())

    def test_contrast(self):
        for theme in ("light", "dark"):
            self.theme(theme)
            self.load()
            self.run_script("document.querySelectorAll('details').forEach((details) => (details.open = true));"
                            "document.querySelector('button[name=tour]').click()")
            count, pale = self.run_script(PALE)
            self.assertGreater(count, 100)
            self.assertEqual(pale, [], theme)

    def test_everything_is_reached_by_keyboard(self):
        self.load()
        self.run_script("document.querySelectorAll('details').forEach((details) => (details.open = true))")
        for _ in range(300):
            self.press(browser.Keys.TAB)
            if self.run_script(MARK_FOCUS):
                break
            if self.driver.switch_to.active_element.tag_name == "textarea":  # in the editor Tab indents
                self.press(browser.Keys.ESCAPE)
        self.assertEqual(self.run_script(UNREACHED), [])

    def test_first_paint(self):
        self.load()
        paint = self.run_script("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
        print(f"first paint of class.html: {paint:.0f} ms", flush=True)
        self.assertLess(paint, 1000 * float(os.environ.get("TAPEHEAD_SLOWER", "1")))


if __name__ == "__main__":
    unittest.main()
