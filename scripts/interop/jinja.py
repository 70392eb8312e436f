"""Compares the interpreter of chat templates with transformers: the templates of TRL's package and of our kinds, 20
conversations each. The table at the end has a row for each package.

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


def compare_template(c, driver, name, template, counts):
    """Adds to the counts: templates, those that are equal in all conversations, texts of transformers, equal answers."""
    equal = rendered = 0
    for i, variables in enumerate(texts.conversations()):
        driver.stdin.write(json.dumps({"template": template, "context": variables, "now": NOW}) + "\n")
        driver.stdin.flush()
        ours, theirs = json.loads(driver.stdout.readline()), expected(template, variables)
        same = ("error" in ours) if theirs is None else ours == theirs
        c.check("same texts, generation blocks and errors", same, f"{name}, conversation {i}: {str(ours)[:300]}")
        equal += same
        rendered += theirs is not None
    for j, more in enumerate((1, equal == i + 1, rendered, equal)):
        counts[j] += more


def kinds(driver):
    """Returns {text: name} of our kinds."""
    made = json.loads(subprocess.run([driver, "kinds"], capture_output=True, check=True, text=True).stdout)
    return {text: f"kinds: {name}" for name, text in made.items()}


def compare(c):
    chat_templates.datetime = Clock
    folder = pathlib.Path(trl.__file__).parent / "chat_templates"
    program = c.build / "scripts" / "interop" / "jinja"
    found = {path.read_text(): f"TRL: {path.name}" for path in sorted(folder.glob("*.jinja"))}
    found.update(kinds(program))
    if PACKAGES:
        found = {**texts.gather(PACKAGES), **found}
    driver = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    table = {}
    for template, name in found.items():
        compare_template(c, driver, name, template, table.setdefault(name.split(":")[0], [0] * 4))
    driver.stdin.close()
    c.check("the driver ends", driver.wait() == 0)
    for package, counts in [*table.items(), ("all", [sum(column) for column in zip(*table.values())])]:
        print("jinja: %s: %d templates, %d equal in all conversations; transformers writes %d texts; %d answers are equal"
              % (package, *counts))


def fixtures(folder):
    (folder / "cases.jsonl").write_text("".join(line + "\n" for line in cases.lines()))


if __name__ == "__main__":
    common.main(compare, fixtures)
