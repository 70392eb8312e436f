"""Compares the interpreter of chat templates with transformers: the templates of TRL's package, 20 conversations each.

    PACKAGES=FOLDER scripts/interop.sh jinja    FOLDER: wheels and source archives whose templates are compared too"""
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

import common
import transformers.utils.chat_template_utils as chat_templates
import trl

sys.path.insert(0, str(common.HERE / "templates"))
import cases
import texts

NOW = int(time.time())
PACKAGES = os.environ.get("PACKAGES")


class Clock(datetime.datetime):
    @classmethod
    def now(cls, zone=None):
        return datetime.datetime.fromtimestamp(NOW, zone)


def expected(template, variables):
    """Returns the text and the spans of transformers; None for an error."""
    try:
        compiled = chat_templates._compile_jinja_template(template)
        text, spans = chat_templates._render_with_assistant_indices(compiled, **variables)
    except Exception:  # the sandbox's, jinja2's and Python's own
        return None
    return {"text": text, "spans": [[len(text[:i].encode()) for i in span] for span in spans]}


def compare_template(c, driver, name, template):
    for i, variables in enumerate(texts.conversations()):
        driver.stdin.write(json.dumps({"template": template, "context": variables, "now": NOW}) + "\n")
        driver.stdin.flush()
        ours, theirs = json.loads(driver.stdout.readline()), expected(template, variables)
        c.check("same texts, generation blocks and errors", ("error" in ours) if theirs is None else ours == theirs,
                f"{name}, conversation {i}: {str(ours)[:300]}")


def compare(c):
    chat_templates.datetime = Clock
    folder = pathlib.Path(trl.__file__).parent / "chat_templates"
    found = {path.read_text(): path.name for path in sorted(folder.glob("*.jinja"))}
    if PACKAGES:
        found.update(texts.gather(PACKAGES))
    driver = subprocess.Popen([c.build / "scripts" / "interop" / "jinja"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
    for template, name in found.items():
        compare_template(c, driver, name, template)
    driver.stdin.close()
    c.check("the driver ends", driver.wait() == 0)
    print(f"jinja: {len(found)} templates")


def fixtures(folder):
    (folder / "cases.jsonl").write_text("".join(line + "\n" for line in cases.lines()))


if __name__ == "__main__":
    common.main(compare, fixtures)
