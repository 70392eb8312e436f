"""The class's page (scripts/class.sh): training in the browser equals training in the terminal; wrong rules; the path of one
number; the tape. TAPEHEAD_CLASS is class.html, TAPEHEAD_COPY_TASK the program of this processor."""

import os
import re
import shlex
import subprocess
import time
import unittest
from urllib.parse import quote

import browser

CLASS = os.environ.get("TAPEHEAD_CLASS")
COPY_TASK = os.environ.get("TAPEHEAD_COPY_TASK")
PATIENCE = 60 * float(os.environ.get("TAPEHEAD_SLOWER", "1"))  # seconds

# Returns the numbers in the table of the path: what a cell's title has in all digits.
PATH = """
return [...document.querySelectorAll("#follow [data-place=path] tr")].map((row) => {
    const number = (i) => row.cells[i].title === "" ? null : Number(row.cells[i].title);
    return { name: row.cells[0].textContent, value: number(1), factor: number(2), carried: number(3), gradient: number(4) };
});
"""

# Returns the gradient of the sum of embeddings and positions that the tape has, at a position and an element; nothing if the
# array is cropped there.
TAPE_GRADIENT = """
const { tape } = views[0];
const sum = tape.nodes.find((node) => node.op === "add"), { gradient } = tape.tensors[sum.outputs[0]];
const [rows, columns] = gradient.shape.slice(-2);
return arguments[0] < rows && arguments[1] < columns ? numbersOf(gradient)[arguments[0] * columns + arguments[1]] : null;
"""


