/* Conversations: the texts and tokens that chat models expect, and instruction data for tuning.
 *
 *     th_chat_template *chat = th_chat_template_load(ctx, "model");
 *     const th_chat_message messages[] = {{"user", "What is 2 + 2?"}};
 *     th_token_list tokens = {0};
 *     if (th_chat_encode(chat, tokenizer, messages, 1, NULL, &tokens, NULL)) ...
 *
 * A chat template is a program in the Jinja language, which this library runs: the one in a folder of transformers, or
 * one of its own for a kind of models (th_chat_kind_name). A program reads only the conversation and the variables, and
 * its steps, memory, output and depth are limited. */
#ifndef TAPEHEAD_CHAT_H
#define TAPEHEAD_CHAT_H

#include "tapehead/token_file.h"
#include "tapehead/tokenizer.h"

TH_BEGIN_DECLS

/* -- templates -- */

/* How a conversation is written. It belongs to its context, which frees it. */
typedef struct th_chat_template th_chat_template;

/* Returns the name of a known kind of templates: 0 is "plain", 1 is "chatml", ... NULL after the last one.
 *
 * plain is for models without a template. A system message is its text, the others begin with "User: " or
 * "Assistant: ". A blank line follows each; after the assistant's messages it follows the end-of-text token, and the
 * last of these has no blank line:
 *
 *     Answer in one word.
 *
 *     User: Which color has the sky?
 *
 *     Assistant: Blue<|endoftext|>
 */
TH_API const char *th_chat_kind_name(int index);

/* Loads the template of a transformers folder: chat_template.jinja, or else chat_template in tokenizer_config.json, or the
 * template of a GGUF file. Without one the template is plain. bos_token and eos_token come from tokenizer_config.json, or
 * special_tokens_map.json. The kind is "jinja". A folder may have several templates, with names: an array in
 * tokenizer_config.json, or files additional_chat_templates/NAME.jinja. Of these, "tool_use" writes conversations with
 * tools, and "default" all others. TH_ERROR_FILE with the line and the column if it cannot be parsed. NULL with the error
 * stored. */
TH_API th_chat_template *th_chat_template_load(th_context *ctx, const char *folder);

/* The same, but the caller names the template: a kind (th_chat_kind_name), or one of the folder's templates. name NULL:
 * th_chat_template_load. TH_ERROR_ARGUMENT for an unknown name; the message lists the kinds. */
TH_API th_chat_template *th_chat_template_load_as(th_context *ctx, const char *folder, const char *name);

/* Appends the template of a transformers folder (Jinja) to text; a folder without a template appends nothing. */
TH_API th_status th_chat_template_text(th_context *ctx, const char *folder, th_text *text) TH_MUST_CHECK;
/* The same for a name as in th_chat_template_load_as. The program of a kind has no generation blocks here, because only
 * transformers knows them. A name that the folder lacks appends nothing. */
TH_API th_status th_chat_template_text_as(th_context *ctx, const char *folder, const char *name,
                                          th_text *text) TH_MUST_CHECK;

/* Creates a template of a kind (th_chat_kind_name), with these texts of the beginning-of-text and end-of-text tokens;
 * NULL: none. TH_ERROR_ARGUMENT for an unknown kind; the message lists all. NULL with the error pending. */
TH_API th_chat_template *th_chat_template_new(th_context *ctx, const char *kind, const char *bos_token,
                                              const char *eos_token);
/* Returns the kind's name, or "jinja"; NULL for NULL. */
TH_API const char *th_chat_template_kind(const th_chat_template *chat);
/* Returns the text that ends an answer, such as "<|im_end|>"; NULL for a template without such a text. It is the tag that
 * the program writes after an answer, or else eos_token. */
TH_API const char *th_chat_template_end(const th_chat_template *chat);

