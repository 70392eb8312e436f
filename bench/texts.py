#!/usr/bin/env python3
"""Makes the texts of recipe_cells.py from Debian packages: texts.py DIRECTORY

Writes english, russian and code, each with at most 100 KB, 1 MB and 20 MB: NAME-100k.txt, NAME-1m.txt, NAME-20m.txt. A
text is a series of whole files in an order that depends on their contents only. apt-get downloads the packages
(100 MB); nothing is installed."""

import fnmatch
import gzip
import hashlib
import html.parser
import pathlib
import re
import subprocess
import sys
import tempfile

SIZES = {"100k": 100_000, "1m": 1_000_000, "20m": 20_000_000}
TEXTS = {  # name: patterns of packages, patterns of files, patterns of files to leave out
    "english": ([r"linux-doc-[0-9.]+"], ["*.rst.gz"], ["*/translations/*"]),
    "russian": (["libreoffice-help-ru", "gimp-help-ru", "manpages-ru"], ["*/ru/*.html", "*/man/ru/*.gz"], []),
    "code": ([r"libpython3\.\d+-stdlib", r"libpython3\.\d+-testsuite"], ["*/python3*/*.py"], []),
}


class Prose(html.parser.HTMLParser):
    """Collects the text of a page without its markup."""

    def __init__(self):
        super().__init__()
        self.parts, self.hidden = [], 0

    def handle_starttag(self, tag, _):
        self.hidden += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.hidden and data.strip():
            self.parts.append(" ".join(data.split()))


def package_names(patterns):
    """Returns the last package that each pattern fits: the names contain versions."""
    known = subprocess.run(["apt-cache", "pkgnames"], capture_output=True, text=True, check=True).stdout.split()
    found = [sorted(name for name in known if re.fullmatch(pattern, name))[-1:] for pattern in patterns]
    if [] in found:
        sys.exit(f"texts.py: apt knows no package {patterns[found.index([])]}; run apt-get update")
    return [names[0] for names in found]


def unpack(packages, directory):
    subprocess.run(["apt-get", "download", "-qq", *package_names(packages)], cwd=directory, check=True)
    for package in sorted(directory.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, directory], check=True)
        package.unlink()


def read_text(path):
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    if path.suffix != ".html":
        return text
    prose = Prose()
    prose.feed(text)
    return "\n".join(prose.parts) + "\n"


def list_texts(directory, patterns, omitted):
    def fits(path, several):
        return any(fnmatch.fnmatch(str(path), pattern) for pattern in several)

    paths = [path for path in directory.rglob("*") if path.is_file() and fits(path, patterns) and not fits(path, omitted)]
    return sorted({read_text(path) for path in paths}, key=lambda text: hashlib.sha256(text.encode()).digest())


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, (packages, patterns, omitted) in TEXTS.items():
        with tempfile.TemporaryDirectory() as work:
            directory = pathlib.Path(work)
            unpack(packages, directory)
            text = "".join(list_texts(directory, patterns, omitted)).encode()
        for size, limit in SIZES.items():
            (out / f"{name}-{size}.txt").write_text(text[:limit].decode(errors="ignore"), encoding="utf-8")
        print(f"{name}: {min(len(text), max(SIZES.values()))} bytes")


if __name__ == "__main__":
    main()
