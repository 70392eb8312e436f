#!/usr/bin/env python3
"""two_files.py CHECKOUT COMMIT OUT [--models]: writes tapehead.h and tapehead.c, the core library in two files. scripts/amalgamate.sh
calls it. With --models the files have the second library too.

tapehead.c has three parts. The first one chooses what is compiled. The second one has the headers and sources of the core. The third
one has the kernels: the file includes itself for each element type and instruction set, so that every kernel stands in it once.
"""
import json
import re
import sys
from pathlib import Path

from amalgamate import (GUARD, CMakeLists, Joiner, file_names, identifiers, macros, rename, separator, static_macros, tidy, unique_name,
                        without_comments)

# Parts that a macro leaves out: the folders or files of the core.
PARTS = {
    "TAPEHEAD_NO_EXPORT": ("src/export/",),
    "TAPEHEAD_NO_CHECKER": ("src/checker/",),
}
HEADERS = {
    "tapehead/gradient_check.h": "TAPEHEAD_NO_CHECKER",
    "tapehead/check_function.h": "TAPEHEAD_NO_CHECKER",
    "tapehead/gradient_report.h": "TAPEHEAD_NO_CHECKER",
    "tapehead/export.h": "TAPEHEAD_NO_EXPORT",
}
# With TAPEHEAD_NO_FLOAT64 these kernels for float64 stay: float32 needs them for tables of angles and for stored numbers.
NEEDED_KERNELS = ("table.c", "unary.c", "storage.c")
# Macros whose arguments are names of kernels or members, not of functions.
KEEP = ("TH_KERNEL", "ELEMENTWISE_KERNEL", "ELEMENTWISE_LOOP", "KERNEL", "ROWS", "ELEMENTWISE", "OPERATION", "UPDATE_RULE")


def flags(cmake, isa):
    return cmake.variables["TAPEHEAD_ISA_FLAGS_" + isa]


def target(cmake, isa):
    """The options -m... of an instruction set as the string of the attribute target."""
    return ",".join(f[2:] for f in flags(cmake, isa) if f.startswith("-m"))


def options_of_gcc(contract):
    """As the options of the library's build (cmake/flags.cmake). (In a pragma -fno-math-errno has no effect.)"""
    return f'"fp-contract={contract}", "no-trapping-math"'


def includes(names):
    return "".join(f"#include <{name}>\n" for name in sorted(names))


def samples_of_checker(text):
    """Leaves out the samples of operations, which only the checker reads, with the checker."""
    text = re.sub(r'^const th_sample \w+\[\] = \{.*?^\};\n', r"#ifndef TAPEHEAD_NO_CHECKER\n\g<0>#endif\n", text, flags=re.M | re.S)
    parts = re.split(r'(?<=\.samples =)\s+', text)
    for i in range(1, len(parts)):
        depth = end = 0
        while depth > 0 or parts[i][end] not in ",}\n;":
            depth += (parts[i][end] in "({") - (parts[i][end] in ")}")
            end += 1
        parts[i] = f" TH_SAMPLES({parts[i][:end]}){parts[i][end:]}"
    return "".join(parts)