/* Sets the text of the end-of-text token, for a folder whose files do not tell it. TH_ERROR_ARGUMENT for NULL. */
TH_API th_status th_chat_template_set_end(th_chat_template *chat, const char *eos_token) TH_MUST_CHECK;
/* Sets further variables of the program: the members of a JSON object, such as {"enable_thinking": false}. They replace
 * earlier ones. NULL: none. The library sets messages, tools and add_generation_prompt itself. TH_ERROR_FILE for a text
 * that is not JSON, TH_ERROR_VALUE for variables that the library sets. */
TH_API th_status th_chat_template_set_variables(th_chat_template *chat, const char *json) TH_MUST_CHECK;
/* Sets the date that the program sees (strftime_now): noon of a day, such as "2026-11-28". Without it, the time is when
 * the template was created. TH_ERROR_ARGUMENT for another text. */
TH_API th_status th_chat_template_set_date(th_chat_template *chat, const char *date) TH_MUST_CHECK;
/* Frees the template; NULL is allowed. */
TH_API void th_chat_template_free(th_chat_template *chat);

/* -- conversations -- */

/* A message. Texts are UTF-8 and end with NUL. Bytes that are not UTF-8, which the answer of a model may have, become
 * U+FFFD. */
typedef struct th_chat_message {
    const char *role; /* "system", "user" or "assistant" */
    const char *content;
} th_chat_message;

typedef struct th_chat_options {
    bool prompt; /* the text ends where the assistant's next message begins */
    /* Sets the variable all_thoughts. In the kind qwen-3 each answer then has its thoughts, as in training. Otherwise only
     * the last answer keeps its thoughts, as in the model's own template. */
    bool all_thoughts;
} th_chat_options;

/* Appends the text of a conversation. options may be NULL: a prompt. TH_ERROR_VALUE for a conversation that the
 * template refuses, such as two messages of the user in a row. */
TH_API th_status th_chat_write(const th_chat_template *chat, const th_chat_message *messages, size_t count,
                               const th_chat_options *options, th_text *text) TH_MUST_CHECK;

/* The same for a conversation as JSON: {"messages": [...], "tools": [...], "chat_template_kwargs": {...}}. Messages may
 * have tool_calls and the role "tool". The last two members may be missing. The second has variables of this
 * conversation. */
TH_API th_status th_chat_write_json(const th_chat_template *chat, const char *conversation, size_t bytes,
                                    const th_chat_options *options, th_text *text) TH_MUST_CHECK;

/* Appends the tokens of a conversation. marks, which may be NULL, gets a byte for each token: TH_TOKEN_GIVEN unless the
 * token belongs to an answer of the assistant or ends it. A token that is partly in the answer belongs to it. */
TH_API th_status th_chat_encode(const th_chat_template *chat, th_tokenizer *tokenizer, const th_chat_message *messages,
                                size_t count, const th_chat_options *options, th_token_list *tokens,
                                th_text *marks) TH_MUST_CHECK;

/* -- instruction data -- */

/* What th_instructions_append has written. */
typedef struct th_instruction_counts {
    int64_t examples, tokens, targets;
    int64_t longest; /* tokens of the longest example */
} th_instruction_counts;

