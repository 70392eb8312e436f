"""Times transformers' generate with a key/value cache on a model in a folder, or a GPT-2 with random weights; see
generation.c."""

import argparse
import time

import torch
import transformers
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from peer import peak_rss_mib

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--folder")
parser.add_argument("--dtype", default="float32")
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--prompt", type=int, default=32)
parser.add_argument("--tokens", type=int, default=64)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--repeats", type=int, default=3)
options = parser.parse_args()
torch.set_num_threads(options.threads)
torch.manual_seed(1)

begin = time.monotonic()
if options.folder:
    model = AutoModelForCausalLM.from_pretrained(options.folder, dtype=getattr(torch, options.dtype)).eval()
else:
    model = GPT2LMHeadModel(GPT2Config(bos_token_id=None, eos_token_id=None)).eval()
load = time.monotonic() - begin
prompts = torch.randint(model.config.vocab_size, (options.batch, options.prompt))


def seconds(tokens):
    """Returns the seconds of the fastest of several runs."""
    times = []
    for _ in range(options.repeats):
        begin = time.monotonic()
        with torch.inference_mode():
            made = model.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
            )
        times.append(time.monotonic() - begin)
        assert made.shape == (options.batch, options.prompt + tokens)
    return min(times)


everything, first = seconds(options.tokens), seconds(1)
print(
    f"batch={options.batch} load_ms={load * 1e3:.0f} prompt_per_second={options.batch * options.prompt / first:.1f}"
    f" generation_per_second={options.batch * (options.tokens - 1) / (everything - first):.2f}"
    f" tokens_per_second={options.batch * options.tokens / everything:.1f}"
    f" prompt_ms={first * 1e3:.1f} token_ms={(everything - first) / (options.tokens - 1) * 1e3:.2f}"
    f" peak_rss_mib={peak_rss_mib():.0f}"
    f' build="transformers {transformers.__version__} torch {torch.__version__}"'
)
