"""The exercises in the class's page: every one can be solved in the editor; all typical mistakes get the sentences of
teaching/exercises/teacher.md; errors point at a line; the lines survive a reload; the keyboard; narrow windows.
TAPEHEAD_CLASS is class.html."""

import os
import pathlib
import re
import subprocess
import time
import unittest
from urllib.parse import quote

import browser
from test_first import PALE, UNMARKED
from selenium.webdriver.common.action_chains import ActionChains

CLASS = os.environ.get("TAPEHEAD_CLASS")
PATIENCE = 60 * float(os.environ.get("TAPEHEAD_SLOWER", "1"))  # seconds
FOLDER = pathlib.Path(__file__).parent.parent / "exercises"
FILES = {int(path.name.split("_")[0]): path for path in FOLDER.glob("[0-9]*.c")}

# Marks sources, one after the other, in one engine.
MARK = """
const [number, name, sources] = arguments, done = arguments[arguments.length - 1];
const engine = startEngine();
(async () => {
    const reports = [];
    for (const source of sources)
        reports.push(await engine.ask("mark", number, name, source));
    engine.worker.terminate();
    done(reports);
})();
"""


def solution(number):
    return (FOLDER / "tests/solutions" / f"{FILES[number].stem}.txt").read_text()


def mistakes(number):
    """Returns the lines of each typical mistake: the solution, changed by a sed script of mistakes.txt."""
    scripts, mine = [], False
    for line in (FOLDER / "tests/mistakes.txt").read_text().splitlines():
        if re.match(r"\d+ ", line):
            mine = line.startswith(f"{number} ")
            if mine:
                scripts.append([])
        elif mine and line.startswith("    "):
            scripts[-1].append(line[4:])
    return [subprocess.run(["sed", "-e", "\n".join(script)], input=solution(number), capture_output=True, text=True, check=True).stdout
            for script in scripts]


def sentences(number):
    """Returns the sentences of teacher.md about the mistakes of an exercise."""
    page = (FOLDER / "teacher.md").read_text()
    part = re.search(rf"^## {number}:.*?(?=^## |\Z)", page, re.S | re.M)[0]
    return [row.split(" | ", 1)[1].removesuffix(" |") for row in re.findall(r"^\| .*", part, re.M)[1:]]


def filled(number, lines):
    text = FILES[number].read_text()
    begin = text.index("\n", text.index("---- your lines")) + 1
    end = text.rindex("\n", 0, text.index("---- end of your lines")) + 1
    return text[:begin] + lines + text[end:]