/* Appends one example, a JSON object, as tokens with marks. The first token has TH_TOKEN_BEGINS, tokens
 * that the loss must not count have TH_TOKEN_GIVEN. The object has the first of these forms whose fields it has:
 *
 *   "messages": [{"role": "user", "content": "..."}, ...]    a conversation; the assistant's messages count
 *   "prompt": [...messages], "completion": [...messages]     everything after the prompt counts
 *   "prompt": "text", "completion": "text"                   the same; texts are used as they are, with the tokens that
 *                                                            the tokenizer puts around a text, and eos_token at the end
 *   "text": "text"                                           everything counts; likewise
 *   "conversations": [{"from": "human", "value": "..."},     ShareGPT: messages. Also under "messages" and "conversation",
 *                     {"from": "gpt", "value": "..."}, ...]  or with "role" and "content"
 *   a question and an answer: texts                          messages of the user and of the assistant; the answer counts
 *
 * These fields are questions, with their answers: "instruction" with "output", "response", "answer" or "completion";
 * "question", "query" or "prompt" with "answer", "response" or "output"; "problem" with "solution" or "answer"; "input" with
 * "output" or "response"; "user" with "assistant". "input" or "context" follows an instruction, a question, a query or a
 * prompt in a new line. "system" or "system_prompt" is a message of the system, and "history": [["question", "answer"], ...]
 * are earlier messages. Names may have capital letters here.
 *
 * "tools" is an array, or a text of JSON. "chat_template_kwargs" is an object with variables of the program. Other members
 * are ignored. A message may have tool_calls, and the role "tool"; a kind whose model has no tools refuses them. A content
 * may be an array of parts, {"type": "text", "text": "..."}: a kind joins their texts, and the kind jinja gets the array.
 * The kind jinja gets all members of messages that are not null. A message of "function_call" has tool_calls.
 *
 * The answers are the generation blocks of the program, which each kind has. Without such blocks an answer is what follows
 * its prompt in the text of the messages through it. If these texts are not the beginning of the
 * whole text, the example is TH_ERROR_VALUE with the place where they part. The tokens and marks are those of TRL
 * with assistant_only_loss for messages, and with completion_only_loss for prompts. source: for messages, such as
 * "data.jsonl, line 3". An example without a token that counts is TH_ERROR_VALUE. */
TH_API th_status th_instruction_encode(const th_chat_template *chat, th_tokenizer *tokenizer, const char *line,
                                       size_t bytes, const char *source, th_token_list *tokens,
                                       th_text *marks) TH_MUST_CHECK;

/* Appends all examples of a text to a file with marks. The text is JSON or a table. JSON: objects, or arrays of objects,
 * with any white space between and within them. A table: a header with names of fields, and rows by RFC 4180, separated by
 * commas, semicolons or tabs. An example has at most 64 MiB. If examples have faults, the error lists the kinds of faults, with
 * the first line and the number of examples of each. name: the text's, for messages. counts, which may be NULL, grows by
 * what was written. */
TH_API th_status th_instructions_append(const th_chat_template *chat, th_tokenizer *tokenizer, const char *text,
                                        size_t bytes, const char *name, th_token_writer *writer,
                                        th_instruction_counts *counts) TH_MUST_CHECK;
/* Returns the format of the examples of a text, by its beginning: "JSON", "CSV" or "TSV". NULL: the text has no known
 * fields of examples there. */
TH_API const char *th_instructions_format(const char *text, size_t bytes);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_chat_template_load(...) TH_AT_POINTER(th_chat_template, th_chat_template_load(__VA_ARGS__))
#define th_chat_template_load_as(...) TH_AT_POINTER(th_chat_template, th_chat_template_load_as(__VA_ARGS__))
#define th_chat_template_text(...) TH_AT_STATUS(th_chat_template_text(__VA_ARGS__))
#define th_chat_template_text_as(...) TH_AT_STATUS(th_chat_template_text_as(__VA_ARGS__))
#define th_chat_template_new(...) TH_AT_POINTER(th_chat_template, th_chat_template_new(__VA_ARGS__))
#define th_chat_template_set_end(...) TH_AT_STATUS(th_chat_template_set_end(__VA_ARGS__))
#define th_chat_template_set_variables(...) TH_AT_STATUS(th_chat_template_set_variables(__VA_ARGS__))
#define th_chat_template_set_date(...) TH_AT_STATUS(th_chat_template_set_date(__VA_ARGS__))
#define th_chat_write(...) TH_AT_STATUS(th_chat_write(__VA_ARGS__))
#define th_chat_write_json(...) TH_AT_STATUS(th_chat_write_json(__VA_ARGS__))
#define th_chat_encode(...) TH_AT_STATUS(th_chat_encode(__VA_ARGS__))
#define th_instruction_encode(...) TH_AT_STATUS(th_instruction_encode(__VA_ARGS__))
#define th_instructions_append(...) TH_AT_STATUS(th_instructions_append(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
