"""Compares th_generate with transformers' generate. Greedy and beam search give the same tokens for prompts of
different lengths in one batch. Sampling gives the same possible tokens with the same frequencies."""

import os
import pathlib
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np
import torch
import transformers

import common

transformers.utils.logging.disable_progress_bar()

VOCABULARY, LENGTH, END = 50, 40, 7


def models():
    """Yields a GPT-2, a Llama, and a Llama whose rotary positions depend on the length, with large weights, so that
    their next-token probabilities are as sharp as after training."""
    torch.manual_seed(3)
    common_sizes = dict(vocab_size=VOCABULARY, bos_token_id=END, eos_token_id=END, pad_token_id=END)
    gpt2 = transformers.GPT2Config(n_positions=LENGTH, n_embd=32, n_layer=2, n_head=4, **common_sizes)
    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2)
    sizes |= dict(num_attention_heads=4, num_key_value_heads=2)
    llama = transformers.LlamaConfig(max_position_embeddings=LENGTH, **sizes, **common_sizes)
    dynamic = transformers.LlamaConfig(  # longer than all prompts: transformers forgets earlier lengths then
        max_position_embeddings=16, rope_parameters=dict(rope_type="dynamic", factor=4.0), **sizes, **common_sizes
    )
    kinds = transformers.GPT2LMHeadModel, transformers.LlamaForCausalLM, transformers.LlamaForCausalLM
    for name, kind, config in zip(("gpt2", "llama", "llama dynamic"), kinds, (gpt2, llama, dynamic)):
        model = kind(config)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, 0, 0.3)
        yield name, model.eval()


def prompts():
    draw = np.random.default_rng(5)
    lengths = np.array([1, 9, 4, 12, 2, 7])
    return draw.integers(0, VOCABULARY, (len(lengths), max(lengths))), lengths


DETERMINISTIC = [
    dict(),
    dict(repetition_penalty=1.3),
    dict(repetition_penalty=0.8),
    dict(beams=4),
    dict(beams=3, length_penalty=2.0),
    dict(beams=5, length_penalty=0.5, early_stopping=1),
    dict(beams=2, repetition_penalty=1.2, length_penalty=-1.0),
    dict(no_repeat_ngram_size=1),
    dict(no_repeat_ngram_size=2),
    dict(no_repeat_ngram_size=3, repetition_penalty=0.7),
    dict(beams=3, no_repeat_ngram_size=2),
    dict(beams=4, sequences=3),
    dict(beams=3, sequences=3, no_repeat_ngram_size=1, length_penalty=0.5),
]
RENAMED = {"beams": "num_beams", "sequences": "num_return_sequences"}


def flat(options):
    return [str(part) for pair in options.items() for part in pair]


def compare_deterministic(c, name, model, folder):
    tokens, lengths = prompts()
    ended = 0
    for options in DETERMINISTIC:
        max_new_tokens, greedy = 20, "beams" not in options
        inputs = {"prompts": tokens, "lengths": lengths}
        arguments = ["max_new_tokens", max_new_tokens, "end", END, *flat(options), "log_probabilities", int(greedy)]
        ours = c.program("generate", folder, *arguments, inputs=inputs)
        ended += (ours["generated"] < max_new_tokens).sum()
        theirs = {RENAMED.get(key, key): value for key, value in options.items()}
        theirs["early_stopping"] = bool(theirs.get("early_stopping", 0))
        for i, length in enumerate(lengths):
            result = model.generate(
                torch.tensor(tokens[i : i + 1, :length]),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                return_dict_in_generate=True,
                output_scores=not greedy,
                output_logits=greedy,
                **theirs,
            )
            for k, sequence in enumerate(result.sequences[:, length:].numpy()):
                row = i * options.get("sequences", 1) + k
                tokens_here = ours["tokens"][row]  # both fill up with the end token
                padding = tokens_here[len(sequence) :]
                same = np.array_equal(tokens_here[: len(sequence)], sequence) and (padding == END).all()
                title = f"{name}, {'greedy' if greedy else 'beams'}: the same tokens"
                c.check(title, same, f"{options} of prompt {i}: {tokens_here} and {sequence}")
                if not greedy:
                    c.close(f"{name}, beams: scores", 1e-5, ours["scores"][row], result.sequences_scores[k])
            if greedy:
                logarithms = torch.stack([x[0].double().log_softmax(0) for x in result.logits])
                chosen = logarithms.gather(1, result.sequences[0, length:, None])[:, 0]
                c.close(f"{name}, greedy: log-probabilities", 1e-5, ours["log_probabilities"][i, : len(chosen)], chosen)
    c.check(f"{name}: some sequences end early", ended > 0, f"{ended} of {len(DETERMINISTIC) * len(lengths)}")


SAMPLED = [
    dict(temperature=1.0),
    dict(temperature=0.7, top_k=5),
    dict(temperature=1.3, top_p=0.8),
    dict(temperature=0.9, top_k=20, top_p=0.9, repetition_penalty=1.5),
    dict(temperature=1.2, min_p=0.1),
    dict(temperature=0.8, top_k=10, top_p=0.95, min_p=0.03, no_repeat_ngram_size=2),
]


def compare_sampled(c, name, model, folder):
    """Samples the token after one prompt many times; compares the frequencies with transformers' probabilities."""
    prompt, count = np.array([3, 11, 3, 40]), 5000
    for options in SAMPLED:
        inputs = {"prompts": np.tile(prompt, (count, 1)), "lengths": np.full(count, len(prompt))}
        drawn = c.program("generate", folder, "max_new_tokens", 1, *flat(options), inputs=inputs)["tokens"][:, 0]
        result = model.generate(
            torch.tensor(prompt[None]),
            max_new_tokens=1,
            do_sample=True,
            return_dict_in_generate=True,
            output_scores=True,
            **({"top_k": 0} | options),
        )
        probability = result.scores[0][0].softmax(0).double().numpy()
        frequency = np.bincount(drawn, minlength=VOCABULARY) / count
        impossible = frequency[probability == 0].sum()
        c.check(f"{name}, sampled: only tokens with a positive probability", impossible == 0, options)
        deviation = np.sqrt(probability * (1 - probability) / count)
        worst = np.max(np.abs(frequency - probability) / np.maximum(deviation, 1 / count))
        c.check(f"{name}, sampled: the same frequencies", worst < 5, f"{worst:.1f} standard deviations for {options}")


def compare(c):
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models():
            path = pathlib.Path(folder) / name
            model.save_pretrained(path)
            compare_deterministic(c, name, model, path)
            compare_sampled(c, name, model, path)


common.main(compare)
