"""Instruction data: texts of conversations, with tools and without, against transformers for the kinds of chat templates, and
the tokens and masks of 1,000 random conversations against TRL: assistant_only_loss for messages, with the templates of
models and with all templates for training; completion_only_loss for prompts.

    PACKAGES=FOLDER scripts/interop.sh instructions    FOLDER: packages of PyPI whose templates are compared too"""

import json
import os
import pathlib
import random
import sys
import tempfile

import chat_templates
import common

sys.path.insert(0, str(common.HERE / "templates"))
import texts

CONVERSATIONS = 1000
SPECIALS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
            "<start_of_turn>", "<end_of_turn>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]
PIECES = ["Hello", " world", "\n", "\n\n", "  ", " ", "2 + 2 = 4.", "Grüße", "日本語", "def f(x):\n    return x", "!", "😀",
          "\t", "naïve", "<b>", "a" * 30, "The cat", " sat", "\u00a0", "É"]
WITHOUT_SYSTEM = {"mistral-1", "mistral-0.1", "gemma", "phi-3-medium"}
SYSTEM_IN_LAST_QUESTION = {"mistral-0.3", "mistral-0.3-trim", "mistral-nemo"}
TOOLS = {"chatml", "qwen-2", "qwen-2.5", "qwen-2.5-math", "qwen-3", "llama-3.1", "llama-3.2", "mistral-0.3-trim", "mistral-nemo"}


def content(draw):
    return "".join(draw.choice(PIECES) for _ in range(draw.randint(1, 8)))


def conversation(draw, kind, last="assistant"):
    messages = []
    without = kind in WITHOUT_SYSTEM or (kind in SYSTEM_IN_LAST_QUESTION and last == "assistant")
    if not without and draw.random() < 0.4:
        text = content(draw)
        if kind == "smollm-3":
            text += draw.choice(["", "/think", " /no_think", "/system_override", "/no_think /system_override "])
        messages.append({"role": "system", "content": text})
    for _ in range(draw.randint(1, 4)):
        messages += [{"role": "user", "content": content(draw)}, {"role": "assistant", "content": content(draw)}]
    return messages if last == "assistant" else messages[:-1]


def call(draw, number):
    return {"id": f"call{number:05}", "type": "function",
            "function": {"name": "get_weather", "arguments": {"city": content(draw), "days": draw.randint(1, 9)}}}


def tool_conversation(draw, kind, last):
    """A conversation with tools; its answers call some of them."""
    messages = [{"role": "user", "content": content(draw)}]
    if kind not in SYSTEM_IN_LAST_QUESTION and draw.random() < 0.4:
        messages.insert(0, {"role": "system", "content": content(draw)})
    most = 1 if kind.startswith("llama") else 2
    for _ in range(draw.randint(0, 2)):
        calls = [call(draw, draw.randint(0, 99999)) for _ in range(draw.randint(1, most))]
        messages.append({"role": "assistant", "content": content(draw) if draw.random() < 0.5 else "", "tool_calls": calls})
        messages += [{"role": "tool", "name": "get_weather", "content": content(draw), "tool_call_id": c["id"]}
                     for c in calls]
    if last == "assistant":
        messages.append({"role": "assistant", "content": content(draw)})
    return messages


def train_tokenizer(normalizer=None):
    """A byte-level BPE tokenizer with the special tokens of all families."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = getattr(normalizers, normalizer)()
    draw = random.Random(3)
    texts = ["".join(draw.choice(PIECES + ["assistant\n", "user\n", "system", "[INST] "]) for _ in range(50))
             for _ in range(200)]
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=700, special_tokens=SPECIALS, show_progress=False,
                                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def folder_with(tokenizer, template, folder):
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>",
                                   chat_template=template)
    fast.save_pretrained(folder)
    return fast


def write_lines(folder, examples):
    path = pathlib.Path(folder) / "data.jsonl"
    path.write_text("".join(json.dumps(e) + "\n" for e in examples), encoding="utf-8")
    return path


def compare_texts(c, kind, name, template):
    """The text of each conversation, and of each prompt, equals that of transformers."""
    draw = random.Random(name)
    with tempfile.TemporaryDirectory() as folder:
        fast = folder_with(train_tokenizer(), template, folder)
        for prompt in (False, True):
            last = "user" if prompt else "assistant"
            talks = [{"messages": conversation(draw, kind, last)} for _ in range(200)]
            if kind in TOOLS and "tool_calls" in template:
                talks += [{"messages": tool_conversation(draw, kind, last), "tools": [texts.TOOL] * draw.randint(1, 2)}
                          for _ in range(200)]
            lines = write_lines(folder, talks)
            run = c.run(c.build / "scripts/interop/instructions", "write", folder, lines, int(prompt), kind)
            ours = [json.loads(line).get("text") for line in run.stdout.splitlines()]
            theirs = [text_of(fast, t, prompt) for t in talks]
            wrong = [i for i in range(len(talks)) if ours[i] != theirs[i]]
            c.check(f"texts of {kind} ({name})", not wrong and len(ours) == len(theirs),
                    f"{len(talks)} conversations" if not wrong else
                    f"{len(wrong)} differ: {ours[wrong[0]]!r}, not {theirs[wrong[0]]!r}")


def text_of(fast, talk, prompt):
    """The text of transformers; None for an error."""
    try:
        return fast.apply_chat_template(talk["messages"], tools=talk.get("tools"), tokenize=False,
                                        add_generation_prompt=prompt)
    except Exception:  # of the template, or of the sandbox
        return None


def trl_rows(fast, examples, folder, assistant_only):
    """The token ids and labels that TRL's trainer prepares."""
    import datasets
    import transformers
    import trl

    datasets.disable_progress_bars()
    config = transformers.LlamaConfig(vocab_size=len(fast), hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                      num_attention_heads=1)
    arguments = trl.SFTConfig(output_dir=str(folder), assistant_only_loss=assistant_only, max_length=None,
                              report_to=[], use_cpu=True, shuffle_dataset=False)
    trainer = trl.SFTTrainer(model=transformers.LlamaForCausalLM(config), args=arguments, processing_class=fast,
                             train_dataset=datasets.Dataset.from_list(examples))
    return [(list(row["input_ids"]), [int(label != -100) for label in row["labels"]])
            for row in trainer.train_dataset]


