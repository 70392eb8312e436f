/* Tuning inside a program: an application teaches its language model while it runs. Adapters (tapehead/lora.h) learn from
 * conversations, in small parts, and the program stays responsive.
 *
 *     th_module *model = th_language_model_from_folder(ctx, "model.gguf", &(th_folder_load_options){.stored = true});
 *     th_tune *tune = th_tune_new(model, tokenizer, chat, NULL);
 *     const th_chat_message messages[] = {{"user", "What is our tea?"}, {"assistant", "Assam, with milk."}};
 *     if (th_tune_add(tune, messages, 2))
 *         return report(ctx);
 *     while (is_night())
 *         if (th_tune_step(tune))
 *             return report(ctx);
 *     if (th_tune_save(tune, "adapter"))
 *         return report(ctx);
 *
 * Nothing is printed, and only th_tune_save writes files. Between two calls the program can generate with the same
 * model: the answers have what the adapters learned so far. Another thread generates with a second context: its
 * model maps the same file, and has a snapshot of the adapters (th_lora_copy). examples/chat_learns.c does the first. */
#ifndef TAPEHEAD_TUNE_H
#define TAPEHEAD_TUNE_H

#include "tapehead/chat.h"
#include "tapehead/lora.h"
#include "tapehead/optimizer.h"

TH_BEGIN_DECLS

/* A model that learns from examples. It belongs to the model's context, which frees it. */
typedef struct th_tune th_tune;

/* Options of th_tune_new. All zero is the default. */
typedef struct th_tune_options {
    th_lora_options lora;   /* of the adapters; rank 0: 16, alpha 0: 2 rank. Unused if the model has adapters */
    double learning_rate;   /* of AdamW; 0: 2e-4 */
    double weight_decay;    /* 0: none */
    double max_norm;        /* the global norm of the gradients is clipped to this; 0: 1 */
    int64_t length;         /* the most tokens of a micro-batch; 0: 512, at most the model's length */
    int micro_batches;      /* in a step of the optimizer, 1 to 65536; 0: 1 */
    bool recompute;         /* backward recomputes the values of blocks: less memory, about a third more time */
    uint64_t seed;          /* of the order of the examples */
    const char *base_model; /* base_model_name_or_path of adapter_config.json (th_lora_save_options); copied */
    /* The most bytes that the context may have from its allocator in th_tune_new, th_tune_add and th_tune_step
     * (th_memory_usage.reserved). Mapped weights are not among them. A micro-batch that needs more is repeated with
     * .recompute, and then with half the length as often as necessary, down to 16 tokens. 0: only the context's own
     * limit */
    size_t memory_limit;
    /* Asked before each operation of a micro-batch, forward and backward, and in th_tune_step only. If it returns true,
     * the call ends. It must not use the context. It is called often, so it should only read a flag. NULL: never */
    bool (*stop)(void *user);
    void *user; /* passed to stop */
} th_tune_options;

/* Creates a tuner of a language model, with AdamW for all parameters that require a gradient. A model without adapters
 * gets them, as th_lora_attach does, and its other parameters are frozen. The memory that steps keep is allocated now:
 * gradients, moments, and sums of gradients. The tokenizer and the template must live as long as the tuner. options may
 * be NULL. Returns NULL with the error pending, and then the model has no new adapters. Errors:
 *
 *   TH_ERROR_ARGUMENT  not a language model; the tokenizer has more tokens than the model; an option is out of range;
 *                      objects of several contexts; errors of th_lora_attach
 *   TH_ERROR_STATE     the adapters are merged; a shapes-only context
 *   TH_ERROR_MEMORY    also if the limit is too small for what steps keep */
TH_API th_tune *th_tune_new(th_module *model, th_tokenizer *tokenizer, const th_chat_template *chat,
                            const th_tune_options *options);

/* Adds a conversation. The assistant's messages count for the loss, and everything else is given (th_chat_encode). The
 * tuner keeps the tokens, 5 bytes for each, and not the texts. Examples join with the next pass over the examples. After
 * an error no example was added. TH_ERROR_VALUE for a conversation that the template refuses, or without an answer. */
TH_API th_status th_tune_add(th_tune *tune, const th_chat_message *messages, size_t count) TH_MUST_CHECK;
/* As th_tune_add, for an example of instruction data: an object of JSON (th_instruction_encode). source: for messages,
 * such as "data.jsonl, line 3"; may be NULL. */
TH_API th_status th_tune_add_json(th_tune *tune, const char *line, size_t bytes, const char *source) TH_MUST_CHECK;

/* Runs forward and backward for one micro-batch, and after .micro_batches of them a step of the optimizer. The loss of a
 * step is the mean over all of its targets.
 *
 * A pass visits each example once, in an order that depends on the seed and the number of the pass. A micro-batch has
 * the next examples that fit into .length tokens, and does not continue in the next pass. Examples do not see each
 * other. A longer example is divided, and a part does not see the parts before it.
 *
 * If .stop returns true, the call returns TH_OK, and th_tune_progress_of(tune).stopped is true. The micro-batch was
 * abandoned, and nothing changed. The next call repeats it with the same bits. The last operation of a step, the
 * optimizer's update, is not interrupted.
 *
 * The call ends the context's step (th_tape_clear), and keeps the mode of the context. Errors, after which no parameter
 * has changed: TH_ERROR_STATE without examples, or if recording is off. TH_ERROR_VALUE if a gradient is not finite; the
 * next call continues with other examples. TH_ERROR_MEMORY; the next call repeats the micro-batch. */
TH_API th_status th_tune_step(th_tune *tune) TH_MUST_CHECK;

/* What a tuner has done. */
typedef struct th_tune_progress {
    int64_t examples;        /* that were added */
    int64_t passes;          /* over all examples, complete */
    int64_t steps;           /* of the optimizer */
    int64_t micro_batches;   /* that are complete in the next step */
    bool stopped;            /* the last th_tune_step was stopped */
    double loss;             /* of the last complete micro-batch: the mean over its targets; 0 before the first one */
    int64_t tokens, targets; /* of this micro-batch */
    int64_t length;          /* the most tokens of a micro-batch: less than the option after a lack of memory */
    bool recompute;          /* blocks are recomputed: as the option says, or after a lack of memory */
} th_tune_progress;
/* Returns the progress; zeros for NULL. */
TH_API th_tune_progress th_tune_progress_of(const th_tune *tune);

/* Returns the optimizer, to change its learning rate or to save it in a checkpoint. It belongs to the tuner. NULL for
 * NULL. */
TH_API th_optimizer *th_tune_optimizer(th_tune *tune);

/* Writes the adapters: as a GGUF file for llama.cpp if the path ends with ".gguf" (th_lora_export_gguf), otherwise as a
 * folder of PEFT (th_lora_save). Tuning can continue afterwards. */
TH_API th_status th_tune_save(th_tune *tune, const char *path) TH_MUST_CHECK;
/* Frees the tuner and its optimizer. The model keeps its adapters. NULL is allowed. */
TH_API void th_tune_free(th_tune *tune);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_tune_new(...) TH_AT_POINTER(th_tune, th_tune_new(__VA_ARGS__))
#define th_tune_add(...) TH_AT_STATUS(th_tune_add(__VA_ARGS__))
#define th_tune_add_json(...) TH_AT_STATUS(th_tune_add_json(__VA_ARGS__))
#define th_tune_step(...) TH_AT_STATUS(th_tune_step(__VA_ARGS__))
#define th_tune_save(...) TH_AT_STATUS(th_tune_save(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
