"""encoder_serving.py PROGRAM FOLDER [--rounds N] [--seconds S]: times sentence embeddings of a BERT by the program
`serving`, onnxruntime and llama.cpp: in float32 and in 8 bits, 1 and 32 texts in a call, 1 and 2 threads, about 14 tokens
and 128 tokens in a text. The rounds alternate, and the fastest of each engine counts. Prints a Markdown table.

`serving` begins with texts, and the others with their tokens. onnxruntime runs the graph that its optimizer fuses, with
weights in float32 or quantized to int8. llama.cpp runs a GGUF file in float32 or q8_0. The script also prints the smallest
cosine of an engine's embedding and that of `serving` in float32. Needs torch, transformers, onnx and onnxruntime, and
llama-cpp-python for llama.cpp, which is left out otherwise. The program `encoder` of the same build writes its files. Run
nothing else at the same time."""

import argparse
import ctypes
import importlib.util
import pathlib
import random
import subprocess
import tempfile
import time

import numpy

TEXTS = 64


def make_texts(folder, tokens):
    """Returns texts with about this many tokens, of different lengths if they are short, and their tokens."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    generator = random.Random(1)
    words = [word for word in (pathlib.Path(__file__).parent.parent / "README.md").read_text().split() if word.isalpha()]
    texts = []
    for _ in range(TEXTS):
        count = 126 if tokens > 100 else max(4, round(generator.gauss(10.5, 3.5)))
        pieces = tokenizer.tokenize(" ".join(generator.choices(words, k=count)))[:126]
        texts.append(tokenizer.convert_tokens_to_string(pieces))
    return texts, [tokenizer(text, truncation=True, max_length=128)["input_ids"] for text in texts]


def normalized(rows):
    return rows / numpy.linalg.norm(rows, axis=-1, keepdims=True)


# -- onnxruntime --


def write_onnx(folder, out):
    """Writes float32.onnx, which is fused, and int8.onnx."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    from transformers import AutoModel

    class HiddenStates(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=torch.zeros_like(input_ids))[0]

    wrapped = HiddenStates()
    config = wrapped.model.config
    tokens = torch.randint(0, 1000, (2, 16))
    axes = {0: "batch", 1: "tokens"}
    names = ["input_ids", "attention_mask"]
    torch.onnx.export(wrapped, (tokens, torch.ones_like(tokens)), str(out / "plain.onnx"), input_names=names, output_names=["hidden"],
                      dynamic_axes={name: axes for name in [*names, "hidden"]}, opset_version=17, dynamo=False)
    fused = optimizer.optimize_model(str(out / "plain.onnx"), model_type="bert", num_heads=config.num_attention_heads, hidden_size=config.hidden_size)
    fused.save_model_to_file(str(out / "float32.onnx"))
    quantize_dynamic(str(out / "float32.onnx"), str(out / "int8.onnx"), weight_type=QuantType.QInt8, extra_options={"DefaultTensorType": 1})


def onnx_engine(path, threads):
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])

    def encode(rows):
        longest = max(map(len, rows))
        tokens = numpy.zeros((len(rows), longest), numpy.int64)
        mask = numpy.zeros_like(tokens)
        for i, row in enumerate(rows):
            tokens[i, :len(row)], mask[i, :len(row)] = row, 1
        hidden = session.run(None, {"input_ids": tokens, "attention_mask": mask})[0]
        weights = mask[..., None].astype(numpy.float32)
        return normalized((hidden * weights).sum(1) / weights.sum(1))

    return encode


# -- llama.cpp --


def llama_engine(path, threads):
    import llama_cpp

    llama_engine.silent = llama_cpp.llama_log_callback(lambda level, text, user: None)  # kept: C calls it
    llama_cpp.llama_log_set(llama_engine.silent, None)
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = 32 * 128
    settings.n_seq_max = 32
    settings.n_threads = settings.n_threads_batch = threads
    settings.embeddings = True
    context = llama_cpp.llama_init_from_model(model, settings)
    width = llama_cpp.llama_model_n_embd(model)

    def encode(rows):
        batch = llama_cpp.llama_batch_init(sum(map(len, rows)), 0, 1)
        batch.n_tokens = sum(map(len, rows))
        at = 0
        for sequence, row in enumerate(rows):
            for position, token in enumerate(row):
                batch.token[at], batch.pos[at], batch.n_seq_id[at] = token, position, 1
                batch.seq_id[at][0], batch.logits[at] = sequence, 1
                at += 1
        start = time.monotonic()
        if llama_cpp.llama_encode(context, batch):
            raise RuntimeError("llama_encode failed")
        llama_cpp.llama_synchronize(context)
        encode.seconds += time.monotonic() - start  # without Python's loop above
        got = [numpy.ctypeslib.as_array(ctypes.cast(llama_cpp.llama_get_embeddings_seq(context, i), ctypes.POINTER(ctypes.c_float)), (width,)).copy()
               for i in range(len(rows))]
        llama_cpp.llama_batch_free(batch)
        return normalized(numpy.stack(got))

    encode.seconds = 0.0
    return encode


