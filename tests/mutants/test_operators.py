"""Checks the parts of the mutation testing tool that need no build: the mutants of a small text, and equivalents.txt."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import choose
import equivalents
import operators

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


if __name__ == "__main__":
    unittest.main()
