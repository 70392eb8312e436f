"""The chat templates of model families, for comparisons with the kinds of src/models/chat/kinds.c.

Templates that TRL contains are read from the installed package, with its variants for training. Short ones are here. Long
ones are in packages of PyPI: instructions.py compares those that are in the folder PACKAGES."""
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
OWN = [("chatml", CHATML), ("chatml", CHATML_WITHOUT_SWITCH), ("chatml", NOT_DEFINED + CHATML),
       ("chatml-bos", "{{ bos_token }}" + CHATML), ("chatml-bos", NOT_DEFINED + "{{ bos_token }}" + CHATML),
       ("qwen-1.5", DEFAULT % "You are a helpful assistant"), ("qwen-2", DEFAULT % "You are a helpful assistant."),
       ("smollm-2", DEFAULT % "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
       ("llama-2", LLAMA_2), ("llama-2", LLAMA_2.replace("content.strip()", "content | trim")),
       ("mistral-1", MISTRAL_1), ("mistral-0.1", MISTRAL_1.replace("eos_token}}", "eos_token + ' ' }}")),
       ("mistral-1-system", MISTRAL_1_SYSTEM), ("mistral-small", MISTRAL_SMALL), ("phi-3-medium", PHI_3_MEDIUM),
       ("phi-4-mini", PHI_4_MINI), ("olmo-2", "{{ bos_token }}" + TULU), ("tulu", TULU), ("zephyr", ZEPHYR)]
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


# Templates of packages: the kind, and the end of the file's name.
PACKAGED = {"mistral-0.3-trim": "axolotl/utils/chat_templates/templates/mistral_v2v3.jinja",
            "mistral-nemo": "axolotl/utils/chat_templates/templates/mistral_v3_tekken.jinja",
            "gemma-3": "axolotl/utils/chat_templates/templates/gemma3.jinja"}


def packaged(found):
    """Yields (kind, name, text) of templates among {text: name}."""
    for text, name in found.items():
        for kind, end in PACKAGED.items():
            if name.endswith(end):
                yield kind, name, text