class TwoFiles:
    def __init__(self, root, commit, models):
        self.root, self.commit, self.models = Path(root).resolve(), commit, models
        self.cmake = CMakeLists(self.root)
        self.version = self.cmake.variables["version"][0]
        self.joiner = Joiner([self.root / "src", self.root / "include"], self.cmake.lists)
        vector = [Path(f) for f in self.cmake.variables["vector_sources"]]
        self.special = {name: Path(self.cmake.variables[name][0]) for name in ("fma", "dpbf16", "amx", "scalar", "elementary_f64")}
        self.plain = [f for f in vector if f not in self.special.values()]
        self.core = [Path(f) for f in self.cmake.variables["core_sources"]]
        self.cold = {Path(f) for f in self.cmake.variables["cold_sources"]}
        self.second = [Path(f) for f in self.cmake.variables["model_sources"]] if models else []
        self.vector = vector

    def path(self, file):
        return str(Path(file).relative_to(self.root))

    # -- tapehead.h --

    def header(self):
        def change(path, text):
            macro = HEADERS.get(self.path(path).removeprefix("include/"))
            return f"#ifndef {macro}\n{text}#endif\n" if macro else text
        self.joiner.change = change
        text = self.joiner.read(self.root / "include/tapehead/core.h")
        if self.models:
            text += f"\n#ifndef TAPEHEAD_NO_MODELS\n{self.joiner.read(self.root / 'include/tapehead/models.h')}\n#endif\n"
        contracts = (self.root / "include/tapehead/tapehead.h").read_text(encoding="utf-8")
        contracts = re.match(r'/\*.*?\*/\n', contracts, re.S).group(0)
        self.joiner.change = lambda path, text: text
        self.public = set(self.joiner.seen)
        return tidy(f"/* Tapehead {self.version}{self.commit}: {self.subject()} in two files, tapehead.h and tapehead.c. "
                    "scripts/amalgamate.sh made them.\n * " + LICENSE + " */\n"
                    "#ifndef TAPEHEAD_TWO_FILES_H\n#define TAPEHEAD_TWO_FILES_H\n\n"
                    + includes(self.joiner.system) + "\n" + contracts + text + "\n#endif\n")

    def subject(self):
        return "both libraries" if self.models else "the core library"

    # -- tapehead.c --

    def names(self):
        """Finds the names of each file that another file uses too: self.renamed[file] = {old: new}."""
        private = sorted(p for p in (self.root / "src").rglob("*.h") if self.models or "models" not in p.parts)
        public = sorted((self.root / "include").rglob("*.h"))
        self.texts = {f: f.read_text(encoding="utf-8") for f in set(self.core + self.second) | set(self.vector) | set(private) | set(public)}
        self.static = static_macros(self.texts.values())
        count, header_macros = {}, set()
        for file, text in self.texts.items():
            for name in identifiers(text):
                count[name] = count.get(name, 0) + 1
            if file.suffix == ".h" and "posix" not in file.parts:  # whose macros replace functions of the system, with such names
                header_macros |= macros(text)
        for text in self.cmake.lists.values():
            for name in identifiers(text):
                count[name] = count.get(name, 0) + 1
        taken = set(count)
        self.renamed = {}
        own_names = {file: file_names(self.texts[file], self.static) - header_macros - macros(self.texts[file]) for file in self.core + self.second}
        owners = {}
        for names in own_names.values():
            for name in names:
                owners[name] = owners.get(name, 0) + 1
        for file, own in own_names.items():
            # A structure of a source may be declared in a header: th_ names clash only with those of other sources.
            clashes = sorted(n for n in own if (count[n] if not n.startswith("th_") else owners[n]) > 1)
            self.renamed[file] = {n: unique_name(n, self.path(file), taken) for n in clashes}
        return count

    def part_of_header(self, path, text):
        """Puts the declarations of a part's header under the condition of the part. Its includes stay outside: other files need them."""
        condition = self.condition(path) if self.root / "src" in path.parents else ""
        if not condition:
            return text
        text = GUARD.sub("", text, count=1).rstrip().removesuffix("#endif")
        includes, rest = self.split(text)
        return f"{includes}#if {condition}\n{rest}#endif\n"

    def sources(self, files):
        """The sources of a library, with the headers that they include."""
        parts = []
        self.joiner.change = self.part_of_header
        for file in files:
            parts.append(separator(self.path(file)))
            text = samples_of_checker(self.texts[file]) if "ops" in file.parts else self.texts[file]
            condition = self.condition(file)
            mapping = self.renamed[file]
            # The headers are outside the condition: other files need them too.
            includes, rest = self.split(text)
            parts.append(self.joiner._join(includes, file, False))
            if condition:
                parts.append(f"#if {condition}\n")
            body = self.joiner._join(rename(rest, mapping, KEEP), file, bool(condition))
            body = body.strip("\n") + "\n"
            parts.append(f"TH_BEGIN_COLD\n{body}TH_END_COLD\n" if file in self.cold else body)
            parts += [f"#undef {name}\n" for name in sorted(macros(text))]
            if condition:
                parts.append("#endif\n")
        self.joiner.change = lambda path, text: text
        return "".join(parts)

    @staticmethod
    def split(text):
        """Separates what is before the last include without a condition: (with the includes, the rest)."""
        depth, last, lines = 0, 0, text.split("\n")
        for i, line in enumerate(lines):
            if re.match(r'#[ \t]*(if|ifdef|ifndef)\b', line):
                depth += 1
            elif re.match(r'#[ \t]*endif\b', line):
                depth -= 1
            elif depth == 0 and re.match(r'#[ \t]*include "[^"]*\.h"|#[ \t]*include <', line):
                last = i + 1
            elif depth == 0 and not re.match(r'#[ \t]*(include|undef)|/\*| \*|$', line):
                break
        return "\n".join(lines[:last]) + "\n", "\n".join(lines[last:])

    def condition(self, file):
        name, conditions = file.name, []
        if file.parent.name == "machine":
            for architecture in self.cmake.variables["TAPEHEAD_ARCHITECTURES"]:
                if name in self.cmake.variables["TAPEHEAD_SOURCES_" + architecture]:
                    conditions.append("TH_ARCHITECTURE_" + architecture)
                if name in self.cmake.variables.get("TAPEHEAD_REPLACED_" + architecture, []):
                    conditions.append("!TH_ARCHITECTURE_" + architecture)
        for macro, folders in PARTS.items():
            if self.path(file).startswith(folders):
                conditions.append(f"!defined {macro}")
        return " && ".join(conditions)

    def kernels(self, count):
        """The kernels of one instance. Returns (names as macros, text, macros to undefine)."""
        before = set(self.joiner.seen)
        own, section_macros, used = set(), set(), set()
        headers = [p for p in self.texts if p.suffix == ".h" and "vector" in p.parts]
        section = headers + self.vector
        members = set()
        for file in section:
            own |= file_names(self.texts[file], self.static)
            section_macros |= macros(self.texts[file])
            members |= set(re.findall(r'(?:\.|->)\s*([A-Za-z_]\w*)', without_comments(self.texts[file])))
        outside = set()
        for file, text in self.texts.items():
            if file not in section:
                outside |= identifiers(text)
        for text in self.cmake.lists.values():
            outside |= identifiers(text)
        taken = set(count)
        mapping = {n: unique_name(n, "vector.h", taken) for n in sorted(own & (outside | members))}
        pasted = self.pasted()

        def change(path, text):
            text = self.paste(text, pasted, own)
            # Some instances define a macro instead of a function.
            text = re.sub(r'^[ \t]*#define (\w+)\b', lambda m: f"#undef {m.group(1)}\n{m.group(0)}" if m.group(1) in own
                          else m.group(0), text, flags=re.M)
            return rename(text, mapping, KEEP)
        self.joiner.change = change
        parts, guards = [], set()
        for number, files in ((0, self.plain), (1, [self.special["fma"]]), (2, [self.special["scalar"]]),
                              (3, [self.special["elementary_f64"]]), (4, [self.special["dpbf16"]]), (5, [self.special["amx"]])):
            for file in files:
                parts.append(separator(self.path(file)))
                includes, rest = self.split(change(file, self.texts[file]))
                options = PRAGMAS.get(file.name)
                use = USES[number] + (" || TH_PART == TH_PART_NEEDED" if file.name in NEEDED_KERNELS else "")
                if file.name in PRECISIONS:
                    use = f"{use} && !defined TAPEHEAD_NO_PRECISIONS"
                if number > 0:
                    parts.append(f"#if {use}\n")
                parts.append(self.joiner._join(includes, file, number > 0))
                if number == 0:
                    parts.append(f"#if {use}\n")
                if file.name == "table.c":
                    rest = rest.replace('#include "kernels.def"', self.table())
                if options:
                    parts.append(options[0])
                parts.append(self.joiner._join(rest, file, True).strip("\n") + "\n")
                if options:
                    parts.append(options[1])
                if PRECISIONS.get(file.name):
                    parts.append(f"#elif {USES[number]}\n{PRECISIONS[file.name]}")
                parts.append("#endif\n")
        text = "".join(parts)
        # An #if around headers that are included under a condition: they keep their guards.
        guards = set(re.findall(r'#ifndef (TH_\w+_H)\n#define \1', text))
        section_macros = {m for m in macros(text)} | guards
        self.joiner.change = lambda path, text: text
        local = sorted({mapping.get(n, n) for n in own})
        return local, text, sorted(section_macros)

    def table(self):
        """The list of kernels for a table, with conditions for those that macros leave out."""
        conditions = {}
        for file in self.plain:
            condition = "" if file.name in NEEDED_KERNELS else "TH_PART == TH_PART_ALL"
            if file.name in PRECISIONS:
                condition += " && !defined TAPEHEAD_NO_PRECISIONS"
            for name in re.findall(r'^(?:void TH_KERNEL|ELEMENTWISE_\w+)\((\w+)', self.texts[file], re.M):
                conditions.setdefault(condition, set()).add(name)
        text = ""
        for condition, names in sorted(conditions.items()):
            lines = "".join(line for line in self.cmake.lists["kernels.def"].splitlines(True)
                            if re.match(r'KERNEL\((\w+)', line).group(1) in names)
            text += f"#if {condition}\n{lines}#endif\n" if condition else lines
        return text

    def pasted(self):
        """The patterns of names that macros of the kernels make with ##, as regular expressions."""
        patterns = set()
        for file in self.vector + [p for p in self.texts if p.suffix == ".h" and "vector" in p.parts]:
            for found in PASTED.findall(self.texts[file]):
                if not found.startswith(NOT_OF_INSTANCES):
                    patterns.add(found)
        result = []
        for pattern in patterns:
            first = pattern.split("##")[0]
            if first.endswith("_"):
                parts = pattern.split("##")
                result.append("".join(p if i % 2 == 0 else r'\w+' for i, p in enumerate(parts)))
        return re.compile(r'^(?:' + "|".join(sorted(result)) + r')$')

    def paste(self, text, explicit, own):
        """Gives names that macros make, and their explicit uses, the instance's name."""
        def made(match):
            found = match.group(0)
            return found if found.startswith(NOT_OF_INSTANCES) else f"TH_LOCAL({found})"
        text = PASTED.sub(made, text)
        return re.sub(r'(?<![\w#"/])\w+(?![\w#])',
                      lambda m: f"TH_LOCAL({m.group(0)})" if m.group(0) not in own and explicit.match(m.group(0)) else m.group(0),
                      text)

    def instances(self):
        parts = []
        for architecture in self.cmake.variables["TAPEHEAD_ARCHITECTURES"]:
            parts.append(f"#if TH_ARCHITECTURE_{architecture}\n")
            parts.append(self.instance(64, "scalar", "TH_PART_SCALAR"))
            for isa in self.cmake.variables["TAPEHEAD_ISAS_" + architecture]:
                parts.append(f"#ifdef TAPEHEAD_BUILT_{isa}\n")
                parts.append(self.instance(32, isa, "TH_PART_ALL"))
                parts.append(self.instance(64, isa, "TH_PART_FLOAT64"))
                if isa == "avx512":
                    parts.append(self.instance(32, "avx512bf16", "TH_PART_DPBF16"))
                    parts.append("#ifdef TAPEHEAD_TILES\n" + self.instance(32, "amx", "TH_PART_AMX") + "#endif\n")
                parts.append("#endif\n")
            parts.append("#endif\n")
        return "".join(parts)

    def instance(self, bits, isa, part):
        options, fused = target(self.cmake, isa), "-DTH_FUSED=1" in flags(self.cmake, isa)
        clang = ",".join(o for o in options.split(",") if not o.startswith("prefer"))
        tune = {"avx2": ",tune=haswell"}.get(isa, ",tune=skylake-avx512" if "avx512" in options else "")
        defines = [f[2:].replace("=", " ") for f in flags(self.cmake, isa) if f.startswith("-D")]
        defines += [f"TH_REAL_BITS {bits}", f"TH_INSTANCE f{bits}_{isa}", f"TH_PART {part}"]
        lines = ["#define " + d for d in defines]
        if options:
            lines += ["#ifdef __clang__",
                      f'#pragma clang attribute push(__attribute__((target("{clang}"))), apply_to = function)',
                      "#else", "#pragma GCC push_options", f'#pragma GCC target("{options}{tune}")', "#endif"]
        contract = "fast" if fused else "off"
        lines += ["#ifdef __clang__", f"#pragma clang fp contract({contract})", "#else",
                  "#pragma GCC push_options", "#ifndef __OPTIMIZE_SIZE__", '#pragma GCC optimize("O3")', "#endif",
                  f'#pragma GCC optimize({options_of_gcc(contract)})', "#endif",
                  '#include "tapehead.c"',
                  "#ifdef __clang__", "#pragma clang fp contract(off)", "#else", "#pragma GCC pop_options", "#endif"]
        if options:
            lines += ["#ifdef __clang__", "#pragma clang attribute pop", "#else", "#pragma GCC pop_options", "#endif"]
        lines += ["#undef " + d.split()[0] for d in defines]
        return "\n".join(lines) + "\n"

    def source(self):
        count = self.names()
        sources = self.sources(self.core)
        if self.models:
            sources += f"\n#ifndef TAPEHEAD_NO_MODELS\n{self.sources(self.second)}#endif\n"
        local, kernels, undefined = self.kernels(count)
        system = includes(self.joiner.system - {"arm_neon.h", "cpuid.h", "immintrin.h", "xmmintrin.h", *NEEDED_BY_MODELS})
        if self.models:
            system += f"#ifndef TAPEHEAD_NO_MODELS\n{includes(NEEDED_BY_MODELS)}#endif\n"
        architectures = "".join(
            f"#if {' '.join(self.cmake.variables['TAPEHEAD_MACROS_' + a])}\n#define TH_ARCHITECTURE_{a} 1\n#else\n"
            f"#define TH_ARCHITECTURE_{a} 0\n#endif\n" for a in self.cmake.variables["TAPEHEAD_ARCHITECTURES"])
        body = (sources + separator("instances of the kernels") + self.instances()
                + "\n#if TH_ARCHITECTURE_i386 && defined __clang__\n#pragma clang attribute pop\n#endif\n#else /* TH_INSTANCE: the kernels, once for "
                "each element type and instruction set */\n\n"
                + separator("the names of an instance")
                + "#define TH_LOCAL__(name, instance) name##_##instance\n"
                "#define TH_LOCAL_(name, instance) TH_LOCAL__(name, instance)\n"
                "#define TH_LOCAL(name) TH_LOCAL_(name, TH_INSTANCE)\n"
                + "".join(f"#define {n} TH_LOCAL({n})\n" for n in local)
                + kernels + "\n"
                + "".join(f"#undef {n}\n" for n in local + undefined) + "#undef TH_LOCAL\n#undef TH_LOCAL_\n#undef TH_LOCAL__\n"
                + "#endif\n")
        contents = re.findall(r'^/\* ==== (.*) ==== \*/$', body, re.M)
        top = TOP.format(version=self.version, commit=self.commit, subject=self.subject(), license=LICENSE,
                         libraries=LIBRARIES if self.models else "", models=MODELS if self.models else "", system=system,
                         architectures=architectures,
                         options=options_of_gcc("off"), options_of_pragma=json.dumps(f"GCC optimize({options_of_gcc('off')})"),
                         contents="".join(f" *     {c}\n" for c in contents))
        return tidy(top + body)


