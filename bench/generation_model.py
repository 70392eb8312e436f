"""Writes the model of generation.sh into a folder: a Llama with 134 million random parameters, for transformers and
Tapehead (config.json, model.safetensors) and for llama.cpp (float32.gguf, bfloat16.gguf, q8_0.gguf)."""

import sys
from pathlib import Path

import gguf
import torch
from transformers import LlamaConfig, LlamaForCausalLM

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
}
TYPES = {
    "float32": gguf.GGMLQuantizationType.F32,
    "bfloat16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
}


def gguf_name(name):
    """model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight"""
    parts = name.removeprefix("model.").removesuffix(".weight").split(".")
    if parts[0] != "layers":
        return NAMES[parts[0]] + ".weight"
    return f"blk.{parts[1]}.{NAMES['.'.join(parts[2:])]}.weight"


def write_gguf(path, config, weights, kind):
    """Rows of q and k keep transformers' order: the text differs, the speed does not."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("no_vocab")
    for name, tensor in weights.items():
        numbers = tensor.float().numpy()
        stored = TYPES[kind] if numbers.ndim == 2 else TYPES["float32"]
        writer.add_tensor(gguf_name(name), gguf.quants.quantize(numbers, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    for kind in TYPES:
        write_gguf(folder / f"{kind}.gguf", config, model.state_dict(), kind)


if __name__ == "__main__":
    main()
