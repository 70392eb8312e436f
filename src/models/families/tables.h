/* The tables of all families, one for each model_type. */
#ifndef TH_MODELS_FAMILIES_TABLES_H
#define TH_MODELS_FAMILIES_TABLES_H

#include "models/families/family.h"

extern const th_family th_family_gpt2, th_family_llama, th_family_mistral, th_family_qwen2, th_family_qwen3,
    th_family_smollm3, th_family_phi3, th_family_olmo2, th_family_gemma2, th_family_gemma3, th_family_gpt_neox;

#endif