# -- measuring --


def time_peer(encode, rows, batch, seconds):
    """Returns the milliseconds of a text in the fastest pass, and the embeddings. The rows are sorted, as `serving` sorts
    the texts of a call."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i])) if batch > 1 else range(len(rows))
    least, got, end = float("inf"), {}, time.monotonic() + seconds
    while least == float("inf") or time.monotonic() < end:
        encode.seconds, start = 0.0, time.monotonic()
        for i in range(0, len(order), batch):
            part = list(order[i:i + batch])
            got |= dict(zip(part, encode([rows[j] for j in part])))
        least = min(least, encode.seconds or time.monotonic() - start)
    return least * 1e3 / len(rows), numpy.stack([got[i] for i in range(len(rows))])


def time_serving(program, folder, texts, work, eight_bits, batch, threads, seconds):
    file = work / "texts"
    file.write_text("\n".join(texts) + "\n")
    said = subprocess.run([program, "--folder", folder, "--texts", file, "--batch", str(batch), "--threads", str(threads), "--seconds", str(seconds),
                           "--embeddings", work / "embeddings", *(["--q8", "--precision", "int8"] if eight_bits else [])],
                          check=True, capture_output=True, text=True).stdout
    return float(said.split("ms_of_a_text=")[1].split()[0]), normalized(numpy.fromfile(work / "embeddings", numpy.float32).reshape(len(texts), -1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    print("| tokens | texts in a call | threads | Tapehead | onnxruntime | llama.cpp | 8 bits: Tapehead | onnxruntime | llama.cpp |\n" + "|---:" * 9 + "|")
    smallest = {}
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        write_onnx(options.folder, work)
        engines = {("onnxruntime", False): work / "float32.onnx", ("onnxruntime", True): work / "int8.onnx"}
        if importlib.util.find_spec("llama_cpp"):
            encoder = pathlib.Path(options.program).parent.parent / "programs" / "encoder"
            for eight_bits, kind in ((False, "float32"), (True, "q8_0")):
                engines["llama.cpp", eight_bits] = path = work / f"{kind}.gguf"
                subprocess.run([encoder, "export", options.folder, "--gguf", path, "--type", kind], check=True, capture_output=True)
        for tokens, batch, threads in [(t, b, n) for t in (14, 128) for b in (1, 32) for n in (1, 2)]:
            texts, rows = make_texts(options.folder, tokens)
            peers = {key: (onnx_engine if key[0] == "onnxruntime" else llama_engine)(path, threads) for key, path in engines.items()}
            least, embeddings = {}, {}
            for _ in range(options.rounds):
                for eight_bits in (False, True):
                    results = {("Tapehead", eight_bits): time_serving(options.program, options.folder, texts, work, eight_bits, batch, threads, options.seconds)}
                    results |= {key: time_peer(encode, rows, batch, options.seconds) for key, encode in peers.items() if key[1] == eight_bits}
                    for key, (milliseconds, got) in results.items():
                        least[key] = min(least.get(key, float("inf")), milliseconds)
                        embeddings[key] = got
            for key, got in embeddings.items():
                smallest[key] = min(smallest.get(key, 1), float((got * embeddings["Tapehead", False]).sum(1).min()))
            cells = [f"{least[key]:.2f}" if key in least else "" for bits in (False, True) for key in [(name, bits) for name in ("Tapehead", "onnxruntime", "llama.cpp")]]
            print(f"| {sum(map(len, rows)) / len(rows):.0f} | {batch} | {threads} | " + " | ".join(cells) + " |", flush=True)
    for (name, eight_bits), cosine in smallest.items():
        print(f"{name}{' in 8 bits' if eight_bits else ''}: smallest cosine {cosine:.6f}")


if __name__ == "__main__":
    main()
