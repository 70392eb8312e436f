"""Makes the mutants of a C file: each is one small edit of the text, as a programmer's slip could be."""

import re
from dataclasses import dataclass

from tokens import KEYWORDS, OPENING, Code

REPLACEMENTS = {
    "arithmetic": {
        "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "<<": [">>"], ">>": ["<<"], "&": ["|"], "|": ["&"], "^": ["&"],
        "++": ["--"], "--": ["++"],
        "+=": ["-=", "="], "-=": ["+="], "*=": ["/=", "="], "/=": ["*="], "%=": ["/="], "|=": ["=", "&="], "&=": ["=", "|="],
        "^=": ["="], "<<=": [">>="], ">>=": ["<<="],
    },
    "comparison": {
        "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
    },
    "logical": {"&&": ["||"], "||": ["&&"]},
}  # fmt: skip

# Names of the same kind that a programmer confuses. A pair counts if the file has both names.
PAIRS = """size stride; first last; begin end; start end; min max; left right; width height; rows columns; rows cols; inner outer;
lower upper; low high; source target; offset stride; offset size; next previous; next prev; m n; n k; m k; a b; x y; dx dy; q k; k v;
key value; query key; count capacity; used capacity; length capacity; length size; input output; inputs outputs; before after; head tail;
batch heads; row column; old new; from to; forward backward; size count; i j; i k; j k; numel ndim; begin first; read write;
data grad; kept shared; tokens ids; count first; depth size; step epoch; all one; sum largest; position length; queries keys"""


def swap_table():
    table = {}
    for pair in PAIRS.split(";"):
        a, b = pair.split()
        table.setdefault(a, []).append(b)
        table.setdefault(b, []).append(a)
    return table


SWAPS = swap_table()


@dataclass
class Mutant:
    file: str
    line: int
    column: int
    kind: str
    before: str
    after: str
    start: int
    end: int
    in_function: bool

    @property
    def id(self):
        return f"{self.file}:{self.line}:{self.column}:{self.kind}: {one_line(self.before)} => {one_line(self.after)}"

    def apply(self, text):
        """The text with this edit; later lines keep their numbers."""
        newlines = self.before.count("\n") - self.after.count("\n")
        return text[: self.start] + self.after + "\n" * newlines + text[self.end :]


def one_line(text):
    return " ".join(text.split()) or "(nothing)"


# The order of the first two arguments does not matter: always, or if the result is compared with 0.
SYMMETRIC = {"fmin", "fmax", "th_smaller", "th_larger", "json_equal"}
COMPARING = {"strcmp", "strncmp", "memcmp"}


