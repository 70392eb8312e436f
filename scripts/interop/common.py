"""Shared by the comparisons: runs our programs on arrays, measures differences, and checks that committed fixtures are
up to date.

Every comparison ends with common.main(compare), or with common.main(compare, fixtures) if it has fixtures. compare(c)
receives a Comparison; fixtures(folder) writes the files of tests/fixtures/NAME/."""

import argparse
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent


class Comparison:
    """Collects the results: for each title, the largest difference, and the first check that failed."""

    def __init__(self, name, build):
        self.name, self.build = name, build
        self.worst = {}  # title: (difference, limit, where)
        self.checks = {}  # title: (holds, detail, number of checks)

    def close(self, title, limit, ours, theirs, where=""):
        """Requires the largest difference between two arrays, divided by the largest entry of theirs, to be within
        limit."""
        ours, theirs = as_array(ours), as_array(theirs)
        difference = relative_difference(ours, theirs)
        if ours.shape != theirs.shape:
            where = f"{where}: our shape is {ours.shape}, theirs {theirs.shape}"
        before = self.worst.get(title)
        if before is None or not difference <= before[0]:
            self.worst[title] = (difference, limit, where)

    def all_close(self, title, limit, ours, theirs):
        """Does the same for two dictionaries of arrays, which must have the same keys."""
        if ours.keys() != theirs.keys():
            self.check(title, False, f"only one side has {sorted(ours.keys() ^ theirs.keys())}")
        for name in ours.keys() & theirs.keys():
            self.close(title, limit, ours[name], theirs[name], name)

    def check(self, title, holds, detail=""):
        """Records whether something holds. detail is printed if it does not hold, or if there is only one check."""
        before = self.checks.get(title, (True, "", 0))
        first = before if before[2] and not before[0] else (bool(holds), str(detail))
        self.checks[title] = (*first[:2], before[2] + 1)

    def program(self, name, *arguments, inputs=None, check=True):
        """Runs the program NAME FOLDER ARGUMENTS on a folder with the inputs as .npy files and returns the arrays that
        it wrote there. Without check, returns the completed process, even if the program failed."""
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
        """Runs any program; if it fails, raises an error with its standard error."""
        command = [str(part) for part in (program, *arguments)]
        run = subprocess.run(command, capture_output=True, text=options.pop("text", True), **options)
        if check and run.returncode != 0:
            raise RuntimeError(f"{pathlib.Path(command[0]).name} ended with status {run.returncode}: {run.stderr}")
        return run

    def report(self, seconds):
        """Prints a line for each title; returns whether all hold."""
        lines = [
            (title, difference <= limit, f"largest relative difference {difference:.1e} of {limit:.0e}", where)
            for title, (difference, limit, where) in self.worst.items()
        ]
        lines += [
            (title, holds, (f"{times} times" if times > 1 else detail) if holds else "", detail)
            for title, (holds, detail, times) in self.checks.items()
        ]
        for title, holds, figure, where in lines:
            verdict = "ok" if holds else f"FAILED {where}"
            print(f"{self.name + ': ' + title:66} {figure:46} {verdict}", flush=True)
        passed = bool(lines) and all(line[1] for line in lines)
        print(f"{self.name}: {'passed' if passed else 'FAILED'}, {seconds:.0f} s", flush=True)
        return passed


def as_array(value):
    """Converts an array, a number or a PyTorch tensor to a NumPy array."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def relative_difference(ours, theirs):
    """Returns max |ours - theirs| / max |theirs|; 0 if the arrays are equal; infinity if shapes differ or only one side
    has a number that is not finite."""
    if ours.shape != theirs.shape:
        return np.inf
    if theirs.size == 0:
        return 0.0
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return 0.0 if np.array_equal(ours, theirs, equal_nan=True) else np.inf
    difference, largest = np.abs(ours - theirs).max(), np.abs(theirs).max()
    return 0.0 if difference == 0 else float(difference / largest) if largest > 0 else np.inf


# -- packages of PyPI --


def members(path):
    """Yields (name, function that reads the content) of the files of a wheel or of an archive of sources."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield name, lambda name=name: archive.read(name)
    else:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile():
                    yield member.name, lambda member=member: archive.extractfile(member).read()


def package_files(requirement, *parts, sources=False):
    """Returns a folder with the files of a package whose paths contain one of the parts. pip downloads the package once, into
    ~/.cache/tapehead/interop; with sources, its source archive."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "tapehead" / "interop"
    folder = cache / "packages" / requirement / "_".join(parts).strip("/").replace("/", "+")
    if not (folder / "complete").exists():
        name = requirement.partition("==")[0]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as archives:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", archives]
                           + ["--no-binary", name] * sources + [requirement], check=True)
            for member, read in members(next(pathlib.Path(archives).iterdir())):
                if any(part in member for part in parts):
                    path = folder / pathlib.PurePosixPath(member).relative_to(member.split("/")[0])
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(read())
        (folder / "complete").touch()
    return folder


# -- fixtures --


def load_arrays(path):
    """Returns the arrays of a .npy or .safetensors file."""
    if path.suffix == ".npy":
        return {"": np.load(path)}
    from safetensors.torch import load_file  # NumPy does not support bfloat16

    return {name: tensor.double().numpy() for name, tensor in load_file(path).items()}


def same_file(committed, made):
    """Returns whether two files are equal: their bytes, or arrays of numbers up to 1e-5 of the largest entry, because
    processors round differently."""
    if committed.read_bytes() == made.read_bytes():
        return True
    if made.suffix not in (".npy", ".safetensors"):
        return False
    ours, theirs = load_arrays(committed), load_arrays(made)
    return ours.keys() == theirs.keys() and all(
        ours[key].dtype == theirs[key].dtype and relative_difference(ours[key], theirs[key]) <= 1e-5 for key in ours
    )


def check_fixtures(comparison, make, committed):
    """Checks that the committed files are exactly the files that make(folder) writes."""
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
    detail = f"out of date: {', '.join(stale)}; run scripts/interop.sh --fixtures {comparison.name}"
    comparison.check("fixtures are up to date", not stale, detail if stale else f"{len(names)} files")


def make_fixtures(make, folder):
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    folder.mkdir(parents=True, exist_ok=True)
    make(folder)
    print(f"made {folder.relative_to(ROOT)}: {sum(p.stat().st_size for p in folder.rglob('*') if p.is_file())} bytes")


def main(compare, fixtures=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "interop")
    parser.add_argument("--fixtures", action="store_true", help="write the fixtures, do not compare")
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
