"""The site (scripts/site.sh): walks all links from its index, without a network. TAPEHEAD_SITE is its folder."""

import base64
import os
import unittest
from urllib.parse import quote, unquote, urlsplit

import browser
from test_first import PALE

SITE = os.environ.get("TAPEHEAD_SITE")

# Returns the links, the pictures that are not shown, and what a page would load from elsewhere.
LOOK = """
const links = [...document.querySelectorAll("a[href]")].map((a) => a.href);
const lost = [...document.querySelectorAll("img")].filter((img) => !img.complete || img.naturalWidth === 0).map((img) => img.src);
const loaded = performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => !/^(file|data|blob):/.test(name));
return [links, lost, loaded, [...document.querySelectorAll("[id]")].map((element) => element.id)];
"""


@unittest.skipUnless(SITE, "TAPEHEAD_SITE is not set")
class Site(browser.PageTest):
    def load(self, path):
        self.driver.get("file://" + quote(os.path.join(SITE, path)))

    def test_all_links(self):
        waiting, seen, anchors, ids = ["index.html"], set(), set(), {}
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue
            seen.add(path)
            self.load(path)
            links, lost, loaded, ids[path] = self.run_script(LOOK)
            self.assertEqual(lost, [], f"{path}: pictures that are not shown")
            self.assertEqual(loaded, [], f"{path} loads something from elsewhere")
            self.assertTrue(self.run_script("return document.title"), path)
            self.assertEqual(self.driver.get_log("browser"), [], path)
            self.assertEqual(self.run_script(PALE)[1], [], f"{path}: pale texts")
            for link in sorted(set(links)):
                parts = urlsplit(link)
                self.assertEqual(parts.scheme, "file", f"{path}: {link}")
                target = os.path.relpath(unquote(parts.path), SITE)
                self.assertTrue(os.path.isfile(os.path.join(SITE, target)), f"{path}: {link} leads nowhere")
                waiting.append(target)
                if parts.fragment:
                    anchors.add((path, target, unquote(parts.fragment)))
        for path, target, anchor in anchors:
            self.assertIn(anchor, ids[target], f"{path}: {target} has no such heading")
        written = {os.path.relpath(os.path.join(folder, name), SITE) for folder, _, names in os.walk(SITE) for name in names if name.endswith(".html")}
        self.assertEqual(written - seen, set(), "pages that no link leads to")
        print(f"{len(seen)} pages, {len(anchors)} links to headings", flush=True)

    def test_look(self):
        for theme in ("light", "dark"):
            self.theme(theme)
            for path in ("index.html", "lessons/4-softmax-cross-entropy.html", "lessons/6-attention.html", "lessons/6_attention.c.html", "exercises/index.html"):
                for width in (360, 1000):
                    self.window(width, 1200)
                    self.load(path)
                    self.assertLessEqual(self.run_script("return document.documentElement.scrollWidth"), width, path)
                    self.picture(f"site_{path.replace('/', '_').removesuffix('.html')}_{theme}_{width}")
                count, pale = self.run_script(PALE)
                self.assertGreater(count, 10)
                self.assertEqual(pale, [], f"{path}, {theme}")

    def test_lessons_and_exercises_lead_to_each_other(self):
        self.load("lessons/4-softmax-cross-entropy.html")
        self.find("a[href$='exercises/4_softmax.c.html']").click()
        self.find("a[href$='class.html#exercise-4']").click()
        self.assertIn("Exercise 4", self.find(".exercise-task h3").text)
        self.find(".exercise-task a").click()
        self.assertIn("softmax", self.find("h1").text)

    def test_formulas(self):
        self.load("lessons/4-softmax-cross-entropy.html")
        heights = self.run_script("return [...document.querySelectorAll('math[display=block]')].map((m) => m.getBoundingClientRect().height)")
        self.assertGreater(len(heights), 3)
        self.assertGreater(min(heights), 10)

    def test_print(self):
        self.load("lessons/6-attention.html")
        pdf = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
        self.assertGreater(len(pdf), 10000)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        self.window(660, 1000)  # A4 without its margins
        self.assertLessEqual(self.run_script("return document.documentElement.scrollWidth"), 660)
        self.assertFalse(self.find(".top").is_displayed())
        if browser.PICTURES:
            with open(os.path.join(browser.PICTURES, "site_lesson_6.pdf"), "wb") as file:
                file.write(pdf)


if __name__ == "__main__":
    unittest.main()
