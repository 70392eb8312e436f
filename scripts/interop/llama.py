"""llama.cpp for comparisons, by the Python package llama-cpp-python. It computes here with the weights as they lie in the file, one
thread and float32 caches. `available` says whether the package is installed: pip compiles it, so requirements.txt lacks it."""

import ctypes

import numpy as np

try:
    import llama_cpp
except ImportError:
    llama_cpp = None

available = llama_cpp is not None

if available:
    default_parameters = llama_cpp.llama_model_default_params


def file_layout():
    """Returns parameters with which llama.cpp keeps the file's layout of the weights. Its own layout for AMX crashes."""
    parameters = default_parameters()
    parameters.use_extra_bufts = False
    return parameters


if available:
    llama_cpp.llama_cpp.llama_model_default_params = file_layout


def load(path, context=64, **more):
    """Returns llama_cpp's model of a GGUF file. lora_path=FILE adds an adapter."""
    single = dict(type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32)  # otherwise its cache is float16
    return llama_cpp.Llama(str(path), n_ctx=context, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False, **single, **more)


def greedy(model, prompt, count, end=None):
    """Returns the most probable tokens after a prompt, up to an end token, and the logits of the prompt and of them."""
    model.reset()
    model.eval(prompt)
    tokens = []
    while len(tokens) < count:
        tokens.append(int(np.argmax(model.scores[model.n_tokens - 1])))
        if tokens[-1] == end:
            tokens.pop()
            break
        model.eval([tokens[-1]])
    return tokens, np.array(model.scores[: model.n_tokens])


def embeddings(path, texts):
    """Returns embeddings of length 1, with the pooling of a GGUF file."""
    model = llama_cpp.Llama(str(path), embedding=True, n_threads=1, n_threads_batch=1, verbose=False)
    return np.array([model.embed(text, normalize=True) for text in texts], np.float32)


def quantize(source, target, kind):
    """Writes a GGUF file again, with matrices of another kind: a number of llama.cpp's enum llama_ftype. Returns whether llama.cpp
    could do it."""
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype, parameters.allow_requantize = kind, True
    return llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(parameters)) == 0
