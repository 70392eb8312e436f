/* The list of all families. A new family needs one line here. */
#include <string.h>

#include "models/core/context.h"
#include "models/families/family.h"

const th_family *const th_families[TH_FAMILIES] = {
    &th_family_gpt2,     &th_family_llama,       &th_family_mistral,    &th_family_qwen2,      &th_family_qwen3,
    &th_family_smollm3,  &th_family_phi3,        &th_family_olmo2,      &th_family_gemma2,     &th_family_gemma3,
    &th_family_gpt_neox, &th_family_phi,         &th_family_granite,    &th_family_minicpm,    &th_family_bert,
    &th_family_roberta,  &th_family_xlm_roberta, &th_family_distilbert, &th_family_modernbert, &th_family_mpnet,
};

const th_family *th_family_find(const char *model_type)
{
    for (int i = 0; i < TH_FAMILIES; i++)
        if (strcmp(th_families[i]->model_type, model_type) == 0)
            return th_families[i];
    return NULL;
}

void th_family_list(char *text, size_t bytes)
{
    text[0] = '\0';
    for (int i = 0; i < TH_FAMILIES; i++)
        th_append_item(text, bytes, i, TH_FAMILIES, th_families[i]->model_type);
}
