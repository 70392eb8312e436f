#!/usr/bin/env python3
"""Joins C sources to one file: follows includes, and makes the names of each file unique.

    lists of sources    CMakeLists (reads the lists that the build uses, so that a new file is not forgotten)
    one file of many    Joiner.read (puts each header where it is first included)
    unique names        file_names (what a file defines for itself), rename
"""
import os
import re
import textwrap
from pathlib import Path

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\.?\d(?:[eEpP][+-]|[\w.])*|[A-Za-z_]\w*'
                   r'|\s+|->|##|\.\.\.|.', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"].*$')
DIRECTIVE = re.compile(r'^[ \t]*#[ \t]*(\w+)')
GUARD = re.compile(r'^#ifndef (TH_\w+_H|TAPEHEAD_\w+_H)\n#define \1\n', re.M)
COLUMNS = 120


# -- the lists of the build --

class CMakeLists:
    """The lists of CMakeLists.txt and cmake/: what file(GLOB), set and list(REMOVE_ITEM) give, and the generated lists."""

    def __init__(self, root):
        self.root = Path(root)
        self.variables = {"tapehead_SOURCE_DIR": [str(self.root)]}
        self.lists = {}
        for name in ("cmake/architecture.cmake", "cmake/kernels.cmake", "CMakeLists.txt"):
            for command, words in self._commands((self.root / name).read_text(encoding="utf-8")):
                self._run(command, words)

    @staticmethod
    def _commands(text):
        """Returns the commands that begin a line, or are indented in a function: (name, words)."""
        text = re.sub(r'^\s*#.*$', '', text, flags=re.M)
        for match in re.finditer(r'^[ \t]*(\w+)\(((?:"(?:\\.|[^"\\])*"|[^()"]|\([^()]*\))*)\)', text, re.M):
            words = re.findall(r'"((?:\\.|[^"\\])*)"|([^\s"]+)', match.group(2))
            yield match.group(1), [re.sub(r'\\(.)', lambda m: {'n': '\n'}.get(m.group(1), m.group(1)), a) if a else b
                                   for a, b in words]

    def expand(self, words):
        """Replaces ${NAME} by the words of the variable."""
        result = []
        for word in words:
            whole = re.fullmatch(r'\$\{(\w+)\}', word)
            if whole:
                result += self.variables.get(whole.group(1), [])
            else:
                result.append(re.sub(r'\$\{(\w+)\}', lambda m: ";".join(self.variables.get(m.group(1), [])), word))
        return result

    def _run(self, command, words):
        if command == "project" and "VERSION" in words:
            self.variables["version"] = [words[words.index("VERSION") + 1]]
        elif command == "set" and words and re.fullmatch(r'\w+', words[0]):
            self.variables[words[0]] = self.expand(words[1:])
        elif command == "file" and words[0].startswith("GLOB"):
            patterns = [w for w in words[2:] if w != "CONFIGURE_DEPENDS"]
            self.variables[words[1]] = sorted(str(f) for pattern in patterns
                                              for f in self._glob(pattern, words[0] == "GLOB_RECURSE"))
        elif command == "list" and words[0] == "REMOVE_ITEM" and words[1] in self.variables:
            others = set(self.expand(words[2:]))
            self.variables[words[1]] = [f for f in self.variables[words[1]] if f not in others]
        elif command == "tapehead_list" and words[0].endswith(".def"):
            self.lists[words[0]] = self._entries(self.variables[words[1]], words[2:])
        elif command == "tapehead_embed":
            self.lists[words[0]] = self._bytes(words[1], self.expand(words[2:]))
        elif command == "tapehead_embed_each":
            self.lists[words[0]] = "".join(self._bytes(words[1] + re.sub(r'\W', '_', Path(file).name.split(".")[0]), [file])
                                           for file in self.expand(words[2:]))

    def _glob(self, pattern, recursive):
        folder, name = os.path.split(pattern)
        return self.root.glob(f"{folder}/**/{name}" if recursive else pattern)

    def _entries(self, files, rules):
        """As tapehead_list of cmake/lists.cmake."""
        lines = []
        for file in files:
            text = Path(file).read_text(encoding="utf-8")
            for definition, entry in zip(rules[::2], rules[1::2]):
                for match in re.finditer(definition, text):
                    lines.append(re.sub(r'[ \n]+', ' ', match.expand(entry)) + "\n")
        return "".join(lines)

    def _bytes(self, variable, files):
        """As tapehead_embed of cmake/embed.cmake, with decimal numbers."""
        data = b""
        for file in files:
            text = (self.root / file).read_text(encoding="utf-8")
            if file.endswith((".js", ".css")):
                text = re.sub(r'(^|\n) */\*([^*]|\*[^/])*\*/', r'\1', text)
                text = re.sub(r'\n[ \n]+', '\n', text)
            data += text.encode() + b"\n"
        numbers = textwrap.fill(", ".join(map(str, data + b"\0")), COLUMNS - 4)
        return f"static const unsigned char {variable}[] = {{\n{textwrap.indent(numbers, '    ')}\n}};\n"


