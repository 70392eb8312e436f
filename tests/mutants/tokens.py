"""Splits C code into tokens and finds the parts that mutants change: bodies of functions, enumerations, initializers."""

import re
from dataclasses import dataclass

PATTERN = re.compile(
    r"""
    (?P<skip>\s+|/\*.*?\*/|//[^\n]*|(?:(?<=\n)|\A)[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<char>'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<operator><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)

TYPES = set(
    "bool char const double enum extern float inline int long restrict short signed size_t ssize_t static struct union unsigned"
    " void volatile register _Thread_local _Atomic _Alignas FILE DIR".split()
)
KEYWORDS = TYPES | set("break case continue default do else for goto if return sizeof switch while typedef _Alignof".split())
OPENING = {"(": ")", "[": "]", "{": "}"}


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int


class Code:
    """The tokens of a file. match[i] is the bracket that belongs to bracket i; part[i] names what contains token i."""

    def __init__(self, text):
        self.text = text
        self.tokens = [
            Token(m.lastgroup, m.group(), m.start(), m.end()) for m in PATTERN.finditer(text) if m.lastgroup != "skip"
        ]
        self.match = self._match()
        self.part, self.functions = self._parts()

    def __getitem__(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def source(self, first, last):
        """The text from token `first` to token `last`, both included."""
        return self.text[self.tokens[first].start : self.tokens[last].end]

    def _match(self):
        match, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token.kind != "operator":
                continue
            if token.text in OPENING:
                stack.append(i)
            elif stack and token.text == OPENING[self.tokens[stack[-1]].text]:
                match[i] = stack.pop()
                match[match[i]] = i
        return match

    def _parts(self):
        """A brace at the top level opens a body after `)`, an initializer after `=`, an enumeration after `enum`."""
        part, functions, i, start = {}, [], 0, 0
        while i < len(self.tokens):
            text = self[i]
            if text == ";":
                start = i + 1
            if text == "{":
                end = self.match.get(i, len(self.tokens) - 1)
                words = {self[k] for k in range(start, i)}
                if self[i - 1] == ")":
                    kind = "body"
                    functions.append((start, i, end))
                elif self[i - 1] == "=":
                    kind = "initializer"
                else:
                    kind = "enum" if "enum" in words else "declaration"
                for k in range(i + 1, end):
                    part[k] = kind
                i = end
                if kind == "body":
                    start = i + 1
            elif text == "=" and self[i + 1] != "{":
                while self[i] not in (";", ""):
                    part[i] = "initializer"
                    i += 1
                start = i + 1
            i += 1
        return part, functions

    # -- what a token is --

    def is_type_name(self, i):
        text = self[i]
        return text in TYPES or text.endswith("_t") or bool(re.match(r"th_\w+$", text) and self[i + 1] == "*")

    def is_cast_end(self, i):
        """Whether `)` ends a cast, sizeof(type) or the type of a compound literal."""
        if self[i] != ")" or i not in self.match:
            return False
        first = self.match[i] + 1
        if self[first - 1] == "sizeof":
            return False
        inner = [self[k] for k in range(first, i)]
        if not inner or any(not re.match(r"\w+$|\*$|\[$|\]$", word) for word in inner):
            return False
        return inner[-1] == "*" or self.is_type_name(first) or (len(inner) == 1 and inner[0].startswith("th_"))

    def ends_operand(self, i):
        if i < 0:
            return False
        token = self.tokens[i]
        if token.kind in ("number", "char", "string"):
            return True
        if token.kind == "name":
            return token.text not in KEYWORDS
        return token.text == "]" or (token.text == ")" and not self.is_cast_end(i) and not self.is_control(i))

    def is_control(self, i):
        """Whether `)` ends the head of if, for, while or switch."""
        return self[self.match.get(i, 0) - 1] in ("if", "for", "while", "switch")

    def starts_statement(self, i):
        before = self[i - 1]
        if before in ("{", "}") and not self.is_block(i - 1 if before == "{" else self.match.get(i - 1, i - 1)):
            return False
        if before in (";", "{", "}", "else", "do"):
            return not self._in_for_head(i)
        return before == ":" and self._after_label(i - 1) or before == ")" and self.is_control(i - 1)

    def is_block(self, i):
        """Whether the brace at i opens a block of statements, not the values of an initializer."""
        before = self[i - 1]
        return before in (";", "{", "}", "else", "do", ":") or before == ")" and not self.is_cast_end(i - 1)

    def _after_label(self, i):
        while i > 0 and self[i] not in (";", "{", "}", "?"):
            if self[i] in ("case", "default"):
                return True
            i -= 1
        return False

    def _in_for_head(self, i):
        depth = 0
        while i > 0:
            i -= 1
            if self[i] in (")", "]", "}"):
                i = self.match.get(i, i)
            elif self[i] in ("(", "["):
                depth += 1
                return self[i - 1] == "for"
            elif self[i] == "{":
                return False
        return False

    def starts_declaration(self, i):
        """Whether a statement declares a variable: `int x`, `const th_tensor *t`, `sum_task task`."""
        if self[i] in TYPES or self[i].endswith("_t") and self.tokens[i + 1].kind == "name":
            return True
        if self.tokens[i].kind != "name" or self[i] in KEYWORDS:
            return False
        k = i + 1
        while self[k] in ("*", "const", "restrict"):
            k += 1
        return k < len(self.tokens) and self.tokens[k].kind == "name" and (self[k + 1] in ("=", ";", ",", "["))

    def statement_end(self, i):
        """The index of the `;` that ends the simple statement at i."""
        while i < len(self.tokens) and self[i] != ";":
            i = self.match.get(i, i) + 1 if self[i] in OPENING else i + 1
        return i

    def whole_statement_end(self, i):
        """The index of the last token of the statement at i, which may be a block or have a head."""
        if self[i] == "{":
            return self.match[i]
        if self[i] in ("if", "for", "while", "switch"):
            end = self.whole_statement_end(self.match[i + 1] + 1)
            return self.whole_statement_end(end + 2) if self[i] == "if" and self[end + 1] == "else" else end
        if self[i] == "do":
            return self.statement_end(self.whole_statement_end(i + 1) + 1)
        return self.statement_end(i)

    def arguments(self, opening):
        """The first and last token of each argument in the brackets that open at `opening`."""
        end, found, first, k = self.match[opening], [], opening + 1, opening + 1
        while k <= end:
            if k == end or self[k] == ",":
                if k > first:
                    found.append((first, k - 1))
                first = k + 1
            k = self.match[k] + 1 if self[k] in OPENING and k in self.match else k + 1
        return found
