/* Reads and writes LoRA adapters (tapehead/lora.h) of language models in the format of Hugging Face's PEFT: a folder with
 * adapter_config.json and adapter_model.safetensors. The base model is in another folder.
 *
 *     th_module *model = th_language_model_from_pretrained(ctx, "base");
 *     if (th_lora_load(model, "adapter"))
 *         return report(ctx);
 *
 * In Python, PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("base"), "adapter") gives the same logits. Modules
 * have the names of the model's family, as in tapehead/hugging_face.h. */
#ifndef TAPEHEAD_PEFT_H
#define TAPEHEAD_PEFT_H

#include "tapehead/language_model.h"
#include "tapehead/lora.h"

TH_BEGIN_DECLS

/* Options of th_lora_save. */
typedef struct th_lora_save_options {
    const char *base_model; /* base_model_name_or_path of adapter_config.json, UTF-8: the base's folder, which PEFT's
                               AutoPeftModel opens; NULL: null */
    const char *family; /* the model_type of transformers whose names are written, as in th_export_options. NULL: that
                               of config.json in the folder base_model; without it, the first family that has the
                               model's options */
} th_lora_save_options;
/* Writes the adapters of a language model, merged or not: adapter_model.safetensors, in the type of A and B, and
 * adapter_config.json. Creates the folder if necessary. Both files are complete before they replace older ones. Then the
 * old adapter_config.json is removed, and the new one comes last. The base is not written. Some families pack several projections
 * into one module: c_attn of GPT-2, qkv_proj and gate_up_proj of Phi-3, query_key_value of GPT-NeoX. If its projections
 * do not share A ("in_proj" does), the file has one adapter that gives the same sums. Its A has the rows of all A's, its
 * B has blocks of zeros, and its rank is the sum of the ranks. Rotary positions of transformers
 * rotate halves of heads. If the model rotates neighbors, as Llama from a GGUF file does, rows of B have another order
 * in the file. options may be NULL. Errors:
 *
 *   TH_ERROR_ARGUMENT  not a language model, or one that no family expresses
 *   TH_ERROR_STATE     the model has no adapter; a shapes-only context
 *   TH_ERROR_FILE, TH_ERROR_MEMORY */
TH_API th_status th_lora_save(th_module *model, const char *folder, const th_lora_save_options *options) TH_MUST_CHECK;
/* Attaches the adapters in a folder to a language model, and freezes its other parameters, as th_lora_attach does. The
 * tensors of the file decide which projections have an adapter; r, lora_alpha, lora_dropout, use_rslora, rank_pattern
 * and alpha_pattern (with names, not regular expressions) set its rank, scale and dropout. If a module of the file is
 * several projections here, they share A. Float32, float64, bfloat16 and float16 become the type of the weight. After
 * an error nothing has changed. TH_ERROR_STATE if the model has an adapter already. TH_ERROR_FILE names tensors that do
 * not fit, and settings that this library does not have: DoRA, biases, modules_to_save, an initialization that changes
 * the base (PiSSA, OLoRA, CorDA, LoftQ), and every other setting of PEFT that is on. */
TH_API th_status th_lora_load(th_module *model, const char *folder) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_lora_save(...) TH_AT_STATUS(th_lora_save(__VA_ARGS__))
#define th_lora_load(...) TH_AT_STATUS(th_lora_load(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