# -- names --

def without_comments(text):
    return re.sub(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', lambda m: m.group(0) if m.group(0)[0] == '"' else ' ', text,
                  flags=re.S)


def macros(text):
    """The macros that a file defines."""
    return set(re.findall(r'^[ \t]*#[ \t]*define[ \t]+(\w+)', without_comments(text), re.M))


def identifiers(text):
    """All identifiers outside comments and strings."""
    return {t for t in TOKEN.findall(text) if t[0].isalpha() or t[0] == '_'}


def _declarations(text):
    """The declarations at file scope, each a list of tokens. The body of a function is the token {}."""
    text = re.sub(r'^[ \t]*#(?:\\\n|[^\n])*', '', without_comments(text), flags=re.M)
    declaration, depth, parentheses = [], 0, 0
    for token in TOKEN.findall(text):
        if token.isspace():
            continue
        declaration.append(token)
        depth += (token == '{') - (token == '}')
        parentheses += (token == '(') - (token == ')')
        ends = token == ';' or (token == '}' and _is_function(declaration))
        if ends and depth == 0 and parentheses == 0:
            yield declaration
            declaration = []


def _is_function(declaration):
    """Whether the body that ended is that of a function: the token before its first brace is a parenthesis."""
    first = declaration.index('{')
    head = declaration[:first]
    return bool(head) and head[-1] == ')' and '=' not in head and head[0] != 'typedef'


def _drop_groups(tokens, opening, closing):
    """Removes what stands in brackets, and the brackets."""
    result, depth = [], 0
    for token in tokens:
        depth += token == opening
        if depth == 0:
            result.append(token)
        depth -= token == closing
    return result


def _without_attributes(tokens):
    result, i = [], 0
    while i < len(tokens):
        if tokens[i] in ('__attribute__', '_Alignas'):
            depth, i = 0, i + 1
            while i < len(tokens):
                depth += (tokens[i] == '(') - (tokens[i] == ')')
                i += 1
                if depth == 0:
                    break
        else:
            result.append(tokens[i])
            i += 1
    return result


def _is_name(token):
    return bool(re.fullmatch(r'[A-Za-z_]\w*', token))


def _declared(tokens):
    """The names that a declaration of functions or variables declares."""
    head = _drop_groups(tokens, '{', '}')
    if '=' in head:
        first = head.index('=')
    else:
        first = len(head)
    call = next((i for i in range(1, first) if head[i] == '(' and _is_name(head[i - 1])), None)
    if call is not None and head[call + 1] != '*':
        return {head[call - 1]}
    pointer = next((i for i in range(first - 2) if head[i] == '(' and head[i + 1] == '*'), None)
    if pointer is not None and _is_name(head[pointer + 2]):
        return {head[pointer + 2]}
    head = _drop_groups(_drop_groups(head, '(', ')'), '[', ']')
    names, value = set(), False
    for before, token in zip([''] + head, head + [';']):
        if not value and token in (',', ';', '=') and _is_name(before):
            names.add(before)
        value = token == '=' or (value and token not in (',', ';'))
    return names


def static_macros(texts):
    """The words with which a declaration at file scope is static: static, and macros for it."""
    return {'static'} | {m for text in texts for m in re.findall(r'^[ \t]*#define (\w+) .*\bstatic\b', text, re.M)}


def file_names(text, static=('static',)):
    """The names that a file defines for itself: static functions and variables, types, tags and enumerators."""
    names = set()
    for declaration in _declarations(text):
        tokens = _without_attributes(declaration)
        for i, token in enumerate(tokens):
            if token in ('struct', 'union', 'enum') and i + 1 < len(tokens):
                if _is_name(tokens[i + 1]) and i + 2 < len(tokens) and tokens[i + 2] in ('{', ';'):
                    names.add(tokens[i + 1])
                if token == 'enum' and '{' in tokens[i + 1:i + 3]:
                    start = tokens.index('{', i)
                    body = tokens[start:tokens.index('}', start)]
                    names |= {t for before, t in zip(body, body[1:]) if before in ('{', ',') and _is_name(t)}
        if tokens[0] == 'typedef':
            names |= _declared([t for t in tokens[1:]])
        else:
            # (a macro without a semicolon may stand before the declaration)
            head = tokens[:tokens.index('{')] if '{' in tokens else tokens
            start = max((i for i, t in enumerate(head) if t in static), default=None)
            if start is not None and not _is_function_of_macro(tokens):
                names |= _declared(tokens[start:])
    return names


