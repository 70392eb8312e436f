"""Runs exported tapes (th_tape_write_python) under PyTorch and NumPy: every operation of the registry, attention layers and
transformer blocks. Plants wrong numbers, and checks that the scripts find them."""

import contextlib
import io
import pathlib
import re
import runpy
import subprocess
import sys
import tempfile

import common


def run(path):
    """Runs a script in this process, which has imported PyTorch already. Returns its exit status and its output."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return end.code, output.getvalue()
    return None, output.getvalue()


def plant(text, table, name):
    """Changes the first number of a tensor of VALUES or GRADIENTS in the text of a script by 1 %."""
    start = text.index(f"\n{table} = {{")
    pattern = re.compile(rf'(    "{name}": \("float\d+", \([^)]*\), ")([^ "]+)')
    match = pattern.search(text, start)
    number = float(match[2]) * 1.01 + 0.01
    return text[: match.start(2)] + repr(number) + text[match.end(2) :]


def check_planted(c, folder, name, table, tensor):
    """A wrong number in an otherwise right script must be found, and only that one."""
    kind = "value" if table == "VALUES" else "gradient"
    for library in ("torch", "numpy"):
        path = folder / f"{name}.float64.{library}.py"
        wrong = folder / f"planted_{library}.py"
        wrong.write_text(plant(path.read_text(), table, tensor))
        ended = subprocess.run([sys.executable, wrong], capture_output=True, text=True)
        lines = ended.stdout.splitlines()
        found = ended.returncode == 1 and lines and lines[-1] == f"wrong: {kind} of {tensor}"
        c.check(f"a wrong {kind} is found", found, ended.stdout + ended.stderr)


def compare(c):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        operations = int(c.run(c.build / "scripts" / "interop" / "tape_scripts", folder).stdout)
        scripts = sorted(folder.glob("*.py"))
        numbers = {}
        for path in scripts:
            status, output = run(path)
            dtype, library = path.name.split(".")[1:3]
            compared = re.match(r"compared (\d+) numbers of [1-9]\d* values and \d+ gradients: all agree", output)
            c.check(f"scripts for {library}, {dtype}", status == 0 and compared, f"{path.name}: {output}")
            if compared:
                numbers[library] = numbers.get(library, 0) + int(compared[1])
        for library, count in numbers.items():
            c.check(f"numbers compared by {library}", count > 100000, count)
        names = {path.name.split(".")[0] for path in scripts}
        c.check("operations and models", len(names) == operations + 12, len(names))
        alone = subprocess.run([sys.executable, folder / "softmax.float32.numpy.py"], capture_output=True, text=True)
        c.check("a script runs alone", alone.returncode == 0 and not alone.stderr, alone.stdout + alone.stderr)
        check_planted(c, folder, "softmax", "VALUES", "y0")
        check_planted(c, folder, "softmax", "GRADIENTS", "x2")
        check_planted(c, folder, "gpt2_block", "GRADIENTS", "p_norm1_weight")


common.main(compare)