@unittest.skipUnless(CLASS, "TAPEHEAD_CLASS is not set")
class Exercises(browser.PageTest):
    def setUp(self):
        self.driver.get("file://" + quote(CLASS))
        self.run_script("localStorage.clear()")
        self.driver.refresh()
        self.wait("the first exercise", "return document.querySelector('#exercises textarea')")

    def wait(self, what, script):
        """Waits until a script returns a true value."""
        end = time.monotonic() + PATIENCE
        while not (value := self.run_script(script)):
            self.assertLess(time.monotonic(), end, f"{what}: not after {PATIENCE:.0f} s")
            time.sleep(0.05)
        return value

    def choose(self, number):
        self.run_script("document.querySelectorAll('.exercise-list button')[arguments[0]].click()", number)

    def write(self, lines):
        self.run_script("""const area = document.querySelector('#exercises textarea');
                           area.value = arguments[0]; area.dispatchEvent(new Event('input'))""", lines)

    def status(self):
        return self.find("#exercises .sentence").text

    def mark(self):
        """Runs the lines. Returns the status line and the result."""
        self.run_script("document.querySelector('#exercises [name=run]').click()")
        self.wait("the marks", "return /\\d+ of \\d+ marks/.test(document.querySelector('#exercises .sentence').textContent)")
        return self.status(), self.find("#exercises .exercise-result").text

    def test_every_exercise_can_be_solved(self):
        for number in sorted(FILES):
            self.choose(number)
            self.write(solution(number))
            begin = time.monotonic()
            status, result = self.mark()
            print(f"exercise {number}: {time.monotonic() - begin:.1f} s", flush=True)
            self.assertIn("passed", status, result)
        self.assertIn("solved all", self.status())
        self.assertEqual(self.run_script("return document.querySelectorAll('.exercise-list .solved').length"), len(FILES))

    def test_typical_mistakes_get_the_sentences_of_the_teachers_page(self):
        self.driver.set_script_timeout(10 * PATIENCE)
        for number in sorted(FILES):
            sources = [filled(number, lines) for lines in mistakes(number)]
            reports = self.driver.execute_async_script(MARK, number, FILES[number].name, sources)
            self.assertEqual([report["summary"] for report in reports], sentences(number), f"exercise {number}")
            self.assertFalse(any(report["passed"] for report in reports))

    def test_a_mistake_names_its_cause_and_its_line(self):
        self.choose(4)
        self.write("for (int64_t n = 0; n < N; n++)\n    for (int64_t j = 0; j <= C; j++)\n        at(dx, n, j) += 1;\n")
        _, result = self.mark()
        self.assertIn("an index is outside the array", result)
        line = int(re.search(r"4_softmax\.c, line (\d+): at\(dx, n, j\)", result)[1])
        self.assertEqual(self.find(".gutter .bad").text.strip(), str(line))
        self.assertEqual(FILES[4].read_text().splitlines()[line - 3].strip()[:8], "NOT_YET;")
        self.find("#exercises [name=line]").click()
        self.assertEqual(self.run_script("const area = document.activeElement;"
                                         "return area.value.slice(area.selectionStart, area.selectionEnd)"), "        at(dx, n, j) += 1;")

    def test_the_smallest_check_that_failed(self):
        self.choose(4)
        self.write(solution(4).replace("(at(dy, n, j) - sum)", "at(dy, n, j)"))
        status, result = self.mark()
        self.assertIn("1 of 12 marks: wrong", status)
        self.assertIn("Likely cause: dx is y dy: the sum over the row is missing", result)
        self.assertIn("two small rows\ndx[0,2] should be 0.690791 and is 1.32225", result)
        self.assertEqual(result.count("should be"), 1)

    def test_errors_of_the_language(self):
        self.choose(4)
        for lines, said in (("at(dx, 0, 0) = y[0];", "element i of a is at(a, i), not a[i]"),
                            ("switch (N) { default: ; }", "use if and else"),
                            ("double s; at(dx, 0, 0) = s;", "s is read before it has a value"),
                            ("double a[2]; for (int i = 0; i < 3; i++) a[i] = 0;", "an index of an array that you declared"),
                            ("for (;;) ;", "a loop never ends")):
            self.write(lines)
            _, result = self.mark()
            self.assertIn(said, result)
            self.assertTrue(self.find_all(".gutter .bad"), lines)

    def test_printing(self):
        self.choose(1)
        self.write('printf("N is %lld\\n", N);' + solution(1))
        _, result = self.mark()
        self.assertIn("N is 5", result)

    def test_the_lines_survive_a_reload(self):
        self.choose(3)
        self.write("/* mine */ at(dx, 0, 0) = 1;")
        self.driver.refresh()
        self.assertEqual(self.find("#exercises textarea").get_property("value"), "/* mine */ at(dx, 0, 0) = 1;")
        self.assertIn("Exercise 3", self.find(".exercise-task h3").text)
        self.run_script("document.querySelector('#exercises [name=reset]').click()")
        self.assertNotIn("mine", self.find("#exercises textarea").get_property("value"))

    def test_the_keyboard(self):
        keys = browser.Keys
        self.choose(1)
        self.write("")
        area = self.find("#exercises textarea")
        area.send_keys("if (N > 0) {", keys.ENTER, "return;", keys.ENTER, keys.SHIFT, keys.TAB, keys.NULL, "}")
        self.assertEqual(area.get_property("value"), "if (N > 0) {\n    return;\n}")
        area.send_keys(keys.TAB)
        self.assertTrue(area.get_property("value").endswith("}    "))
        ActionChains(self.driver).key_down(keys.CONTROL).send_keys(keys.ENTER).key_up(keys.CONTROL).perform()
        self.wait("the marks", "return /of 12 marks/.test(document.querySelector('#exercises .sentence').textContent)")
        area.send_keys(keys.ESCAPE, keys.TAB)
        self.assertEqual(self.driver.switch_to.active_element.get_attribute("class") or "", "exercise-code")

    def test_an_engine_that_is_stopped(self):
        self.choose(1)
        self.write("for (;;) ;")
        self.run_script("const b = document.querySelector('#exercises [name=run]'); b.click(); b.click()")
        self.assertEqual(self.status(), "Stopped.")
        self.write(solution(1))
        self.assertIn("passed", self.mark()[0])

    def test_narrow_windows_and_themes(self):
        self.choose(4)
        self.write(solution(4).replace("- sum", "+ sum"))
        self.mark()
        for width in (320, 400, 768, 1280, 1700):
            self.window(width, 900)
            self.assertLessEqual(self.run_script("return document.documentElement.scrollWidth"), width)
        for theme, width in (("light", 1280), ("dark", 1280), ("light", 400), ("dark", 400)):
            self.theme(theme)
            self.window(width, 1400)
            self.run_script("document.getElementById('exercises').scrollIntoView()")
            self.picture(f"exercises_{theme}_{width}")

    def test_contrast(self):
        for theme in ("light", "dark"):
            self.theme(theme)
            self.choose(1)
            self.write(solution(1))
            self.mark()
            self.choose(4)
            for lines, parts in (('printf("N is %lld\\n", N);' + solution(4).replace("- sum", "+ sum"), (".solved", ".complaint", ".check-list .right", ".check-list .wrong")),
                                 (solution(4).replace("at(dx, n, j)", "at(dx, n, j + 1)"), (".complaint [name=line]", ".gutter .bad"))):
                self.write(lines)
                self.mark()
                self.run_script("document.querySelectorAll('#exercises details').forEach((details) => (details.open = true))")
                for part in parts:
                    self.assertTrue(self.find_all(f"#exercises {part}"), part)
                count, pale = self.run_script(PALE)
                self.assertGreater(count, 100)
                self.assertEqual(pale, [], theme)

    def test_languages(self):
        self.choose(4)
        self.write(solution(4).replace("- sum", "+ sum"))
        self.mark()
        self.wait("the other parts", "return document.querySelectorAll('#follow [data-place=path] tr').length > 2 &&"
                  "document.querySelector('#rules [data-place=check-wrong]').textContent")
        self.run_script("document.querySelectorAll('#exercises details').forEach((details) => (details.open = true)); setLanguage('marked')")
        self.assertEqual(self.run_script(UNMARKED), [])
        self.run_script("setLanguage('zh')")
        self.assertIn("12 分中得 1 分：有错", self.status())
        self.assertEqual(self.find("#exercises [name=run]").text, "运行")
        self.assertEqual(self.find("nav li:last-child a").text, "练习")
        for width in (1280, 400):
            self.window(width, 1400)
            self.assertLessEqual(self.run_script("return document.documentElement.scrollWidth"), width)
            self.run_script("document.getElementById('exercises').scrollIntoView()")
            self.picture(f"exercises_chinese_{width}")
        self.choose(1)
        self.write(" ")
        self.run_script("document.querySelector('#exercises [name=run]').click()")
        self.assertEqual(self.status(), "请先写出您的代码。")

    def test_the_navigation_leads_to_the_exercises(self):
        link = self.find("nav a[href='#exercises']")
        link.send_keys(browser.Keys.ENTER)
        top = self.run_script("return document.querySelector('#exercises h2').getBoundingClientRect().top")
        self.assertTrue(0 <= top < 200, top)
        self.press(browser.Keys.TAB)
        self.assertEqual(self.run_script("return document.activeElement.dataset.key"), "exercise 0")

    def test_names_for_screen_readers(self):
        unnamed = """return [...document.querySelectorAll('#exercises :is(button, textarea, pre[tabindex], summary)')]
            .filter((element) => !(element.getAttribute('aria-label') || element.textContent).trim()).length"""
        self.assertEqual(self.run_script(unnamed), 0)


if __name__ == "__main__":
    unittest.main()