def _is_function_of_macro(tokens):
    """Whether a macro makes the name: static void TH_KERNEL(name)(...)."""
    return any(a == ')' and b == '(' for a, b in zip(tokens, tokens[1:tokens.index('{')] if '{' in tokens else tokens[1:])) \
        and 'TH_KERNEL' in tokens


def rename(text, names, keep=()):
    """Replaces names (old: new), except members of structures and arguments of the macros `keep`."""
    tokens = TOKEN.findall(text)
    result, structures, depth, before, header = [], [], 0, '', []
    parentheses, kept = 0, []
    for i, token in enumerate(tokens):
        if token == '{':
            depth += 1
            if any(t in ('struct', 'union') for t in header) and '=' not in header and ')' not in header[-1:]:
                structures.append(depth)
            header = []
        elif token == '}':
            if structures and structures[-1] == depth:
                structures.pop()
            depth -= 1
            header = []
        elif token == ';':
            header = []
        elif not token.isspace() and not token.startswith('/*'):
            header.append(token)
        if token == '(':
            parentheses += 1
            if before in keep:
                kept.append(parentheses)
        elif token == ')':
            if kept and kept[-1] == parentheses:
                kept.pop()
            parentheses -= 1
        if token in names and before not in ('.', '->') and not kept and not _is_member(tokens, i, before, structures, depth):
            result.append(names[token])
        else:
            result.append(token)
        if not token.isspace() and not token.startswith(('/*', '//')):
            before = token
    return ''.join(result)


def _is_member(tokens, i, before, structures, depth):
    if not structures or structures[-1] != depth:
        return False
    rest = ''.join(tokens[i + 1:i + 5]).lstrip()
    return rest[:1] in (';', ',', '[', ':') or (before == '*' and rest.startswith(')('))


# -- joining --

class Joiner:
    """Reads files with the headers that they include. A header stands where it is first included outside of conditions."""

    def __init__(self, folders, lists):
        self.folders = [Path(f) for f in folders]
        self.lists = lists
        self.seen = set()    # headers that stand in the text
        self.system = set()  # headers of the system, included without conditions
        self.change = lambda path, text: text

    def find(self, name, folder):
        for place in [folder] + self.folders:
            if (place / name).is_file():
                return (place / name).resolve()
        return None

    def read(self, path, conditional=False):
        """The text of the file, each include replaced by the header's text."""
        path = Path(path).resolve()
        return self._join(self.change(path, path.read_text(encoding="utf-8")), path, conditional)

    def _join(self, text, path, conditional):
        guarded = bool(GUARD.search(text)) and path.suffix == ".h"
        depth, lines = -1 if guarded else 0, []
        for line in text.split("\n"):
            include = INCLUDE.match(line)
            if include:
                line = self._include(include, line, path, conditional or depth > 0)
                if line is not None:
                    lines.append(line)
                continue
            directive = DIRECTIVE.match(line)
            if directive:
                depth += directive.group(1) in ("if", "ifdef", "ifndef")
                depth -= directive.group(1) == "endif"
            lines.append(line)
        return "\n".join(lines)

    def _include(self, include, line, path, conditional):
        """Returns what replaces the line, or None."""
        kind, name = include.groups()
        if name in self.lists:
            return self.lists[name].rstrip("\n")
        file = None if kind == "<" and not name.startswith("tapehead/") else self.find(name, path.parent)
        if file is None:
            if kind == '"':
                raise SystemExit(f"{path}: no file {name}")
            if conditional:
                return line
            self.system.add(name)
            return None
        if file in self.seen:
            return None
        if not conditional:
            self.seen.add(file)
        return f"/* ---- {self.name(file)} ---- */\n{self.read(file, conditional)}"

    def name(self, file):
        """The path in the tree, for separators."""
        for folder in self.folders:
            if folder in file.parents:
                return str(file.relative_to(folder.parent))
        return file.name


def separator(name):
    return f"\n/* ==== {name} ==== */\n"


def tidy(text):
    """Removes empty lines at the ends of files and more than one in a row."""
    return re.sub(r'\n{3,}', '\n\n', text)


def unique_name(name, file, taken):
    """A name of a file that no other file uses: plan of dense.c becomes dense_plan."""
    parts = [re.sub(r'\W', '_', p) for p in Path(file).with_suffix('').parts]
    for count in range(1, len(parts) + 1):
        result = '_'.join(parts[-count:]) + '_' + name
        result = result.upper() if name.isupper() else result
        if result not in taken:
            taken.add(result)
            return result
    raise SystemExit(f"{file}: no unique name for {name}")