PASTED = re.compile(r'(?<![\w#])\w+(?:##\w+)+')
# How pasted names begin that get no instance's name: it is not there, or a macro of the name has it.
NOT_OF_INSTANCES = ("th_", "_mm", "a##", "dtype##")
# When a source of the kernels is a part of an instance.
USES = ("TH_PART == TH_PART_ALL", "TH_PART == TH_PART_ALL && TH_REAL_BITS == 32", "TH_PART == TH_PART_SCALAR",
        "TH_REAL_BITS == 64", "TH_PART == TH_PART_DPBF16", "TH_PART == TH_PART_AMX")
# Sources that TAPEHEAD_NO_PRECISIONS leaves out, with what takes their place: paths of bfloat16 parts without functions.
PRECISIONS = {"product_int8.c": "", "product_int8_round.c": "", "product_int8_wide.c": "", **{
    f"{path}.c": f"extern const th_product_kernels TH_KERNEL(product_{path})[2];\n"
                 f"const th_product_kernels TH_KERNEL(product_{path})[2] = {{{{0}}}};\n" for path in ("fma", "dpbf16", "amx")}}
SCHEDULE = ('#ifndef __clang__\n#pragma GCC push_options\n#pragma GCC optimize("schedule-insns")\n#endif\n',
            '#ifndef __clang__\n#pragma GCC pop_options\n#endif\n')
