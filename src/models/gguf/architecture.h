/* A kind of model in GGUF files: one table with the names of its tensors and the keys of its values. llama.cpp's
 * src/llama-arch.cpp lists all of them. A new architecture is a table in architectures.c and a line at its end. */
#ifndef TH_MODELS_GGUF_ARCHITECTURE_H
#define TH_MODELS_GGUF_ARCHITECTURE_H

#include "models/families/family.h"

/* How positions that a file scales are stored beside rope.scaling. */
typedef enum th_gguf_factors {
    TH_GGUF_NO_FACTORS,
    TH_GGUF_ONE_FACTOR, /* rope_freqs.weight: divides the frequency of each pair */
    TH_GGUF_TWO_FACTORS /* rope_factors_short.weight and rope_factors_long.weight (LongRoPE) */
} th_gguf_factors;

/* Scales of the embedding, the branches and the logits, as Granite has them. A file may omit them: then they have these
 * values, with 0 for none. */
typedef struct th_gguf_scales {
    double embedding;  /* embedding_scale */
    double depth;      /* residual_scale times the root of the number of layers */
    double base_width; /* embedding_length divided by logit_scale */
} th_gguf_scales;

typedef struct th_gguf_architecture {
    const char *name;   /* general.architecture */
    const char *family; /* model_type of the family in models/families, which has the options of all models */
    const th_tensor_name *tensors[4];  /* tables; NULL: none */
    const char *eps;                   /* the key of the norms' epsilon */
    bool encoder;                      /* attention is not causal. The model ends with hidden states, or has a head */
    bool neighbors;                    /* queries and keys rotate neighbors; otherwise halves */
    bool norms_plus_one;               /* weights of norms are stored with 1 added */
    bool attention_biases, mlp_biases; /* a model may have them or not: the file's tensors show it */
    bool has_kv_heads;                 /* attention.head_count_kv and attention.key_length exist */
    bool needs_output;                 /* llama.cpp needs output.weight even if it equals token_embd.weight */
    bool has_parallel;                 /* use_parallel_residual exists */
    bool has_soft_caps;       /* attn_logit_softcapping and final_logit_softcapping exist; missing: 50 and 30 */
    bool has_final_soft_cap;  /* only final_logit_softcapping exists; missing: none */
    bool has_scales;          /* embedding_scale, residual_scale and logit_scale exist */
    bool has_attention_scale; /* attention.scale exists */
    th_gguf_scales scales;    /* if they are missing */
    bool part_is_rotated;     /* rope.dimension_count may be less than a head */
    int64_t window_except;    /* attention.sliding_window is the window of all layers but each n-th; 1: of all layers */
    double window_base;       /* the base of rotary positions in layers with a window; 0: as in the others */
    int64_t rotary_except;    /* each n-th layer has no rotary positions; 0: all have them */
    int64_t
        wide_scale_layers; /* a model with this number of layers divides scores by sqrt(width / heads); 0: no model */
    th_gguf_factors factors;
} th_gguf_architecture;

/* All architectures in the order in which export tries them. */
extern const th_gguf_architecture th_gguf_architectures[];
enum { TH_GGUF_ARCHITECTURES = 14 };

/* Writes the names of all architectures to text: "llama, qwen2 and ...". */
void th_gguf_list_architectures(char *text, size_t bytes);
/* Returns a copy of the family with the names of GGUF files. Its prefix is empty. */
th_family th_gguf_family(const th_gguf_architecture *a);

enum { TH_GGUF_LONGEST_KEY = 128 };
/* Writes the architecture's name, a dot and the key to full. Returns full. */
const char *th_gguf_key(const th_gguf_architecture *a, const char *key, char full[TH_GGUF_LONGEST_KEY]);

#endif
