"""Chat templates for comparisons with transformers: texts gathered from packages, and conversations.

A text is a string that has the tags of a template: a file *.jinja, or a string in a file of Python, JavaScript, TypeScript
or C++, of an archive: a wheel, a source archive of PyPI, or what git archive makes. The texts are not kept in this
repository."""
import ast
import pathlib
import re

import common

TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather of a city.\nIt's \"now\".",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city <name>"},
                                                    "days": {"type": "integer", "enum": [1, 2]}},
                   "required": ["city"]}}}
CALL = {"id": "call00001", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2}}}


def user(text):
    return {"role": "user", "content": text}


def answer(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def conversations():
    """Returns variables of templates: 20 conversations."""
    called = [user("Weather?"), answer("", tool_calls=[CALL]),
              {"role": "tool", "name": "get_weather", "content": "sunny", "tool_call_id": "call00001"}]
    lists = [
        [user("Hi")],
        [user(" \n Hi \n "), answer(" \n Hello \n ")],
        [system("Be brief."), user("Hi")],
        [system(" Be brief.\n"), user("Hi"), answer("Hello"), user("Bye")],
        [system("Be brief."), user("Hi"), answer("Hello"), user("Bye"), answer("See you")],
        [user("1"), answer("2"), user("3"), answer("4"), user("5"), answer("6")],
        [system(""), user("Hi"), answer("Hello")],
        [user(""), answer("")],
        [],
        [answer("Hello"), user("Hi")],
        [user("Hi"), user("Ho")],
        [user("é ÿ 日本語 🎉 \u200b"), answer("ß 'quoted' \"double\" \\ <b>&amp;</b>")],
        [user("1"), answer("<think>\nwell\n</think>\n\n2"), user("3"), answer("<think>\nhm\n</think>\n\n4")],
        [user("1"), answer("2", reasoning_content="because"), user("3")],
        [system("/no_think"), user("Hi"), answer("Hello")],
        called,
        called + [answer("It is sunny.")],
        [user([{"type": "text", "text": "Look"}, {"type": "text", "text": "here"}]), answer("Yes")],
    ]
    made = [{"messages": messages} for messages in lists]
    made.append({"messages": [system("Be brief."), user("Weather?")], "tools": [TOOL]})
    made.append({"messages": [user("Hi")], "enable_thinking": False})
    for i, variables in enumerate(made):
        variables.setdefault("tools", [TOOL] if variables["messages"][:1] == called[:1] else None)
        variables.update(documents=None, bos_token="<s>", eos_token="</s>", add_generation_prompt=i % 2 == 0)
    return made


def is_template(text):
    return 60 < len(text) < 200000 and "{%" in text and "%}" in text and ("message" in text or "role" in text)


def strings_of(source):
    """Yields the strings of a Python file, with constants that are added to each other joined."""
    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = value(node.left), value(node.right)
            return left + right if left is not None and right is not None else None
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        text = value(node) if isinstance(node, (ast.Constant, ast.BinOp)) else None
        if text is not None:
            yield text


STRING = r'''"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`'''
STRINGS = re.compile(rf"(?:{STRING})(?:\s*\+?\s*(?:{STRING}))*", re.DOTALL)
RAW = re.compile(r'R"([^()\s]{0,16})\((.*?)\)\1"', re.DOTALL)
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\n|.)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}


def strings_of_c(source):
    """Yields the strings of a file of JavaScript or C++, with adjacent ones joined."""
    def unescape(match):
        text = match.group(1)
        return chr(int(text[1:], 16)) if len(text) > 2 else ESCAPES.get(text, text)
    for group in STRINGS.finditer(source):
        yield "".join(ESCAPE.sub(unescape, one.group(0)[1:-1])
                      for one in re.finditer(STRING, group.group(0), re.DOTALL))
    for raw in RAW.finditer(source):
        yield raw.group(2)


WANTED = (".jinja", ".py", ".jinja2", ".js", ".ts", "test-chat-template.cpp", "test-chat.cpp")


def gather(folder):
    """Returns {text: name} of the distinct templates in a folder's archives."""
    found = {}
    for path in sorted(pathlib.Path(folder).iterdir()):
        for name, read in common.members(path):
            if not name.endswith(WANTED):
                continue
            text = read().decode("utf-8", "replace")
            texts = (strings_of(text) if name.endswith(".py") else [text] if ".jinja" in name else strings_of_c(text))
            for one in texts:
                if is_template(one):
                    found.setdefault(one, f"{path.name.split('-')[0]}: {name}")
    return found
