"""The cases of tests/fixtures/jinja/cases.jsonl: templates of our own, each with what transformers writes for it.

The first line has the variables. Each other line is {"template": ..., "context": ..., "text": ...}, or "error": true instead of the text; "spans" are the bytes of
generation blocks."""
import json

import transformers.utils.chat_template_utils as chat_templates

CONTEXT = {"n": 7, "x": 2.5, "t": True, "z": None, "s": " Ab é日 ", "w": "one two,three", "e": "",
           "l": [3, 1, 2], "d": {"b": 1, "a": [1, {"c": None}], "items": "own"}, "q": "it's \"q\"\n\t\\\u200b\x01",
           "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                        {"role": "assistant", "content": "Hello\nyou"}]}
EXPRESSIONS = """
1 + 2 * 3 - 4 | 7 // 2 | -7 // 2 | -7 % 3 | 7 % -3 | 7 / 2 | 2 ** 10 | 2 ** -1 | 1.5 + 1 | 1e16 | 1e-5 | 0.1 + 0.2 | -0.0 | 5.0 // 2 | -5.5 % 2
1 / 0 | 1 % 0 | 'a' + 1 | 'a' ~ 1 ~ none ~ true | 'ab' * 3 | [1] * 2 + [2] | 2 * (1, 2) | 'a' 'b' | "\\u00e9\\x41\\n\\'" | '\\q' | 9223372036854775807 + 0
(1,) | () | (1, 'a') | [] | {} | {'a': 1, 2: [none]} | [1, 2.0, true, none, 'x'] | 1, 2 | q | [q] | ['é', '\\u200b'] | "it's" | ["it's"] | {'k': "it's"}
n == 7 | n != 7.0 | 1 == true | 'a' < 'b' | [1, 2] < [1, 3] | 1 < 2 < 3 | 1 < 'a' | none < 1 | 1 < 2 > 1 | not n | not not e | n and e | e or n | n and 'x' | missing or 'y'
'a' in 'abc' | 'x' not in 'abc' | 1 in l | 'b' in d | 1 in 'abc' | 1 in missing | 1 in 5 | missing == missing | missing is defined | n is defined
missing | missing.x | missing['x'] | d.missing | d.missing.x | missing + 1 | missing ~ 'a' | missing() | missing[1:] | d['x'] | l[9] | l[-1] | l['a'] | s[2] | s[-2] | d.b | d['b'] | d.a[1].c | d['items'] | l.0
l[1:] | l[:-1] | l[::-1] | l[::2] | l[5:] | l[-2:] | s[1:3] | s[::-1] | s[3:] | s[-3:-1] | l[::0] | n[1:] | l[true:]
n if t | n if z else 'no' | n if z | (n if z) is defined | 1 if 0 else 2 if 0 else 3 | (1 if t else 2) + 1
s.strip() | s.lstrip() ~ '|' | s.rstrip() | w.split() | w.split(',') | w.split(' ', 1) | w.rsplit(' ', 1) | w.split('') | e.split() | e.split(',') | 'a  b '.split(none, 1) | 'xaxbx'.strip('x') | 'a\\nb\\r\\nc'.splitlines() | 'a-b-c'.partition('-') | 'a-b-c'.rpartition('-') | 'abc'.rpartition('-')
w.startswith('one') | w.endswith(('x', 'three')) | w.startswith(1) | w.find('two') | w.find('zz') | w.rfind('e') | w.index('zz') | w.count('o') | w.count('') | w.replace('o', '0') | w.replace('o', '0', 1) | 'ab'.replace('', '-') | w.upper() | 'ÀÉ'.lower() | 'straße'.upper() | "they're bill's".title() | 'hELLO wORLD'.capitalize() | 'ab'.removeprefix('a') | 'ab'.removesuffix('b')
'12'.isdigit() | ''.isdigit() | 'ab1'.isalnum() | 'é'.isalpha() | 'AB'.isupper() | 'aB'.islower() | ' \\n'.isspace() | ','.join(['a', 'b']) | ','.join(l) | '{} {}'.format(1, 'a') | '{0}{x}'.format(1, x=2) | '{'.format() | '%s-%d' % ('a', 3) | '%s' % 1 | '%d' % 'a' | '%%' % () | '%s %s' % 1
d.get('b') | d.get('zz') | d.get('zz', 5) | d.keys() | list | d.items() | d.pop('b') | l.append(4) | l.index(2) | l.count(1) | s.zz | s.zz() | s.__class__ | d.__class__.x | l.sort()
s | trim ~ '!' | s | upper | s | length | l | length | n | length | missing | length | l | join(',') | l | join | d | join('-') | e | default('x') | e | default('x', true) | missing | default('y') | z | d('k') | missing | d | l | first | [] | first | l | last | e | last | missing | first | l | reverse | list | 'abc' | reverse
l | sort | ['b', 'A', 'c'] | sort | ['b', 'A', 'c'] | sort(case_sensitive=true) | l | sort(reverse=true) | [1, 'a'] | sort | messages | map(attribute='role') | list | messages | map(attribute='role') | sort | join(' ') | l | map('string') | list | ['a', 'b'] | map('upper') | join | messages | selectattr('role', 'equalto', 'user') | list | messages | selectattr('zz') | list | messages | rejectattr('role', 'in', ['user', 'system']) | map(attribute='content') | list
l | select('odd') | list | l | reject('odd') | list | [0, 1, ''] | select | list | l | sum | messages | sum(attribute='zz') | l | max | l | min | [] | max | ['a', 'B'] | max | [1, 1, 2, 'a', 'A'] | unique | list | d | dictsort | d | items | list | 5 | items | l | batch(2) | list | l | list | 'abc' | list | 5 | list | z | list
'1.9' | int | 'x' | int | 'x' | int(5) | 2.9 | int | ' 12 ' | int | '1.5' | float | 'x' | float | true | int | -3 | abs | 'a' | abs | 2.5 | round | 3.5 | round | 2.4 | round(method='ceil') | 'a b' | title | 'hELLO' | capitalize | 'ab' | replace('a', 'x') | 1 | string + 'a' | 'a\\nb\\n\\nc' | indent | 'a\\nb' | indent(2, true) | 'a\\n\\nb' | indent('> ', blank=true) | 'a\\n' | indent | 'foo bar baz qux' | truncate(9) | 'foo bar baz qux' | truncate(11, true) | 'a b c' | wordcount
d | tojson | l | tojson | q | tojson | q | tojson(ensure_ascii=true) | '🎉é<>&' | tojson(true) | d | tojson(indent=2) | [] | tojson(indent=2) | {'b': 1, 'a': 2} | tojson(sort_keys=true) | d | tojson(separators=(',', ':')) | x | tojson | missing | tojson | {1: 2, none: 3, true: 4} | tojson | 1e16 | tojson | '<a>' | escape | '<a>' | safe | ('<a>' | safe) + '<b>' | ('<a>' | safe) ~ '<b>' | '<a>' | e | upper
n is number | t is number | t is integer | t is boolean | x is float | s is string | d is mapping | l is sequence | s is iterable | n is iterable | missing is iterable | z is none | n is none | n is odd | n is even | n is divisibleby 7 | n is divisibleby(2) | n is eq 7 | n is sameas 7 | t is true | t is false | 'a' is in 'abc' | n is not none | n is not defined | 'ab' is lower | 'AB' is upper | n is gt 3 | n is zzz | n is callable | range is callable | n is none or t
n | zzz | range(9999999) | list | range('a') | dict(a=1) | dict([('a', 1)], b=2) | namespace(a=1).a | namespace(a=1).b | namespace(_a=1) | raise_exception('no') | loop | self.x ~ '!' | self['x'] is defined | self.x.y | self() | self is defined
""".strip("\n").split("\n")
TEMPLATES = [
    "{% for m in messages %}\n{{ m.role }}: {{ m['content'] }}\n{% endfor %}\n",
    "a\n  {% if t %}\n  b\n  {% endif %}\n c {%- if t -%}  d  {%- endif +%}\n e\n\n",
    "  {%+ if t %} x {% endif %}\n", " {#- c -#} \n x {# c #}\ny\n\n", "{% raw %}{{ x }} {% no %}{% endraw %}!", "a {%- raw -%} \n {{ }} {%- endraw -%} \nb",
    "\n\n{{ n }}\n\n", "{{ n }}\r\nx\r{{ n -}} \n y", "{{- n -}}", "x  {{- n }}  {{ n -}}  y", "", "\n", "\n\n", "x\n",
    "{% for i in l %}{{ loop.index }}/{{ loop.length }}{{ loop.first }}{{ loop.last }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }} {% endfor %}",
    "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }} {% endfor %}",
    "{% for i in l if i > 1 %}{{ loop.index }}{{ i }}{% else %}none{% endfor %}", "{% for i in l if i > 9 %}{{ i }}{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in l %}{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in l %}{% continue %}{% else %}e{% endfor %}", "{% break %}", "{% for i in 5 %}{% endfor %}", "{% for i in missing %}x{% endfor %}",
    "{% set a = 1 %}{% for i in l %}{{ a }}{% set a = i %}{{ a }}{% endfor %}{{ a }}", "{% if t %}{% set a = 1 %}{% endif %}{{ a }}",
    "{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}", "{% set d.x = 1 %}", "{% set ns = namespace() %}{% set ns._a = 1 %}",
    "{% set a, b = 1, 2 %}{{ b }}{{ a }}", "{% set a, b = l %}", "{% set x %}a{{ n }}b{% endset %}{{ x | upper }}", "{% set x | upper %}a{% endset %}{{ x }}",
    "{% macro f(a, b=2) %}{{ a }}-{{ b }};{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(b=5, a=4) }}{{ f() }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f() %}{{ n }}{{ caller() }}{% endmacro %}{% call f() %}in{% endcall %}", "{% macro f() %}{{ caller(1) }}{% endmacro %}{% call(x) f() %}<{{ x }}>{% endcall %}",
    "{% macro f(i) %}{{ i }}{% if i > 0 %}{{ f(i - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro f() %}{{ x2 }}{% endmacro %}{% set x2 = 4 %}{{ f() }}",
    "{% filter upper %}a{{ w }}{% endfilter %}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{{ range(3) | list }}{{ range(1, 7, 2) | list }}{{ range(3, 0, -1) | list }}{{ range(2) | length }}", "{% for m in messages[1:] %}{{ loop.index }}{{ m.role }}{% endfor %}",
    "{% for i in l %}{% for j in l %}{{ loop.depth }}{{ i * j }} {% endfor %}{% endfor %}", "{% if n > 9 %}a{% elif n > 5 %}b{% else %}c{% endif %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content }}é{% endgeneration %}.{% else %}{{ m.role }}{% endif %}{% endfor %}",
    "{% set y %}{% generation %}q{% endgeneration %}{% endset %}a{{ y }}", "{% generation %}{% set a = 1 %}{% endgeneration %}{{ a }}",
    "{% if %}", "{% if t %}", "{{ 1 +", "{{ }}", "{% zz %}", "{% for i l %}{% endfor %}", "{{ 'a }}", "{{ (1 }}", "{{ 1) }}", "{{ a b }}", "{% endif %}", "{# x", "{% raw %}a", "{% include 'x' %}", "{{ 1 | }}", "{{ {'a' 1} }}", "{% set 1 = 2 %}", "{{ f(a=1, 2) }}", "{{ a.1b }}", "}} %} #}", "{ { n } }", "{{ {'a': {'b': 1}}['a'] }}",
]


def expect(template):
    case = {"template": template}
    try:
        compiled = chat_templates._compile_jinja_template(template)
        text, spans = chat_templates._render_with_assistant_indices(
            compiled, CONTEXT["messages"], None, None, False,
            **{k: v for k, v in CONTEXT.items() if k != "messages"})
        case["text"] = text
        if spans:
            case["spans"] = [[len(text[:i].encode()) for i in span] for span in spans]
    except Exception:  # the sandbox's, jinja2's and Python's own
        case["error"] = True
    return case


def lines():
    """Yields the lines of the file."""
    yield json.dumps({"context": dict(CONTEXT, tools=None, documents=None, add_generation_prompt=False)})
    for line in EXPRESSIONS:
        for template in ["{{ %s }}" % line] + ["{{ %s }}" % part for part in line.split(" | ")]:
            yield json.dumps(expect(template))
    for template in TEMPLATES:
        yield json.dumps(expect(template))
