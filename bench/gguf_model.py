"""Writes a GGUF file of a Llama with random weights in one of llama.cpp's mixes of types (see rates.sh). The bytes of the
blocks are random, so nothing is rounded and a file takes seconds. The scales make the weights about 0.02."""

import argparse

import gguf
import numpy
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type

# layers, width, heads, heads of keys and values, width of the MLP, vocabulary
SHAPES = {
    "llama-1b": (16, 2048, 32, 8, 8192, 128256),
    "smollm2-360m": (32, 960, 15, 5, 2560, 49152),
    "smollm2-135m": (30, 576, 9, 3, 1536, 49152),
}
SCALES = {  # the offset of the float16 scales in a block, their values, and the bytes that are small scales
    Type.Q8_0: (0, (3e-4,), None),
    Type.Q5_0: (0, (2e-3,), None),
    Type.Q4_K: (0, (1e-4, 1e-3), None),
    Type.Q6_K: (208, (4e-5,), (192, 208)),
}


def rows_of(random, kind, rows, columns):
    """Random blocks of a matrix, as bytes (rows, bytes of a row)."""
    numbers, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows * columns // numbers, size), dtype=numpy.uint8)
    first, values, small = SCALES[kind]
    blocks[:, first:first + 2 * len(values)] = numpy.array(values, numpy.float16).view(numpy.uint8)
    if small:
        blocks[:, small[0]:small[1]] %= 64
    return blocks.reshape(rows, -1)


def type_of(mix, name, layer, layers, columns):
    """The type that llama-quantize gives a matrix. Q4_K_M: Q6_K for the output, and for the values and the second matrix
    of the MLP in half of the layers."""
    if mix != "q4_k_m":
        kind = {"q6_k": Type.Q6_K, "q8_0": Type.Q8_0}[mix]
    elif name == "token_embd":
        kind = Type.Q6_K
    else:
        more = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
        kind = Type.Q6_K if more and name in ("attn_v", "ffn_down") else Type.Q4_K
    if columns % GGML_QUANT_SIZES[kind][0] != 0:  # rows that are not whole blocks
        kind = {Type.Q4_K: Type.Q5_0, Type.Q6_K: Type.Q8_0}[kind]
    return kind


def write(path, shape, mix):
    layers, width, heads, kv_heads, mlp, vocabulary = SHAPES[shape]
    random = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(mlp)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_rope_freq_base(500000)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("no_vocab")

    def add(name, layer, rows, columns):
        kind = type_of(mix, name.split(".")[-1], layer, layers, columns)
        writer.add_tensor(f"{name}.weight", rows_of(random, kind, rows, columns), raw_dtype=kind)

    def add_norm(name):
        writer.add_tensor(f"{name}.weight", numpy.ones(width, numpy.float32))

    add("token_embd", 0, vocabulary, width)
    add_norm("output_norm")
    for i in range(layers):
        keys = width // heads * kv_heads
        for name, rows, columns in (("attn_q", width, width), ("attn_k", keys, width), ("attn_v", keys, width),
                                    ("attn_output", width, width), ("ffn_gate", mlp, width), ("ffn_up", mlp, width),
                                    ("ffn_down", width, mlp)):
            add(f"blk.{i}.{name}", i, rows, columns)
        add_norm(f"blk.{i}.attn_norm")
        add_norm(f"blk.{i}.ffn_norm")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--shape", choices=SHAPES, default="llama-1b")
    parser.add_argument("--mix", choices=("q4_k_m", "q6_k", "q8_0"), default="q4_k_m")
    options = parser.parse_args()
    write(options.file, options.shape, options.mix)