NO_SCHEDULE = ('#if !defined __clang__ && defined __aarch64__\n#pragma GCC push_options\n#pragma GCC optimize("no-schedule-insns")\n#endif\n',
               '#if !defined __clang__ && defined __aarch64__\n#pragma GCC pop_options\n#endif\n')
CONTRACT_OFF = ('#ifdef __clang__\n#pragma clang fp contract(off)\n#else\n#pragma GCC push_options\n'
                '#pragma GCC optimize("fp-contract=off")\n#endif\n',
                '#ifndef __clang__\n#pragma GCC pop_options\n#elif TH_FUSED\n#pragma clang fp contract(fast)\n#endif\n')
PRAGMAS = {"activation.c": SCHEDULE, "unary.c": SCHEDULE, "product_tile.c": NO_SCHEDULE, "fma.c": NO_SCHEDULE,
           "elementary_f64.c": CONTRACT_OFF}
# The libraries that the second library needs, and what the top says about it.
NEEDED_BY_MODELS = {"jansson.h", "utf8proc.h"}
LIBRARIES = " -ljansson -lutf8proc"
MODELS = """\
 *     TAPEHEAD_NO_MODELS        no second library: no text, files of models, generation and logs. Then jansson and
 *                               utf8proc are not needed
 *
 * Macros that add parts:
 *
 *     TAPEHEAD_ZLIB             reads files that gzip compressed; link with -lz
 *     TAPEHEAD_ZSTD             reads files that zstd compressed; link with -lzstd
"""
LICENSE = "MIT license: the text is at the end of tapehead.c."

