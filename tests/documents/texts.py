"""texts.py SOURCE: the texts of the class's page (teaching/class/page/texts.json). Each has an English and a Chinese version with the
same places {name}; each is used; the page and its scripts use no other key; page.html has no text of its own."""

import json
import pathlib
import re
import sys
from html.parser import HTMLParser

folder = pathlib.Path(sys.argv[1]) / "teaching" / "class" / "page"
problems = []


def unique(pairs):
    keys = [key for key, _ in pairs]
    problems.extend(f"{key} is there twice" for key in set(keys) if keys.count(key) > 1)
    return dict(pairs)


texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"), object_pairs_hook=unique)
html = (folder / "page.html").read_text(encoding="utf-8")
scripts = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.js")}
rules = re.findall(r'\] = \{"([^"]+)", "', (folder.parent / "wrong_rules.c").read_text(encoding="utf-8"))
SAME = {"path.h", "path.logits", "of"}  # names and numbers, equal in both languages

for key, versions in texts.items():
    if len(versions) != 2 or not all(isinstance(text, str) and text.strip() for text in versions):
        problems.append(f"{key} exists in one language only")
        continue
    english, chinese = versions
    if sorted(re.findall(r"\{\w+\}", english)) != sorted(re.findall(r"\{\w+\}", chinese)):
        problems.append(f"{key} has different places in the two languages")
    if key not in SAME and not re.search("[\u4e00-\u9fff]", chinese):
        problems.append(f"{key} is not Chinese: {chinese}")
    if re.search("[\u4e00-\u9fff]", english):
        problems.append(f"{key} is not English: {english}")


class Page(HTMLParser):
    """Finds the keys of page.html, and texts that are not in the file."""

    def __init__(self):
        super().__init__()
        self.keys, self.silent = set(), 0

    def handle_starttag(self, tag, attributes):
        self.silent += tag in ("style", "script", "title", "noscript")
        for name, value in attributes:
            if name in ("data-text", "data-label"):
                self.keys.add(value)
            elif name in ("aria-label", "title", "alt", "placeholder"):
                problems.append(f"page.html has a text in {name}: {value}")

    def handle_endtag(self, tag):
        self.silent -= tag in ("style", "script", "title", "noscript")

    def handle_data(self, data):
        data = re.sub("@[A-Z]+@", "", data)  # which assemble.cmake replaces
        if not self.silent and re.search("[^\\W\\d_]", data):
            problems.append(f"page.html has a text of its own: {data.strip()}")


page = Page()
page.feed(html)
used = page.keys | {"title.page", "noscript"}
source = "\n".join(scripts.values())
used |= {text for text in re.findall(r'"([^"\n]*)"', source) if text in texts}
for prefix in re.findall(r"`([a-z.]+\.)\$\{", source):  # keys that scripts compose
    used |= {key for key in texts if key.startswith(prefix)}
used |= {f"mask.{name}.says" for name in ("causal", "none", "window")}
problems += [f"nothing uses {key}" for key in texts if key not in used]
problems += [f"page.html uses {key}, which has no text" for key in page.keys if key not in texts]
for name, text in scripts.items():
    for key in re.findall(r'(?:\bsay|textOf|label|makeText)\([^"\n;]*"([a-z][\w.]*)"', text):
        if key not in texts and "." in key:
            problems.append(f"{name} uses {key}, which has no text")
problems += [f"the rule {rule} has no text" for rule in rules for key in (f"rule.{rule}", f"rule.{rule}.says") if key not in texts and rule != "right"]
tour = re.findall(r'\{ name: "(\w+)", target', scripts.get("tour.js", ""))
problems += [f"the tour has no text tour.{step}" for step in tour for key in (f"tour.{step}", f"tour.{step}.title") if key not in texts]
if len(tour) < 10 or len(rules) < 5:
    problems.append("the steps of the tour or the wrong rules were not found")
print("\n".join(problems) or f"{len(texts)} texts in two languages")
sys.exit(bool(problems))
