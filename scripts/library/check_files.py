#!/usr/bin/env python3
"""check_files.py CHECKOUT COMMIT OUT: writes tapehead_check.h and tapehead_check.c, the checker of plain functions. scripts/amalgamate.sh
--check calls it. The files are C99 and C++17. They leave out the sections of headers that the checker does not need."""
import re
import sys
import textwrap
from pathlib import Path

from amalgamate import GUARD, CMakeLists, Joiner, separator, tidy

SOURCES = ("src/kernels/dtype.c", "src/tensor/format.c", "src/checker/engine/*.c", "src/checker/function/*.c")
# A section starts with a comment "/* -- NAME --". It ends at the next one, or with the declarations of the header.
UNUSED = re.compile(r"/\* -- (other lists|source locations|precision of products|kinds of types|division of work|files and paths|experiment) --")
SECTION = re.compile(r"/\* -- |TH_END_DECLS")


def without_unused(text):
    """Removes the unused sections. The last section of a header ends before the #endif of the guard."""
    lines, skips, depth = [], False, 0
    for line in text.split("\n"):
        if SECTION.match(line):
            skips, depth = bool(UNUSED.match(line)), 0
        elif skips:
            depth += line.startswith("#if")
            depth -= line.startswith("#endif")
            skips = depth >= 0
        if not skips:
            lines.append(line.replace("TH_PRIVATE_API ", ""))
    return "\n".join(lines)


def change(path, text):
    """A source and its headers lose their first comments, guards, empty lines and the names of sections: the files have to be short."""
    if path.name == "private_api.h":
        return ""
    text = without_unused(text)
    if "tapehead" in path.parent.name:
        return text
    if GUARD.search(text):
        text = GUARD.sub("", text, count=1).rstrip().removesuffix("#endif")
    return re.sub(r"\n{2,}", "\n", re.sub(r"\A/\*.*?\*/\n", "", text, flags=re.S))


def top(version, commit):
    return f"/* Tapehead {version}{commit}: the checker of gradients of plain functions. scripts/amalgamate.sh --check made it.\n" \
        " * MIT license: the text is at the end of tapehead_check.c. */\n"


def main():
    root, commit, out = Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3])
    cmake = CMakeLists(root)
    joiner = Joiner([root / "src", root / "include"], cmake.lists)
    joiner.change = change
    begin = top(cmake.variables["version"][0], commit)

    public = root / "include/tapehead/check_function.h"
    declarations = re.sub(r"\n{2,}", "\n", joiner.read(public))
    joiner.seen.add(public)
    system = "".join(f"#include <{name}>\n" for name in sorted(joiner.system))
    header = f"{begin}#ifndef TAPEHEAD_CHECK_FILES_H\n#define TAPEHEAD_CHECK_FILES_H\n\n{system}\n{declarations}\n#endif\n"

    joiner.system = set()
    files = [f for pattern in SOURCES for f in sorted(root.glob(pattern))]
    body = "".join(separator(f.relative_to(root)) + joiner.read(f) for f in files)
    body = re.sub(r"\n{2,}", "\n", re.sub(r"^/\* --(--)? .* --(--)? \*/\n", "", body, flags=re.M))
    system = "".join(f"#include <{name}>\n" for name in sorted(joiner.system))
    paragraphs = (root / "LICENSE").read_text(encoding="utf-8").strip().split("\n\n")
    license = "".join(textwrap.fill(paragraph, 120) + "\n" for paragraph in paragraphs)
    source = f"{begin}{FIRST}{system}#include \"tapehead_check.h\"\n{body}/*\n{license}*/\n"

    for name, text in (("tapehead_check.h", header), ("tapehead_check.c", source)):
        (out / name).write_text(tidy(text), encoding="utf-8")


FIRST = """\
#ifndef TH_NO_POSIX
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#endif
#ifdef __cplusplus /* this file is C99; these compilers take it as C++17, too */
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wc++20-designator"
#pragma GCC diagnostic ignored "-Wc99-designator"
#pragma GCC diagnostic ignored "-Wc99-extensions"
#pragma GCC diagnostic ignored "-Wc++20-extensions"
#endif
"""

if __name__ == "__main__":
    main()
