"""Times llama.cpp (the package llama-cpp-python) on a GGUF file: a prompt, then greedy tokens one by one; see
generation.sh."""

import argparse
import ctypes
import time

import llama_cpp
import numpy

from peer import peak_rss_mib

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--file", required=True)
parser.add_argument("--prompt", type=int, default=256)
parser.add_argument("--tokens", type=int, default=64)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--no-repack", action="store_true", help="keeps the file's layout of q8_0 (see generation.sh)")
parser.add_argument("--repeats", type=int, default=3)
options = parser.parse_args()

silent = llama_cpp.llama_log_callback(lambda level, text, user: None)
llama_cpp.llama_log_set(silent, None)
begin = time.monotonic()
loading = llama_cpp.llama_model_default_params()
loading.use_extra_bufts = not options.no_repack
model = llama_cpp.llama_model_load_from_file(options.file.encode(), loading)
load = time.monotonic() - begin
settings = llama_cpp.llama_context_default_params()
settings.n_ctx = 1024
settings.n_batch = settings.n_ubatch = 512
settings.n_threads = settings.n_threads_batch = options.threads
context = llama_cpp.llama_init_from_model(model, settings)
vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
prompt = numpy.random.default_rng(1).integers(0, vocabulary, options.prompt)


def decode(tokens):
    """Runs tokens, and returns the most likely next one."""
    array = (llama_cpp.llama_token * len(tokens))(*tokens)
    if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(array, len(tokens))):
        raise RuntimeError("llama_decode failed")
    logits = llama_cpp.llama_get_logits_ith(context, -1)
    return int(numpy.argmax(numpy.ctypeslib.as_array(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float)), (vocabulary,))))


prompt_seconds = token_seconds = float("inf")
for _ in range(options.repeats):
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
    start = time.monotonic()
    token = decode([int(t) for t in prompt])
    first = time.monotonic()
    for _ in range(options.tokens - 1):
        token = decode([token])
    end = time.monotonic()
    prompt_seconds = min(prompt_seconds, first - start)
    token_seconds = min(token_seconds, (end - first) / (options.tokens - 1))
print(
    f"batch=1 load_ms={load * 1e3:.0f} prompt_per_second={options.prompt / prompt_seconds:.1f}"
    f" generation_per_second={1 / token_seconds:.2f} peak_rss_mib={peak_rss_mib():.0f}"
    f' build="llama-cpp-python {llama_cpp.__version__}"'
)