class Maker:
    def __init__(self, file, text):
        self.file, self.code, self.found = file, Code(text), {}
        self.names = {t.text for t in self.code.tokens if t.kind == "name"}

    def add(self, kind, first, last, after):
        """Replaces the tokens first ... last by `after`."""
        start, end = self.code.tokens[first].start, self.code.tokens[last].end
        text = self.code.text
        if text[start:end] != after and (start, end, after) not in self.found:
            line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
            place = (start, end, self.code.part.get(first) == "body")
            self.found[start, end, after] = Mutant(self.file, line, column, kind, text[start:end], after, *place)

    def mutants(self):
        for i in range(len(self.code.tokens)):
            if self.code.part.get(i) in ("body", "initializer", "enum"):
                self.token(i)
        for start, opening, end in self.code.functions:
            self.function(start, opening, end)
        return sorted(self.found.values(), key=lambda m: (m.start, m.end, m.after))

    # -- single tokens --

    def token(self, i):
        code, kind = self.code, self.code.tokens[i].kind
        if kind == "number":
            self.number(i)
        elif kind == "char":
            self.add("constant", i, i, "0")
        elif kind == "operator":
            self.operator(i)
        elif code[i] in ("true", "false"):
            self.add("constant", i, i, "false" if code[i] == "true" else "true")
        elif code[i] not in KEYWORDS and code[i - 1] != "goto" and not code.is_type_name(i):
            for other in SWAPS.get(code[i], []):
                if other in self.names:
                    self.add("name", i, i, other)

    def number(self, i):
        code, text = self.code, self.code[i]
        if code[i - 1] == "[" and code[i + 1] == "]" and self.declares_array(i):
            return  # the size of an array
        if re.fullmatch(r"(0[xX][\da-fA-F]+|\d+)[uUlL]*", text):
            value = int(re.sub(r"[uUlL]+$", "", text), 16 if text[:2] in ("0x", "0X") else 10)
            choices = [value + 1] + ([value - 1] if value > 0 else []) + ([0] if value > 1 else [])
            for choice in choices:
                self.add("index" if code[i - 1] == "[" else "constant", i, i, str(choice))
        elif float.fromhex(text.rstrip("fFlL")) if text[:2] in ("0x", "0X") else float(text.rstrip("fFlL")):
            self.add("constant", i, i, f"({text} * 1.5)")
            self.add("constant", i, i, "0.0")
        else:
            self.add("constant", i, i, "1.0")

    def declares_array(self, i):
        k = i - 2  # the array's name
        while k > 0 and self.code[k - 1] not in (";", "{", "}", "("):
            k -= 1
        return self.code.starts_declaration(k) and not any(self.code[j] == "=" for j in range(k, i))

    def operator(self, i):
        code, text = self.code, self.code[i]
        if text in ("-", "+", "*", "&") and not code.ends_operand(i - 1):
            if text == "-":
                self.add("arithmetic", i, i, " ")
            return
        if text == "*" and self.is_pointer_declaration(i):
            return
        if text == "!" or text == "~":
            self.add("logical", i, i, " ")
        for kind, table in REPLACEMENTS.items():
            for other in table.get(text, []):
                self.add(kind, i, i, other)
        if text in ("&&", "||"):
            left, right = self.operand_left(i), self.operand_right(i)
            self.add("condition", left, right, code.source(left, i - 1))
            self.add("condition", left, right, code.source(i + 1, right))
        elif text == "?":
            left = self.operand_left(i)
            self.add("condition", left, i - 1, "1")
            self.add("condition", left, i - 1, "0")
        elif text == "[" and code.ends_operand(i - 1) and code.match.get(i, i) > i + 1:
            self.index(i)
        elif text == "=" and code[i - 1] != "]" and code[i - 2] == "." and code[i + 1] != "{":
            self.initializer(i)
        if text in REPLACEMENTS["comparison"] or text in ("=", "+=", "-="):
            self.offset(i)

    def index(self, i):
        code, last = self.code, self.code.match[i] - 1
        if code.tokens[i + 1].kind == "number" and last == i + 1 or self.declares_array(i + 1):
            return
        inner = code.source(i + 1, last)
        self.add("index", i + 1, last, f"({inner}) + 1" if last > i + 1 else f"{inner} + 1")
        self.add("index", i + 1, last, "0")

    def initializer(self, i):
        """A field of an initializer: `.seed = seed` becomes `.seed = 0`."""
        k = i + 1
        while self.code[k] not in (",", "}", ")", ";", ""):
            k = self.code.match[k] + 1 if self.code[k] in OPENING and k in self.code.match else k + 1
        self.add("initializer", i + 1, k - 1, "0")

    def offset(self, i):
        """The right side of a comparison or an assignment is 1 too large, or twice as large."""
        code, last = self.code, self.operand_right(i)
        value = code.source(i + 1, last)
        if last == i + 1 and (code.tokens[last].kind != "name" or value in ("NULL", "TH_OK", "true", "false")) or value[:1] == "{":
            return
        self.add("offset", i + 1, last, f"1 + ({value})" if last > i + 1 else f"1 + {value}")
        if code[i] in ("<", "<=", ">", ">="):
            self.add("offset", i + 1, last, f"2 * ({value})" if last > i + 1 else f"2 * {value}")

    def is_pointer_declaration(self, i):
        first = i - 1
        while self.code[first] not in (";", "{", "}", "(", ",", ""):
            first -= 1
        return self.code.starts_declaration(first + 1) and not any(self.code[k] == "=" for k in range(first, i))

    # Operands end at brackets, at operators that bind less tightly, and at the ends of the expression.
    def ends_of(self, i):
        looser = {"&&": {"||", "?", ":"}, "||": {"?", ":"}, "?": {":"}, "=": set(), "+=": set(), "-=": set()}
        return looser.get(self.code[i], {"&&", "||", "?", ":"}) | {
            ",", ";", "=", "return", "{", "}", "(", "[", ")", "]", "+=", "-=", "*=", "/=", "|=", "&=", "case", ""
        }  # fmt: skip

    def operand_left(self, i):
        k, stop = i - 1, self.ends_of(i)
        while True:
            if self.code[k] in (")", "]", "}") and k in self.code.match:
                k = self.code.match[k] - 1
            elif self.code[k] in stop:
                return k + 1
            else:
                k -= 1

    def operand_right(self, i):
        k, stop = i + 1, self.ends_of(i)
        while True:
            if self.code[k] in OPENING and k in self.code.match:
                k = self.code.match[k] + 1
            elif self.code[k] in stop or self.code[k] == self.code[i]:
                return k - 1
            else:
                k += 1

    # -- statements and calls --

    def function(self, start, opening, end):
        words = [self.code[k] for k in range(start, opening)]
        returns_bool = "bool" in words[: words.index("(")] and "*" not in words[: words.index("(")]
        returns_nothing = "void" in words[: words.index("(")] and "*" not in words[: words.index("(")]
        i = opening + 1
        while i < end:
            if self.code.starts_statement(i):
                self.statement(i, end, returns_bool, returns_nothing)
            if self.code[i] == "(" and i in self.code.match:
                self.call(i)
            i += 1

    def statement(self, i, end, returns_bool, returns_nothing):
        code, word = self.code, self.code[i]
        if word in ("if", "while", "switch", "for"):
            self.head(i)
        elif word in ("break", "continue", "goto"):
            self.add("removed", i, code.statement_end(i) - 1, "")
        elif word == "return":
            self.returned(i, end, returns_bool, returns_nothing)
        elif code.tokens[i].kind == "name" and code.starts_declaration(i):
            self.declaration(i)
        elif word not in KEYWORDS and word not in ("{", "}", ";", "static_assert") and code[i + 1] != ":":
            last = code.statement_end(i)
            if last < end and code.source(i, last)[:6] != "(void)":
                self.add("removed", i, last - 1, "")

    def head(self, i):
        code, opening = self.code, i + 1
        closing = code.match[opening]
        if code[i] in ("if", "while"):
            for value in ["1", "0"] if code[i] == "if" else ["0"]:
                self.add("condition", opening + 1, closing - 1, value)
        if code[i] == "if":
            last = code.whole_statement_end(closing + 1)
            if code[last + 1] == "else":
                self.add("removed", last + 1, code.whole_statement_end(last + 2), "")

    def declaration(self, i):
        """`const int64_t n = f(x);` becomes `const int64_t n = 0;`."""
        code, last, k = self.code, self.code.statement_end(i), i
        while k < last:
            if code[k] == "=" and code[k + 1] != "{" and code[i] != "static":
                stop = k + 1
                while stop < last and code[stop] != ",":
                    stop = code.match[stop] + 1 if code[stop] in OPENING and stop in code.match else stop + 1
                self.add("initializer", k + 1, stop - 1, "0")
                k = stop
            k = code.match[k] + 1 if code[k] in OPENING and k in code.match else k + 1

    def returned(self, i, end, returns_bool, returns_nothing):
        code, last = self.code, self.code.statement_end(i)
        if last > i + 1:
            if returns_bool:
                self.add("return", i + 1, last - 1, "true")
                self.add("return", i + 1, last - 1, "false")
            elif last > i + 2 or code.tokens[i + 1].kind != "number" and code[i + 1] not in ("NULL", "TH_OK"):
                self.add("return", i + 1, last - 1, "0")
        if last + 1 < end and not (code[i - 1] == ")" and code.is_control(i - 1) and code[code.match[i - 1] - 1] == "if"):
            if code[i - 1] != "else" and (returns_nothing or code[last + 1] == "}"):
                self.add("removed", i, last - 1, "")

    def call(self, opening):
        code, name = self.code, self.code[opening - 1]
        if code.tokens[opening - 1].kind != "name" or name in KEYWORDS or name.isupper():
            return
        arguments = code.arguments(opening)
        end = code.match[opening]
        is_symmetric = name in SYMMETRIC or (
            name in COMPARING and code[end + 1] in ("==", "!=") and code[end + 2] == "0"
        )
        for number, ((a, b), (c, d)) in enumerate(zip(arguments, arguments[1:])):
            if is_symmetric and number == 0:
                continue
            left, right = code.source(a, b), code.source(c, d)
            if left != right and not left.startswith('"') and not right.startswith('"'):
                gap = code.text[code.tokens[b].end : code.tokens[c].start]
                self.add("arguments", a, d, right + gap + left)
        for a, b in arguments:
            if not (a == b and code.tokens[a].kind in ("number", "string")) and code[a] not in ("NULL", "sizeof", "true", "false"):
                self.add("argument", a, b, "0")


def mutants_of(file, text):
    """All mutants of a C file in the order of the text."""
    return Maker(file, text).mutants()
