"""The chat templates that Tapehead knows: texts for comparisons, and the table of src/models/chat/known_templates.h.

    python chat_templates.py > src/models/chat/known_templates.h

Templates that TRL contains are read from the installed package, with its variants for training. Short ones are here.
Of long ones (SEEN) only the length and the hash are here. instructions.py compares those whose files are in the folder
CHAT_TEMPLATES."""
import pathlib
import sys

CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
          "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"
          "{{ '<|im_start|>assistant\\n' }}{% endif %}")
CHATML_WITHOUT_SWITCH = CHATML.replace("{% if add_generation_prompt %}",
                                       "{% if add_generation_prompt is defined and add_generation_prompt %}")
DEFAULT = ("{%% for message in messages %%}{%% if loop.first and messages[0]['role'] != 'system' %%}"
           "{{ '<|im_start|>system\\n%s<|im_end|>\\n' }}{%% endif %%}"
           "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{%% endfor %%}"
           "{%% if add_generation_prompt %%}{{ '<|im_start|>assistant\\n' }}{%% endif %%}")
ALTERNATE = ("{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles "
             "must alternate user/assistant/user/assistant/...') }}{% endif %}")
LLAMA_2 = ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
           "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
           "{% set system_message = false %}{% endif %}{% for message in loop_messages %}" + ALTERNATE +
           "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + "
           "'\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}"
           "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
           "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}"
           "{% endfor %}")
MISTRAL_1 = ("{{ bos_token }}{% for message in messages %}" + ALTERNATE + "{% if message['role'] == 'user' %}"
             "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
             "{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are "
             "supported!') }}{% endif %}{% endfor %}")
MISTRAL_1_SYSTEM = """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('After the optional system message, conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {%- if loop.first and system_message is defined %}
            {{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}
        {%- else %}
            {{- ' [INST] ' + message['content'] + ' [/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] + eos_token}}
    {%- else %}
        {{- raise_exception('Only user and assistant roles are supported, with the exception of an initial optional system message!') }}
    {%- endif %}
{%- endfor %}
"""
TULU = ("{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\\n' + message['content'] + "
        "'\\n' }}{% elif message['role'] == 'user' %}{{ '<|user|>\\n' + message['content'] + '\\n' }}"
        "{% elif message['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>\\n'  + message['content'] + "
        "eos_token + '\\n' }}{% else %}{{ '<|assistant|>\\n'  + message['content'] + eos_token }}{% endif %}"
        "{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}{% endfor %}")
ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

NOT_DEFINED = "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
MISTRAL_SMALL = ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST]' + "
                 "message['content'] + '[/INST]' }}{% elif message['role'] == 'system' %}{{ '[SYSTEM_PROMPT]' + "
                 "message['content'] + '[/SYSTEM_PROMPT]' }}{% elif message['role'] == 'assistant' %}"
                 "{{ message['content'] + eos_token }}{% else %}{{ raise_exception('Only user, system and assistant "
                 "roles are supported!') }}{% endif %}{% endfor %}")
PHI_3_MEDIUM = ("{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') %}{{'<|user|>' + '\\n' + "
                "message['content'] + '<|end|>' + '\\n' + '<|assistant|>' + '\\n'}}{% elif (message['role'] == "
                "'assistant') %}{{message['content'] + '<|end|>' + '\\n'}}{% endif %}{% endfor %}")
PHI_4_MINI = ("{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and "
              "message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + "
              "message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + "
              "message['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}"
              "{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}")
PLAIN = ("{% for message in messages %}{% if message['role'] == 'system' %}{{ message['content'] + '\\n\\n' }}"
         "{% elif message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\\n\\n' }}"
         "{% elif message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] }}{{ eos_token }}"
         "{% if not loop.last %}{{ '\\n\\n' }}{% endif %}{% endif %}{% endfor %}"
         "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")