def compare_training_template(c, path):
    """Tokens and masks by a template of TRL for training. TRL's trainer takes both from apply_chat_template."""
    draw = random.Random(path.name)
    with tempfile.TemporaryDirectory() as folder:
        fast = folder_with(train_tokenizer(), path.read_text(encoding="utf-8"), folder)
        examples = [messages(draw, "gemma" if "gemma" in path.name else path.stem) for _ in range(CONVERSATIONS)]
        run = c.run(c.build / "scripts/interop/instructions", "encode", folder, write_lines(folder, examples))
        wrong = 0
        for line, example in zip(run.stdout.splitlines(), examples, strict=True):
            try:
                row = fast.apply_chat_template(example["messages"], tokenize=True, return_dict=True,
                                               return_assistant_tokens_mask=True)
                theirs = (row["input_ids"], row["assistant_masks"])
            except Exception:  # of the template, or of the sandbox
                theirs = None
            tokens, _, marks = line.partition("|")
            ours = None if line.startswith("error") else ([int(x) for x in tokens.split()], [int(x) for x in marks.split()])
            wrong += ours != theirs
        c.check(f"tokens and masks of {path.name}", wrong == 0, f"{wrong} of {len(examples)} differ")


def compare_masks(c, title, template, kind, make, normalizer=None, assistant_only=False):
    """Ours is written by the kind."""
    draw = random.Random(title)
    with tempfile.TemporaryDirectory() as folder:
        fast = folder_with(train_tokenizer(normalizer), template, folder)
        examples = [make(draw, kind) for _ in range(CONVERSATIONS)]
        run = c.run(c.build / "scripts/interop/instructions", "encode", folder, write_lines(folder, examples),
                    kind)
        lines = run.stdout.splitlines()
        rows = trl_rows(fast, examples, pathlib.Path(folder) / "out", assistant_only)
        wrong, detail = 0, ""
        for line, (ids, labels) in zip(lines, rows, strict=True):
            tokens, _, marks = line.partition("|")
            same = not line.startswith("error") and [int(x) for x in tokens.split()] == ids and \
                [int(x) for x in marks.split()] == labels
            if not same and not wrong:
                detail = f"{line[:400]}\n  not {ids} {labels}"
            wrong += not same
        c.check(f"masks of TRL: {title}", wrong == 0, f"{wrong} of {len(rows)} differ: {detail}" if wrong else
                f"{len(rows)} examples")


def messages(draw, kind):
    return {"messages": conversation(draw, kind)}


def pair(draw, kind):
    talk = conversation(draw, kind)
    return {"prompt": talk[:-1], "completion": talk[-1:]}


def text_pair(draw, _):
    return {"prompt": content(draw), "completion": content(draw)}


def compare(c):
    known = {name: (kind, text) for kind, name, text, _ in chat_templates.templates()}
    for kind, name, text, _ in chat_templates.templates():
        compare_texts(c, kind, name, text)
    if os.environ.get("PACKAGES"):
        for kind, name, text in chat_templates.packaged(texts.gather(os.environ["PACKAGES"])):
            compare_texts(c, kind, name, text)
    for name in ("llama3", "phi3", "phi3_5", "gemma", "gemma3", "qwen2_5", "qwen3", "qwen3_instruct_2507"):
        kind, text = known[name]
        compare_masks(c, f"messages, {name}", text, kind, messages, assistant_only=True)
    compare_masks(c, "messages, qwen2_5 with NFC", known["qwen2_5"][1], "qwen-2.5", messages, "NFC", True)
    for name in ("chatml", "smollm-2", "llama-2", "mistral-1", "olmo-2", "zephyr", "llama3_1", "qwen3"):
        kind, text = known[name]
        compare_masks(c, f"prompts and completions, {name}", text, kind, pair)
    for path in sorted(chat_templates.trl_folder().glob("*_training.jinja")):
        compare_training_template(c, path)
    compare_masks(c, "texts", known["chatml"][1], "chatml", text_pair)


common.main(compare)