TOP = """\
/* Tapehead {version}{commit}: {subject} in two files, tapehead.h and tapehead.c. scripts/amalgamate.sh made them.
 * {license}
 *
 *     cc -O2 app.c tapehead.c{libraries} -lm -lpthread
 *
 * gcc 11, clang 13 or later, in C11 or later. No option is needed. The kernels are compiled for each instruction set,
 * and chosen at run time. Macros leave parts out:
 *
 *     TAPEHEAD_NATIVE           the instruction set of the compiler's options only, for example of -march=native
 *     TAPEHEAD_NO_AVX512        no kernels for AVX-512, and likewise TAPEHEAD_NO_AVX2, TAPEHEAD_NO_BASELINE
 *     TAPEHEAD_NO_EXPORT        no pages, scripts and traces of the tape
 *     TAPEHEAD_NO_CHECKER       no gradient checker
 *     TAPEHEAD_NO_FLOAT64       no tensors of float64, and no sinusoidal positions
 *     TAPEHEAD_NO_STORAGE_TYPES no tensors of bfloat16, float16, q8_0 and q4_0
 *     TAPEHEAD_NO_PRECISIONS    no products in bfloat16x3, bfloat16 and int8
{models} *
 * With -fopenmp, limits and places of threads come from OpenMP. Threads are always the library's own.
 *
 * Contents, in the order of the file. Search for "==== NAME":
 *
{contents} */
#ifndef TH_INSTANCE

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#define TAPEHEAD_CORE
#define TAPEHEAD_VERSION "{version}"
#define TAPEHEAD_NO_LOCATIONS
#if !defined NDEBUG
#define NDEBUG
#endif
#ifdef _OPENMP
#define TAPEHEAD_OPENMP
#endif

{architectures}
#if !TH_ARCHITECTURE_x86_64 && !TH_ARCHITECTURE_i386 && !TH_ARCHITECTURE_aarch64 && !TH_ARCHITECTURE_generic && !TH_ARCHITECTURE_wasm32
#error "Tapehead needs x86, little-endian aarch64, riscv64 or ppc64le, or WebAssembly with one thread"
#endif

#if TH_ARCHITECTURE_i386 /* arithmetic in SSE2's registers: those of x87 round differently */
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("sse2"))), apply_to = function)
#else
#pragma GCC target("sse2,fpmath=sse")
#endif
#endif

#if TH_ARCHITECTURE_x86_64
#ifdef TAPEHEAD_NATIVE
#if defined __AVX512F__ && defined __AVX512BW__ && defined __AVX512DQ__ && defined __AVX512VL__ && defined __F16C__
#define TAPEHEAD_BUILT_avx512
#elif defined __AVX2__ && defined __FMA__ && defined __F16C__
#define TAPEHEAD_BUILT_avx2
#else
#define TAPEHEAD_BUILT_baseline
#endif
#else
#ifndef TAPEHEAD_NO_BASELINE
#define TAPEHEAD_BUILT_baseline
#endif
#ifndef TAPEHEAD_NO_AVX2
#define TAPEHEAD_BUILT_avx2
#endif
#ifndef TAPEHEAD_NO_AVX512
#define TAPEHEAD_BUILT_avx512
#endif
#endif
#ifdef TAPEHEAD_BUILT_avx512
#define TAPEHEAD_TILES
#endif
#elif TH_ARCHITECTURE_i386
#define TAPEHEAD_BUILT_baseline
#elif TH_ARCHITECTURE_aarch64
#define TAPEHEAD_BUILT_neon
#elif TH_ARCHITECTURE_generic
#define TAPEHEAD_BUILT_generic
#else
#define TAPEHEAD_BUILT_simd128
#endif

#define TH_PART_ALL 1
#define TH_PART_SCALAR 2
#define TH_PART_DPBF16 3
#define TH_PART_AMX 4
#define TH_PART_NEEDED 5 /* the kernels for float64 that float32 needs */
#ifdef TAPEHEAD_NO_FLOAT64
#define TH_PART_FLOAT64 TH_PART_NEEDED
#else
#define TH_PART_FLOAT64 TH_PART_ALL
#endif

#ifdef TAPEHEAD_NO_CHECKER
#define TH_SAMPLES(...) NULL
#else
#define TH_SAMPLES(...) __VA_ARGS__
#endif

{system}#if TH_ARCHITECTURE_x86_64
#include <cpuid.h>
#include <immintrin.h>
#elif TH_ARCHITECTURE_i386
#include <emmintrin.h>
#elif TH_ARCHITECTURE_aarch64
#include <arm_neon.h>
#endif

#pragma GCC diagnostic ignored "-Wpsabi"
/* Without some parts, functions and lists that only those parts need are not used. The compiler drops them. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC optimize({options})
#endif

/* The sources that no training step runs: with -O2 and -O3 gcc compiles them with -O1, which is faster. */
#if defined __OPTIMIZE__ && !defined __OPTIMIZE_SIZE__ && !defined __clang__
#define TH_BEGIN_COLD _Pragma("GCC push_options") _Pragma("GCC optimize(\\"O1\\")") _Pragma({options_of_pragma})
#define TH_END_COLD _Pragma("GCC pop_options")
#else
#define TH_BEGIN_COLD
#define TH_END_COLD
#endif

#if defined _WIN32 && defined __x86_64__ && !defined __clang__
/* gcc keeps vectors of 32 and 64 bytes on stacks that Windows aligns to 16 bytes, and moves them with instructions that
 * need alignment (gcc's bug 54412). The assembler replaces them by instructions that do not. These are as fast. */
#define TH_UNALIGNED(aligned, unaligned) ".macro " aligned " o:vararg\\n\\t" unaligned " \\\\o\\n\\t.endm\\n\\t"
__asm__(TH_UNALIGNED("vmovaps", "vmovups") TH_UNALIGNED("vmovapd", "vmovupd") TH_UNALIGNED("vmovdqa", "vmovdqu")
        TH_UNALIGNED("vmovdqa32", "vmovdqu32") TH_UNALIGNED("vmovdqa64", "vmovdqu64"));
#undef TH_UNALIGNED
#endif

#include "tapehead.h"
"""


def main():
    root, commit, out = sys.argv[1:4]
    two = TwoFiles(root, commit, "--models" in sys.argv[4:])
    header = two.header()
    source = two.source() + "\n/*\n" + (two.root / "LICENSE").read_text(encoding="utf-8") + "*/\n"
    Path(out).mkdir(parents=True, exist_ok=True)
    for name, text in (("tapehead.h", header), ("tapehead.c", source)):
        (Path(out) / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
