"""Checks the parts of the mutation testing tool that need no build of the library: the mutants of a small text,
equivalents.txt, and how mutants of vector kernels are compiled."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import build
import choose
import coverage_map
import equivalents
import operators
import unit
import vector

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

CODE = r"""/* a + b; return 1; */
#include <stdio.h>
#define TWICE(x) ((x) + \
                  (x))
enum { CHUNK = 16 };
static bool fits(const th_array *a, int64_t size)
{
    // size > 3
    char text[40] = "1 + 2 /* no */";
    for (int64_t i = 0; i < size; i++) {
        if (a->stride[i] >= CHUNK && !a->data)
            continue;
        else
            print(text, '"', *a->stride - 1);
    }
    const struct pair p = {.first = size};
    free(text);
    return size > (int64_t)-2;
}
"""


def edits(code=CODE):
    return {(m.line, m.kind, operators.one_line(m.before), operators.one_line(m.after)) for m in operators.mutants_of("a.c", code)}


class Operators(unittest.TestCase):
    def test_expected_mutants(self):
        expected = [
            (5, "constant", "16", "17"),
            (5, "constant", "16", "15"),
            (10, "constant", "0", "1"),
            (10, "comparison", "<", "<="),
            (10, "comparison", "<", ">="),
            (10, "arithmetic", "++", "--"),
            (10, "offset", "size", "1 + size"),
            (11, "offset", "CHUNK", "2 * CHUNK"),
            (16, "offset", "size", "1 + size"),
            (11, "name", "stride", "size"),
            (11, "index", "i", "i + 1"),
            (11, "index", "i", "0"),
            (11, "comparison", ">=", ">"),
            (11, "logical", "&&", "||"),
            (11, "logical", "!", "(nothing)"),
            (11, "condition", "a->stride[i] >= CHUNK && !a->data", "!a->data"),
            (11, "condition", "a->stride[i] >= CHUNK && !a->data", "1"),
            (12, "removed", "continue", "(nothing)"),
            (13, "removed", "else print(text, '\"', *a->stride - 1);", "(nothing)"),
            (14, "removed", "print(text, '\"', *a->stride - 1)", "(nothing)"),
            (14, "arguments", "text, '\"'", "'\"', text"),
            (14, "argument", "text", "0"),
            (14, "arithmetic", "-", "+"),
            (16, "initializer", "size", "0"),
            (17, "removed", "free(text)", "(nothing)"),
            (18, "comparison", ">", ">="),
            (18, "return", "size > (int64_t)-2", "true"),
            (18, "arithmetic", "-", "(nothing)"),
        ]
        found = edits()
        for edit in expected:
            self.assertIn(edit, found)

    def test_no_mutants_of_other_text(self):
        for line, _, before, after in edits():
            self.assertNotIn(line, (1, 2, 3, 4, 6, 8), before)  # comments, preprocessor lines, the head of a function
            self.assertFalse(line == 9 and before != '"1 + 2 /* no */"', (before, after))  # an array's size, a string
            self.assertNotEqual((line, before), (14, "*"))  # not a multiplication
            self.assertNotEqual((line, before), (18, "int64_t"))

    def test_no_swap_in_symmetric_calls(self):
        text = "int f(char *a, char *b)\n{\n    if (strcmp(a, b) == 0 || memcmp(a, b, 4) != 0)\n        return strcmp(a, b);\n"
        text += "    return fmin(*a, *b) + g(a, b);\n}\n"
        swaps = {(line, before) for line, kind, before, _ in edits(text) if kind == "arguments"}
        self.assertEqual(swaps, {(3, "b, 4"), (4, "a, b"), (5, "a, b")})

    def test_each_mutant_changes_its_place_only(self):
        for mutant in operators.mutants_of("a.c", CODE):
            text = mutant.apply(CODE)
            self.assertNotEqual(text, CODE)
            self.assertEqual(text.count("\n"), CODE.count("\n"), mutant.id)
            self.assertTrue(text.endswith(CODE[mutant.end :]))
            self.assertEqual(CODE.split("\n")[mutant.line - 1][mutant.column - 1 :][:1], mutant.before[:1])

    def test_samples_depend_on_the_seed_only(self):
        mutants = operators.mutants_of("a.c", CODE)
        one, again, other = (choose.sample(mutants, 12, seed) for seed in (1, 1, 2))
        self.assertEqual([m.id for m in one], [m.id for m in again])
        self.assertNotEqual([m.id for m in one], [m.id for m in other])
        self.assertEqual(len({m.id for m in one}), 12)
        self.assertGreater(len({m.line for m in one}), 8)
        everything = choose.sample(mutants, len(mutants) + 1, 1)
        self.assertEqual([m.id for m in everything], [m.id for m in mutants])


class Equivalents(unittest.TestCase):
    def test_each_entry_matches_a_mutant_of_the_sources(self):
        entries = equivalents.read()
        self.assertEqual([f"line {entry.number}: {entry.file}" for entry in equivalents.unmatched(entries, ROOT)], [])


class Coverage(unittest.TestCase):
    def test_tests_of_a_line(self):
        one, other = unit.Unit("test_a", "one", (), 0, blocks=1), unit.Unit("test_a", "other", (), 1, blocks=6)
        found = coverage_map.Map.__new__(coverage_map.Map)
        found.units, found.lines = [one, other], {"src/a/a.c": {3: {0}, 9: {1}}, "src/b/b.c": {1: {2}}}
        code = operators.Mutant("src/a/a.c", 4, 1, "", "", "", 0, 0, True)
        table = operators.Mutant("src/a/a.c", 4, 1, "", "", "", 0, 0, False)
        file_of_tables = operators.Mutant("src/b/tables.c", 1, 1, "", "", "", 0, 0, False)
        self.assertEqual(found.covering(code), [one])
        self.assertEqual(found.covering(table), [one, other])
        self.assertEqual(found.covering(file_of_tables), [other])


KERNEL = """int NAME(int x);
int NAME(int x)
{
    return x + BITS;
}
"""


class Vector(unittest.TestCase):
    def test_a_processor_chooses_one_instruction_set(self):
        flags = {"avx2", "fma", "avx512vl", "avx512bw", "avx512dq"}
        self.assertEqual(vector.best(set()), "baseline")
        self.assertEqual(vector.best({"asimd"}), "neon")
        self.assertEqual(vector.best({"avx2", "fma"}), "avx2")
        self.assertEqual(vector.best(flags), "avx512")
        targets = ["f32_baseline", "f32_avx2", "f64_avx2", "f64_avx512", "f64_scalar", "f32_avx512bf16", "f32_amx", "objects"]
        self.assertEqual([t for t in targets if vector.is_chosen(t, {"avx2", "fma"})], ["f32_avx2", "f64_avx2", "f64_scalar"])
        self.assertEqual([t for t in targets if vector.is_chosen(t, flags)], ["f64_avx512", "f64_scalar"])
        self.assertEqual([t for t in targets if vector.is_chosen(t, flags | {"avx512_bf16"})],
                         ["f64_avx512", "f64_scalar", "f32_avx512bf16", "f32_amx"])  # fmt: skip

    def test_every_vector_file_has_mutants_if_the_processor_runs_it(self):
        with open(os.path.join(ROOT, "cmake", "kernels.cmake")) as file:
            instances = set(re.findall(r"tapehead_kernel_instance\(\d+ (\w+)", file.read()))
        self.assertEqual(instances - {"bits"}, set(vector.NEEDED))
        folder = "src/kernels/bfloat16/vector"
        self.assertIsNone(vector.missing(f"{folder}/fma.c", set()))
        self.assertEqual(vector.missing(f"{folder}/amx.c", {"avx2"}), "amx")
        self.assertIsNone(vector.missing(f"{folder}/amx.c", {"avx512_bf16"}))
        self.assertIn(f"{folder}/fma.c", choose.files(ROOT, [folder]))
        self.assertIn("src/kernels/rows/vector/softmax.c", choose.files(ROOT, ["src/kernels/rows/vector/softmax.c"]))

    def test_one_object_has_all_element_types_of_the_set(self):
        best = vector.best(vector.processor_flags())
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "src/k/vector"))
            kernel, unity = os.path.join(root, "src/k/vector/k.c"), os.path.join(root, "unity_0_c.c")
            for path, text in ((kernel, KERNEL), (unity, '#include "src/k/vector/k.c"\n')):
                with open(path, "w") as file:
                    file.write(text)
            commands = {}
            for name in (f"f32_{best}", f"f64_{best}", "f32_other"):
                output = f"CMakeFiles/tapehead_{name}.dir/unity_0_c.c.o"
                command = f"cc -Werror -DBITS={name[1:3]} -DNAME=th_{name} -I{root} -o {output} -c {unity}"
                commands[output] = {"file": unity, "directory": root, "command": command, "output": output}
            made = build.Build(root, os.path.join(root, "build"), 1)
            made.commands = commands
            self.assertEqual(list(made.sources), ["src/k/vector/k.c"])
            mutant, output = os.path.join(root, "mutant.c"), os.path.join(root, "mutant.o")
            with open(mutant, "w") as file:
                file.write(KERNEL.replace("x + BITS", "x - BITS"))
            self.assertEqual(made.compile("src/k/vector/k.c", mutant, output, []), (0, ""))
            names = subprocess.run(["nm", "--defined-only", output], capture_output=True, text=True).stdout
            self.assertEqual(sorted(re.findall(r"T (\w+)", names)), [f"th_f32_{best}", f"th_f64_{best}"])


if __name__ == "__main__":
    unittest.main()
