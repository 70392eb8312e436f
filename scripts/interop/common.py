"""What the comparisons share: running a program of ours on arrays, measuring how far two results are apart, and keeping
committed fixtures fresh.

A comparison is a program that ends with common.main(compare), and common.main(compare, fixtures) if it makes fixtures:
compare(c) is given a Comparison; fixtures(folder) writes the files that belong into tests/fixtures/NAME/."""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent


class Comparison:
    """Collects figures: for each title, the worst of all differences that were measured under it."""

    def __init__(self, name, build):
        self.name, self.build = name, build
        self.worst = {}  # title: (difference, limit, where)
        self.said = {}  # title: (holds, detail, how often)

    def close(self, title, limit, ours, theirs, where=""):
        """The largest difference between two arrays, relative to the largest entry of theirs, must be within limit."""
        ours, theirs = as_array(ours), as_array(theirs)
        difference = relative_difference(ours, theirs)
        if ours.shape != theirs.shape:
            where = f"{where}: our shape is {ours.shape}, theirs {theirs.shape}"
        before = self.worst.get(title)
        if before is None or not difference <= before[0]:
            self.worst[title] = (difference, limit, where)

    def all_close(self, title, limit, ours, theirs):
        """The same for two dictionaries of arrays, which must have the same keys."""
        if ours.keys() != theirs.keys():
            self.check(title, False, f"these are only on one side: {sorted(ours.keys() ^ theirs.keys())}")
        for name in ours.keys() & theirs.keys():
            self.close(title, limit, ours[name], theirs[name], name)

    def check(self, title, holds, detail=""):
        """Something that is true or not; detail says more, when it is not or when it is a figure worth reading."""
        before = self.said.get(title, (True, "", 0))
        first = before if before[2] and not before[0] else (bool(holds), str(detail))
        self.said[title] = (*first[:2], before[2] + 1)

    def program(self, name, *arguments, inputs=None, check=True):
        """Runs the driver NAME FOLDER ARGUMENTS on a folder with the arrays of inputs as .npy files; returns those that
        it left there besides. Without check, the completed process instead, whatever its status."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            inputs = inputs or {}
            for key, array in inputs.items():
                np.save(folder / f"{key}.npy", np.asarray(as_array(array), order="C"))
            run = self.run(self.build / "scripts" / "interop" / name, folder, *arguments, check=check)
            if not check:
                return run
            names = {path.name.removesuffix(".npy"): path for path in folder.glob("*.npy")}
            return {key: np.load(path) for key, path in names.items() if key not in inputs}

    def run(self, program, *arguments, check=True, **options):
        """Runs any program; what it says on standard error is shown when it fails."""
        command = [str(part) for part in (program, *arguments)]
        run = subprocess.run(command, capture_output=True, text=options.pop("text", True), **options)
        if check and run.returncode != 0:
            raise RuntimeError(f"{pathlib.Path(command[0]).name} ended with status {run.returncode}: {run.stderr}")
        return run

    def report(self, seconds):
        """Prints the figures, a line each; true if all hold."""
        lines = [
            (title, difference <= limit, f"worst relative difference {difference:.1e} of {limit:.0e}", where)
            for title, (difference, limit, where) in self.worst.items()
        ]
        lines += [
            (title, holds, (f"{times} times" if times > 1 else detail) if holds else "", detail)
            for title, (holds, detail, times) in self.said.items()
        ]
        for title, holds, figure, where in lines:
            verdict = "ok" if holds else f"FAILED {where}"
            print(f"{self.name + ': ' + title:66} {figure:46} {verdict}", flush=True)
        passed = bool(lines) and all(line[1] for line in lines)
        print(f"{self.name}: {'passed' if passed else 'FAILED'}, {seconds:.0f} s", flush=True)
        return passed


def as_array(value):
    """A NumPy array of an array, a number or a PyTorch tensor."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def relative_difference(ours, theirs):
    """max |ours - theirs| / max |theirs|; 0 where both are 0, infinite for other shapes and where one is not finite."""
    if ours.shape != theirs.shape:
        return np.inf
    if theirs.size == 0:
        return 0.0
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return 0.0 if np.array_equal(ours, theirs, equal_nan=True) else np.inf
    difference, largest = np.abs(ours - theirs).max(), np.abs(theirs).max()
    return 0.0 if difference == 0 else float(difference / largest) if largest > 0 else np.inf


# -- fixtures --


def load_arrays(path):
    """The arrays of a .npy or .safetensors file."""
    if path.suffix == ".npy":
        return {"": np.load(path)}
    from safetensors.torch import load_file  # NumPy has no bfloat16

    return {name: tensor.double().numpy() for name, tensor in load_file(path).items()}


def same_file(committed, made):
    """Equal bytes; for numbers, which another processor rounds otherwise, equal to 1e-5 of the largest entry."""
    if committed.read_bytes() == made.read_bytes():
        return True
    if made.suffix not in (".npy", ".safetensors"):
        return False
    ours, theirs = load_arrays(committed), load_arrays(made)
    return ours.keys() == theirs.keys() and all(
        ours[key].dtype == theirs[key].dtype and relative_difference(ours[key], theirs[key]) <= 1e-5 for key in ours
    )


def check_fixtures(comparison, make, committed):
    """Everything that would be made is there and the same, and nothing else is there."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make(folder)
        names = {
            path.relative_to(top) for top in (folder, committed) for path in top.rglob("*") if path.is_file()
        }
        stale = [
            str(name)
            for name in sorted(names)
            if not (folder / name).exists()
            or not (committed / name).exists()
            or not same_file(committed / name, folder / name)
        ]
    detail = f"stale: {', '.join(stale)}; scripts/interop.sh --fixtures {comparison.name} makes them anew"
    comparison.check("fixtures are fresh", not stale, detail if stale else f"{len(names)} files")


def make_fixtures(make, folder):
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    folder.mkdir(parents=True, exist_ok=True)
    make(folder)
    print(f"made {folder.relative_to(ROOT)}: {sum(p.stat().st_size for p in folder.rglob('*') if p.is_file())} bytes")


def main(compare, fixtures=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "interop")
    parser.add_argument("--fixtures", action="store_true", help="make the fixtures, compare nothing")
    options = parser.parse_args()
    name = pathlib.Path(sys.argv[0]).stem
    committed = ROOT / "tests" / "fixtures" / name
    if options.fixtures:
        if fixtures:
            make_fixtures(fixtures, committed)
        return
    comparison, start = Comparison(name, options.build), time.monotonic()
    compare(comparison)
    if fixtures:
        check_fixtures(comparison, fixtures, committed)
    sys.exit(0 if comparison.report(time.monotonic() - start) else 1)