def seconds_of_children(root):
    """Returns the processor seconds of all processes below `root`."""
    parents, seconds = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it ended
            continue
        parents[int(name)] = int(fields[1])
        seconds[int(name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(seconds.get(pid, 0) for pid in below)


@unittest.skipUnless(CLASS, "TAPEHEAD_CLASS is not set")
class Class(browser.PageTest):
    def setUp(self):
        self.driver.get("file://" + quote(CLASS))
        self.run_script("document.querySelectorAll('details').forEach((details) => (details.open = true))")
        self.wait("the first path", "return document.querySelectorAll('#follow [data-place=path] tr').length > 2")
        self.wait("the checker's report", "return document.querySelector('#rules [data-place=check-wrong]').textContent")

    def wait(self, what, script):
        """Waits until a script returns a true value."""
        end = time.monotonic() + PATIENCE
        while not self.run_script(script):
            self.assertLess(time.monotonic(), end, f"{what}: not after {PATIENCE:.0f} s. {self.problems()}")
            time.sleep(0.1)

    def text(self, part, place):
        return self.run_script("return document.querySelector(arguments[0]).textContent", f"#{part} [data-place={place}]")

    def click(self, part, name):
        self.run_script("document.querySelector(arguments[0]).click()", f"#{part} button[name={name}]")

    def problems(self):
        return self.run_script("return [...document.querySelectorAll('.problem:not([hidden])')].map((p) => p.textContent).join()")

    def set(self, name, value):
        """Changes a setting: a field's number, or the place on a slider or in a menu. Waits for the engine."""
        self.run_script("""
            const field = document.querySelector(`[name=${arguments[0]}]`);
            field.value = arguments[1];
            field.dispatchEvent(new Event("input", { bubbles: true }));
            field.dispatchEvent(new Event("change", { bubbles: true }));""", name, value)
        time.sleep(0.5)

    def train(self):
        self.click("train", "run")
        self.wait("the last step", "return document.querySelector('#train [data-place=status]').textContent.includes('complete')")
        self.assertEqual(self.problems(), "")

    def check_command(self):
        """Runs the command that the page shows, and compares the checksum."""
        command = shlex.split(self.text("train", "command"))
        at = command.index("copy_task")
        variables = dict(word.split("=") for word in command[:at])
        output = subprocess.run([COPY_TASK, *command[at + 1:], "--quiet", "--threads", "1", "--out", "/tmp"], check=True,
                                env={**os.environ, **variables}, capture_output=True, text=True).stdout
        expected = re.search(r"parameters_crc32c=(\w+)", output)[1]
        self.assertEqual(self.text("train", "crc"), expected, output)

    def test_the_copy_task_reaches_100_percent(self):
        begin, cpu = time.monotonic(), seconds_of_children(self.driver.service.process.pid)
        self.train()
        cpu = seconds_of_children(self.driver.service.process.pid) - cpu
        print(f"400 steps: {cpu:.1f} processor seconds, {time.monotonic() - begin:.1f} s", flush=True)
        self.assertEqual(self.text("train", "symbols"), "100 %")
        self.assertEqual(self.text("train", "writes"), self.text("train", "reads"))
        self.assertEqual(self.text("train", "right"), "16 of 16 right")
        self.check_command()
        self.picture("class_trained")

    def test_other_settings_equal_the_terminal(self):
        for name, value in (("heads", 1), ("width", 1), ("dropout", 0), ("rate", 6), ("seed", 7), ("length", 5), ("symbols", 9),
                            ("batch", 8), ("steps", 50)):
            self.set(name, value)
        for _ in range(3):
            self.click("train", "step")
        self.click("follow", "back")  # looking changes no number
        self.click("tape", "show")
        self.wait("the tape", "return views.length === 1")
        self.train()
        self.assertEqual(self.text("train", "steps"), "50 of 50")
        for option in ("--heads 2", "--width 32", "--dropout 0", "--lr 0.01", "--seed 7", "--vocab 9"):
            self.assertIn(option, self.text("train", "command"))
        self.check_command()

    def test_a_change_in_the_training_is_said(self):
        self.click("train", "step")
        self.wait("a step", "return document.querySelector('#train [data-place=steps]').textContent.startsWith('1 ')")
        self.set("dropout", 4)
        self.wait("the sentence", "return document.querySelector('#train [data-place=command-note]').textContent.includes('at step 1')")
        self.assertEqual(self.text("train", "command"), "")
        self.click("train", "reset")
        self.wait("the reset", "return document.querySelector('#train [data-place=command]').textContent.includes('--dropout 0.3')")

    def test_every_wrong_rule_is_found(self):
        rules = self.run_script("return [...document.querySelector('[name=rule]').options].map((option) => option.value)")
        self.assertGreaterEqual(len(rules), 4)
        for rule in rules:
            self.run_script("document.querySelector('#rules [data-place=check-wrong]').textContent = ''")
            self.set("rule", rule)
            self.wait("the report", "return document.querySelector('#rules [data-place=check-wrong]').textContent")
            self.assertIn("wrong", self.text("rules", "check-wrong"))
            self.assertNotIn("wrong", self.text("rules", "check-right"))
            self.assertNotEqual(self.text("rules", "right"), self.text("rules", "wrong"))
        self.assertEqual(self.problems(), "")

    def test_a_wrong_rule_trains_worse(self):
        self.set("steps", 100)
        self.wait("new engines", "return document.querySelector('#rules [data-place=status]').textContent.includes('as in part 1')")
        self.click("rules", "run")
        self.wait("both engines", "return document.querySelector('#rules button[name=run]').disabled")
        right, wrong = map(float, re.findall(r"the loss is (\S+) at step 100", self.text("rules", "status")))
        self.assertLess(right, wrong / 2)
        self.picture("class_rules")

    def test_the_path_of_a_number(self):
        compared = 0
        for position, element in ((0, 0), (3, 5), (20, 63)):
            self.set("element", element)
            self.run_script(f"document.querySelectorAll('#follow [data-place=tokens] button')[{position}].click()")
            self.wait("the path", f"return document.querySelector('#follow [data-place=path] th').textContent.includes('T={position}, E={element}')")
            path = self.run_script(PATH)
            self.assertTrue(path[0]["name"].startswith("embedding"), path[0]["name"])
            self.assertTrue(path[-1]["name"].startswith("loss"))
            product = 1
            for entry, after in zip(path, path[1:]):
                self.assertAlmostEqual(entry["carried"], entry["factor"] * after["gradient"], delta=1e-6 * abs(entry["carried"]))
                product *= entry["factor"]
            self.assertEqual(path[-1]["gradient"], 1)
            said = float(re.search(r"factors is (\S+):", self.text("follow", "sum"))[1])
            self.assertAlmostEqual(product, said, delta=1e-3 * abs(product))
            self.click("tape", "show")
            self.wait("the tape", "return views.length === 1 && !document.querySelector('#tape button').disabled")
            on_tape = self.run_script(TAPE_GRADIENT, position, element)
            if on_tape is not None:
                self.assertAlmostEqual(path[0]["gradient"], on_tape, delta=1e-5 * abs(path[0]["gradient"]))
                compared += 1
        self.assertGreaterEqual(compared, 2)

    def test_errors_are_sentences(self):
        self.set("sequence", "COPY")
        said = self.find("#follow .problem")
        self.assertEqual(said.get_attribute("role"), "alert")
        self.assertIn("16", said.text)
        self.set("sequence", "COPYCOPYCOPYCOPY")
        self.wait("no error", "return document.querySelector('#follow .problem').hidden")

    def test_steps_of_the_path_with_the_keyboard(self):
        self.run_script("document.querySelector('[name=walk]').focus()")
        self.press(browser.Keys.HOME)
        self.assertIn("Forward: embedding", self.text("follow", "sentence"))
        self.press(browser.Keys.END)
        self.assertIn("Backward:", self.text("follow", "sentence"))

    def test_narrow_windows_themes_and_paper(self):
        self.click("tape", "show")
        self.wait("the tape", "return views.length === 1")
        for width in (320, 400, 768, 1280, 1700):
            self.window(width, 900)
            self.assertLessEqual(self.run_script("return document.documentElement.scrollWidth"), width)
        for theme, width in (("light", 1280), ("dark", 1280), ("light", 400)):
            self.theme(theme)
            for part in ("train", "rules", "follow", "tape"):
                self.window(width, 1400)
                self.run_script("document.getElementById(arguments[0]).scrollIntoView()", part)
                self.picture(f"class_{theme}_{width}_{part}")
        self.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})

    def test_one_theme_for_the_page_and_the_tape(self):
        menus = "return [...document.querySelectorAll('.theme select')].map((menu) => menu.selectedOptions[0].text)"
        drawn = "return [...new Set([...document.querySelectorAll('canvas.heat')].map((c) => c.dataset.drawn).filter(Boolean))]"
        choose = ("const menu = document.querySelectorAll('.theme select')[arguments[0]];"
                  "menu.value = arguments[1]; menu.dispatchEvent(new Event('change'))")
        self.theme("light")
        self.run_script("document.getElementById('train').scrollIntoView()")
        self.wait("the heads", "return document.querySelectorAll('canvas.heat[data-drawn]').length > 0")
        self.run_script(choose, 0, 2)
        self.assertEqual(self.run_script(drawn), ["dark"])
        self.click("tape", "show")
        self.wait("the tape", "return views.length === 1")
        self.assertEqual(self.run_script(menus), ["dark", "dark"])
        self.run_script(choose, 1, 1)
        self.assertEqual(self.run_script(menus), ["light", "light"])
        self.wait("light maps", drawn + ".join() === 'light'")

    def test_names_for_screen_readers(self):
        named = {"button", "combobox", "slider", "spinbutton", "textbox", "application", "table", "image"}
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        shown = [node for node in nodes if not node.get("ignored") and node.get("role", {}).get("value") in named]
        self.assertEqual([node for node in shown if not node.get("name", {}).get("value")], [])
        self.assertLessEqual(named - {"table"}, {node["role"]["value"] for node in shown})


if __name__ == "__main__":
    unittest.main()
