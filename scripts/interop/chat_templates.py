"""The chat templates that Tapehead knows: texts for comparisons, and the table of src/models/chat/known_templates.h.

    python chat_templates.py > src/models/chat/known_templates.h

Templates that TRL contains are read from the installed package, with its variants for training. The others are here."""
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

OWN = [("chatml", CHATML), ("chatml", CHATML_WITHOUT_SWITCH),
       ("qwen-2", DEFAULT % "You are a helpful assistant."),
       ("smollm-2", DEFAULT % "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
       ("llama-2", LLAMA_2), ("mistral-1", MISTRAL_1), ("mistral-1-system", MISTRAL_1_SYSTEM),
       ("olmo-2", "{{ bos_token }}" + TULU), ("zephyr", ZEPHYR)]
OF_TRL = {"llama3": "llama-3", "llama3_1": "llama-3.1", "llama3_2": "llama-3.2", "phi3": "phi-3", "phi3_5": "phi-3.5",
          "gemma": "gemma", "gemma3": "gemma-3", "qwen2_5": "qwen-2.5", "qwen3": "qwen-3",
          "qwen3_instruct_2507": "chatml"}


def trl_folder():
    for folder in sys.path:
        path = pathlib.Path(folder) / "trl" / "chat_templates"
        if path.is_dir():
            return path
    sys.exit("chat_templates.py: TRL is not installed")


def templates():
    """Yields (kind, name, text, text of the variant for training or None)."""
    for kind, text in OWN:
        yield kind, kind, text, None
    folder = trl_folder()
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
    while at < len(s):
        two = s[at:at + 2]
        if two == b"{#":
            end = s.find(b"#}", at + 2)
            end = len(s) if end < 0 else end
            out += b"{#" + (b"-" if s[at + 2:at + 3] == b"-" else b"")
            out += (b"!" if end < len(s) and s[end - 1:end] == b"-" else b"") + b"#"
            at = end + 2
        elif two in (b"{%", b"{{"):
            close = b"}}" if two == b"{{" else b"%}"
            out += two
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
                if c not in b"'\"":
                    out.append(c)
                    at += 1
                    continue
                out.append(c)
                at += 1
                while at < len(s) and s[at] != c:
                    d = s[at]
                    out += b"\\n" if d == 10 else b"" if d == 13 else bytes([d])
                    at += 1
                    if d == ord("\\") and at < len(s):
                        out.append(s[at])
                        at += 1
                out += s[at:at + 1]
                at += 1
            out += s[at:at + 2]
            at += 2
        else:
            out += b"" if s[at] == 13 else s[at:at + 1]
            at += 1
    return bytes(out)


def fnv(data):
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 % 2 ** 64
    return value


def main():
    print("/* Normal forms of known chat templates, by length and hash. scripts/interop/chat_templates.py writes this")
    print(" * file. */")
    print("#ifndef TH_MODELS_CHAT_KNOWN_TEMPLATES_H\n#define TH_MODELS_CHAT_KNOWN_TEMPLATES_H\n")
    print("#include <stdint.h>\n")
    print("static const struct {\n    const char *kind;\n    uint64_t count, hash;\n} known[] = {")
    for kind, _, text, training in templates():
        for variant in (text, training):
            if variant is not None and not (kind == "qwen-3" and variant is training):  # another text for prompts
                form = normal_form(variant)
                print(f'    {{"{kind}", {len(form)}, UINT64_C(0x{fnv(form):016x})}},')
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
