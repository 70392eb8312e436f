"""paths.py SOURCE: the files and folders that scripts, CMake files, comments and pages name exist.

A path starts at the top of the checkout (src/tensor/handle.c), in the folder of its file or in one above it. Comments, and pages in
backquotes, also name a file of any folder (handle.c). Words in capitals stand for other words (src/ops/NAME.c). Prints each path
that does not exist, and fails if there is one."""

import fnmatch
import os
import re
import sys

READ = re.compile(r"(^|/)CMakeLists\.txt$|\.(c|h|cpp|sh|py|awk|md|cmake|def|js|html|install)$|^(\.ci/run|debian/(rules|tests/.*))$")
# Not read: the history, earlier measurements, pages of doxygen, data, and tests that make the files that they name.
NOT_READ = re.compile(r"^(CHANGELOG\.md$|(bench/results|docs/reference|tests/fixtures)/|tests/(package/(run|releases)\.sh|mutants/test_operators\.py)$)")
ELSEWHERE = {
    "asm/prctl.h", "linux/futex.h", "gtest/gtest.h", "src/llama-arch.cpp", "ggml-quants.c",  # of the system, and of llama.cpp
    "tapehead_check.c", "tapehead_check.h",  # scripts/amalgamate.sh makes them
    "teaching/class/class.html", "docs/reference", "abi/0.3.0",  # a build makes the first one, a release the others
    "tapehead.c", "examples/two_files/tapehead.c", "examples/two_files/tapehead.h",  # scripts/amalgamate.sh writes them
    "ada.c", "bob.c",  # a teacher has them
}  # fmt: skip
PLACEHOLDER = re.compile(r"(?<![A-Za-z])(FOLDER|NAME|NUMBER|PAGE|TARGET|VERSION|N)(?![a-zA-Z])")

BEFORE = r"(?<![A-Za-z0-9_./${}>-])"
AFTER = r"\.(?:c|h|sh|cmake|md|py|pml|awk)(?![A-Za-z0-9_.(])"
VARIABLE = r"(?:\$(?:root|source|checkout|here|scripts)|\$\(dirname \"\$0\"\)|\$\{(?:PROJECT|CMAKE_CURRENT)_SOURCE_DIR\})\"?/"
AFTER_VARIABLE = re.compile(rf"{VARIABLE}((?:\.\./)*[A-Za-z0-9_-]+/[A-Za-z0-9_/-]+{AFTER})")
NEXT_COMMAND = re.compile(r"\bprint_next ([a-z0-9_./]+)")
NAME_IN_COMMENT = re.compile(rf"{BEFORE}([a-z0-9_][a-z0-9_/-]{{2,}}{AFTER})")
NAME_IN_PAGE = re.compile(rf"`([A-Za-z0-9_][A-Za-z0-9_/.-]*(?:{AFTER}|\.txt))`")

C_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
HASH_COMMENT = re.compile(r"^ *# .*", re.MULTILINE)
COMMENT = {
    **dict.fromkeys((".c", ".h", ".cpp", ".def"), C_COMMENT),
    **dict.fromkeys((".sh", ".cmake", ".txt", ".py", ".awk"), HASH_COMMENT),
    ".md": re.compile(r".+"),
}


class Checkout:
    def __init__(self):
        self.files = []
        for folder, folders, names in os.walk("."):
            folders[:] = [f for f in folders if f != "__pycache__" and not (folder == "." and re.match(r"build|\.(?!ci$)", f))]
            self.files += [os.path.normpath(os.path.join(folder, name)) for name in names]
        self.paths = set(self.files)  # and all folders
        self.ends = set()  # src/tensor/handle.c, tensor/handle.c and handle.c
        for file in self.files:
            part = file.split("/")
            self.paths |= {"/".join(part[:i]) for i in range(1, len(part))}
            self.ends |= {"/".join(part[i:]) for i in range(len(part))}
        top = "|".join(sorted({re.escape(file.split("/")[0]) for file in self.files if "/" in file}))
        self.file = re.compile(rf"{BEFORE}((?:{top})/[A-Za-z0-9_./*-]*{AFTER})")
        self.path = re.compile(rf"{BEFORE}((?:{top})/[A-Za-z0-9_./*-]*[A-Za-z0-9_*])")
        self.after_variable = re.compile(rf"{VARIABLE}((?:\.\./)*(?:{top})/[A-Za-z0-9_./*-]*[A-Za-z0-9_*])(?![A-Za-z0-9_.*/-]*[$\w*])")

    def has(self, path, reader):
        """Whether this path, which may have *, leads to something from a folder of the reader or from scripts/ ($scripts)."""
        folder, folders = reader, ["scripts"]
        while folder:
            folder = os.path.dirname(folder)
            folders.append(folder)
        whole = [os.path.normpath(os.path.join(folder, path)) for folder in folders]
        return any(w in self.paths or "*" in w and fnmatch.filter(self.paths, w) for w in whole)

    def missing(self, reader, text):
        """Yields the place and the path of all that this text names and that does not exist."""
        extension = os.path.splitext(reader)[1]
        comments = list(COMMENT[extension].finditer(text)) if extension in COMMENT else []
        found = [(m.start(1), m[1]) for pattern in (self.file, self.after_variable, AFTER_VARIABLE, NEXT_COMMAND) for m in pattern.finditer(text)]
        found += [(c.start() + m.start(1), m[1]) for c in comments for m in self.path.finditer(c[0])]
        name = NAME_IN_PAGE if extension == ".md" else NAME_IN_COMMENT
        names = [(c.start() + m.start(1), m[1]) for c in comments for m in name.finditer(c[0]) if m[1] not in self.ends]
        for place, path in sorted({*found, *names}):
            if not (self.has(path, reader) or path in ELSEWHERE or PLACEHOLDER.search(path)):
                yield place, path


def main():
    os.chdir(sys.argv[1])
    checkout = Checkout()
    read = [file for file in checkout.files if READ.search(file) and not NOT_READ.search(file)]
    wrong = 0
    for reader in sorted(read):
        with open(reader, encoding="utf-8") as file:
            text = file.read()
        for place, path in checkout.missing(reader, text):
            print(f"{reader}:{text.count(chr(10), 0, place) + 1}: there is no {path}")
            wrong += 1
    print(f"{wrong} of the paths in {len(read)} files do not exist")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