OWN = [("plain", PLAIN), ("chatml", CHATML), ("chatml", CHATML_WITHOUT_SWITCH), ("chatml", NOT_DEFINED + CHATML),
       ("chatml-bos", "{{ bos_token }}" + CHATML), ("chatml-bos", NOT_DEFINED + "{{ bos_token }}" + CHATML),
       ("qwen-1.5", DEFAULT % "You are a helpful assistant"), ("qwen-2", DEFAULT % "You are a helpful assistant."),
       ("smollm-2", DEFAULT % "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
       ("llama-2", LLAMA_2), ("llama-2", LLAMA_2.replace("content.strip()", "content | trim")),
       ("mistral-1", MISTRAL_1), ("mistral-0.1", MISTRAL_1.replace("eos_token}}", "eos_token + ' ' }}")),
       ("mistral-1-system", MISTRAL_1_SYSTEM), ("mistral-small", MISTRAL_SMALL), ("phi-3-medium", PHI_3_MEDIUM),
       ("phi-4-mini", PHI_4_MINI), ("olmo-2", "{{ bos_token }}" + TULU), ("tulu", TULU), ("zephyr", ZEPHYR)]
# Templates whose text is not here: the kind, the length and the hash of the normal form, and where it was seen.
SEEN = [
    ("zephyr", 376, 0x5ca0f12f1b8b2b61, "open-instruct"),
    ("zephyr", 336, 0xff3e9b19a2b2b0bf, "unsloth"),
    ("chatml", 368, 0xcd9478878b4f3a45, "unsloth"),
    ("llama-2", 955, 0x98b283812cf82016, "Llama 2, first version"),
    ("llama-2", 946, 0x98918ea7dbeb1eb9, "Llama 2, second version"),
    ("llama-3", 627, 0x38ea9b0a7236e68f, "axolotl"),
    ("llama-3", 507, 0x2c30663e88094b2b, "unsloth"),
    ("llama-3.1", 3307, 0x515156673826a84d, "Llama 3.1, first version"),
    ("mistral-1-system", 1173, 0xdc6d66dabf18e587, "axolotl"),
    ("mistral-0.3", 839, 0x66da4d193792f879, "Mixtral 8x22B Instruct 0.1"),
    ("mistral-0.3-trim", 2682, 0xd72412b1d42af2b7, "Mistral 7B Instruct 0.3"),
    ("mistral-0.3-trim", 3202, 0xe964723d2256af17, "axolotl"),
    ("mistral-nemo", 2669, 0xc94c380da7a20aa5, "Mistral Nemo Instruct 2407"),
    ("mistral-nemo", 2690, 0x7e5856286fda841e, "Mistral Nemo Instruct 2407, first version"),
    ("mistral-nemo", 3188, 0x9cdda7d95a236b48, "axolotl"),
    ("gemma", 728, 0xe5586fad55e8bba8, "axolotl"),
    ("gemma", 1041, 0x0f0720d811a9be6d, "text-generation-inference"),
    ("gemma-3", 1314, 0x4bbb54b820752667, "axolotl"),
    ("gemma-3", 1217, 0x303ffe3e7e189a73, "unsloth"),
    ("qwen-2.5", 1928, 0xa3c084318a5afa35, "Qwen 2.5 Coder"),
    ("qwen-3", 3019, 0xb0ecc192d1c41426, "Qwen 3"),
    ("qwen-3", 3527, 0xfd7102ccc678a334, "unsloth"),
    ("smollm-3", 4497, 0x747c03b4bf0e2330, "SmolLM 3"),
]
OF_TRL = {"llama3": "llama-3", "llama3_1": "llama-3.1", "llama3_2": "llama-3.2", "phi3": "phi-3", "phi3_5": "phi-3.5",
          "gemma": "gemma", "gemma3": "gemma-3", "qwen2_5": "qwen-2.5", "qwen3": "qwen-3",
          "qwen3_instruct_2507": "chatml"}


def trl_folder():
    for folder in sys.path:
        path = pathlib.Path(folder) / "trl" / "chat_templates"
        if path.is_dir():
            return path
    sys.exit("chat_templates.py: TRL is not installed")


QWEN_2_5 = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."


def templates():
    """Yields (kind, name, text, text of the variant for training or None)."""
    for kind, text in OWN:
        yield kind, kind, text, None
    folder = trl_folder()
    qwen = (folder / "qwen2_5.jinja").read_text(encoding="utf-8")
    yield "qwen-2", "qwen2_5, base", qwen.replace(QWEN_2_5, "You are a helpful assistant."), None
    yield ("qwen-2.5-math", "qwen2_5, math",
           qwen.replace(QWEN_2_5, "Please reason step by step, and put your final answer within \\\\boxed{}."), None)
    for name, kind in OF_TRL.items():
        training = folder / f"{name}_training.jinja"
        yield (kind, name, (folder / f"{name}.jinja").read_text(encoding="utf-8"),
               training.read_text(encoding="utf-8") if training.exists() else None)


# -- the normal form: recognize.c explains it --

SPACES = b" \t\n\v\f\r"


def is_word(c):
    return bytes([c]).isalnum() or c == ord("_") or c >= 0x80


def normal_form(text):
    s, out, at = text.encode().strip(SPACES), bytearray(), 0
    strip = False
    while at < len(s):
        begin = min(i for i in (s.find(b"{#", at), s.find(b"{%", at), s.find(b"{{", at), len(s)) if i >= 0)
        data = s[at:begin]
        data = data.lstrip(SPACES) if strip else data
        data = data.rstrip(SPACES) if s[begin + 2:begin + 3] == b"-" else data
        out += data.replace(b"\r", b"")
        at = begin
        if s[at:at + 2] == b"{#":
            at = normal_comment(s, at, out)
        elif at < len(s):
            at = normal_tag(s, at, out)
        strip = at - begin >= 5 and s[at - 3:at - 2] == b"-"
    return bytes(out)


def normal_comment(s, at, out):
    end = s.find(b"#}", at + 2)
    end = len(s) if end < 0 else end
    out += b"{#" + (b"-" if s[at + 2:at + 3] == b"-" else b"")
    out += (b"!" if end < len(s) and s[end - 1:end] == b"-" else b"") + b"#"
    return end + 2


def normal_tag(s, at, out):
    close = b"}}" if s[at:at + 2] == b"{{" else b"%}"
    out += s[at:at + 2]
    at += 2
    space = False
    while at < len(s) and s[at:at + 2] != close:
        c = s[at]
        if c in SPACES:
            space = True
            at += 1
            continue
        if space and is_word(out[-1]) and is_word(c):
            out += b" "
        space = False
        out.append(c)
        at += 1
        if c in b"'\"":
            at = normal_string(s, at, c, out)
    out += s[at:at + 2]
    return at + 2


def normal_string(s, at, quote, out):
    while at < len(s) and s[at] != quote:
        c = s[at]
        out += b"\\n" if c == 10 else b"" if c == 13 else bytes([c])
        at += 1
        if c == ord("\\") and at < len(s):
            out.append(s[at])
            at += 1
    out += s[at:at + 1]
    return at + 1


def fnv(data):
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 % 2 ** 64
    return value


def kind_of(text):
    """The kind of a template in SEEN, or None."""
    form = normal_form(text)
    return next((kind for kind, count, code, _ in SEEN if (count, code) == (len(form), fnv(form))), None)


def print_row(kind, count, code):
    print(f'    {{"{kind}", {count}, UINT64_C(0x{code:016x})}},')


def main():
    print("/* Normal forms of known chat templates, by length and hash. scripts/interop/chat_templates.py writes this")
    print(" * file. */")
    print("#ifndef TH_MODELS_CHAT_KNOWN_TEMPLATES_H\n#define TH_MODELS_CHAT_KNOWN_TEMPLATES_H\n")
    print("#include <stdint.h>\n")
    print("static const struct {\n    const char *kind;\n    uint64_t count, hash;\n} known_templates[] = {")
    for kind, _, text, training in templates():
        for variant in (text, training):
            if variant is not None and not (kind == "qwen-3" and variant is training):  # another text for prompts
                form = normal_form(variant)
                print_row(kind, len(form), fnv(form))
    for kind, count, code, _ in SEEN:
        print_row(kind, count, code)
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
