/* The kinds of chat templates: programs of our own that write what the templates of model families write. A kind has
 * settings, and shares the rest of its program, a file of kinds/, with similar kinds. The blocks `generation` of a program
 * enclose what counts for the loss, as in TRL's templates for training. */
#include <string.h>

#include "models/chat/chat.h"
#include "models/core/context.h"

#include "chat_kinds.inc"

#define SET(name, value) "{%- set " name " = " value " %}"
#define YES(name) SET(name, "true")
#define USUAL(text) SET("usual_system", "'" text "'")
#define BOS SET("bos", "bos_token")
#define DATED YES("dated") YES("first_system") YES("writes_tools")
#define MISTRAL(gap, before, close, lead, tail)                                                                        \
    SET("gap", "'" gap "'")                                                                                            \
    SET("before", "'" before "'") SET("close", "'" close "'") SET("lead", "'" lead "'") SET("tail", "'" tail "'")
#define LAST YES("alternates") YES("inside") YES("system_last") YES("writes_tools")
#define LINES SET("newline", "'\\n'")

static const th_chat_kind kinds[] = {
    {"plain", "", kind_plain},
    {"chatml", YES("writes_tools"), kind_chatml},
    {"chatml-bos", BOS, kind_chatml},
    {"qwen-1.5", USUAL("You are a helpful assistant"), kind_chatml},
    {"qwen-2", USUAL("You are a helpful assistant.") YES("writes_tools"), kind_chatml},
    {"qwen-2.5",
     USUAL("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.") YES("counts_newline")
         YES("writes_tools"),
     kind_chatml},
    {"qwen-2.5-math",
     USUAL("Please reason step by step, and put your final answer within \\\\boxed{}.") YES("writes_tools"),
     kind_chatml},
    {"qwen-3", YES("thinks") YES("writes_tools"), kind_chatml},
    {"smollm-2", USUAL("You are a helpful AI assistant named SmolLM, trained by Hugging Face"), kind_chatml},
    {"smollm-3", YES("first_system"), kind_smollm_3},
    {"llama-2", YES("alternates") YES("inside"), kind_llama_2},
    {"llama-3", "", kind_llama_3},
    {"llama-3.1", DATED SET("usual_date", "'26 Jul 2024'"), kind_llama_3},
    {"llama-3.2", DATED, kind_llama_3},
    {"mistral-1", /* of Mistral 7B Instruct 0.2 */
     MISTRAL(" ", "", " [/INST]", "", "") YES("alternates") YES("no_system"), kind_mistral},
    {"mistral-0.1", /* of Mistral 7B Instruct 0.1: a space after each answer */
     MISTRAL(" ", "", " [/INST]", "", " ") YES("alternates") YES("no_system"), kind_mistral},
    {"mistral-1-system", MISTRAL(" ", " ", " [/INST]", " ", "") YES("alternates") YES("inside"), kind_mistral},
    {"mistral-0.3", MISTRAL(" ", "", "[/INST]", " ", "") LAST, kind_mistral},
    {"mistral-0.3-trim", /* a later version of the same */
     MISTRAL(" ", "", "[/INST]", " ", "") LAST YES("trims"), kind_mistral},
    {"mistral-nemo", MISTRAL("", "", "[/INST]", "", "") LAST, kind_mistral},
    {"mistral-small", MISTRAL("", "", "[/INST]", "", "") YES("system_tags"), kind_mistral},
    {"gemma", YES("alternates") YES("no_system"), kind_gemma},
    {"gemma-3", YES("alternates") YES("inside"), kind_gemma},
    {"phi-3", LINES YES("last_end"), kind_phi},
    {"phi-3.5", LINES YES("last_end") YES("skips_empty"), kind_phi},
    {"phi-3-medium", /* and the first versions of Phi-3 */
     LINES BOS YES("no_system") SET("answer", "'<|assistant|>\\n'"), kind_phi},
    {"phi-4-mini", SET("newline", "''") YES("last_end") YES("tools_in_system"), kind_phi},
    {"olmo-2", BOS, kind_tulu},
    {"tulu", "", kind_tulu},
    {"zephyr", "", kind_zephyr},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *th_chat_kind_name(int index)
{
    return index >= 0 && index < KINDS ? kinds[index].name : NULL;
}

const th_chat_kind *th_chat_find_kind(const char *name)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(name, kinds[i].name) == 0)
            return &kinds[i];
    return NULL;
}

void th_chat_list_kinds(char text[TH_CHAT_LIST])
{
    text[0] = 0;
    for (int i = 0; i < KINDS; i++)
        th_append(text, TH_CHAT_LIST, "%s%s", i ? ", " : "", kinds[i].name);
}

bool th_chat_append_kind(const th_chat_kind *kind, th_text *text)
{
    const char *checks = (const char *)kind_checks, *body = (const char *)kind->body;
    return th_jinja_append(text, kind->settings, strlen(kind->settings)) &&
           th_jinja_append(text, checks, strlen(checks)) && th_jinja_append(text, body, strlen(body));
}
