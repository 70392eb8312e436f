/* The known kinds of chat templates, as data. */
#include "models/chat/chat.h"

#define IM(role)                                                                                                       \
    {                                                                                                                  \
        "<|im_start|>" role "\n", "<|im_end|>\n"                                                                       \
    }
#define CHATML                                                                                                         \
    .system = IM("system"), .user = IM("user"), .assistant = IM("assistant"), .prompt = "<|im_start|>assistant\n",     \
    .stop = "<|im_end|>"
#define HEADER(role)                                                                                                   \
    {                                                                                                                  \
        "<|start_header_id|>" role "<|end_header_id|>\n\n", "<|eot_id|>"                                               \
    }
#define LLAMA_3                                                                                                        \
    .user = HEADER("user"), .assistant = HEADER("assistant"),                                                          \
    .prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n", .stop = "<|eot_id|>"
#define DATED                                                                                                          \
    {                                                                                                                  \
        "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: " TH_DAY     \
        "\n\n",                                                                                                        \
            "<|eot_id|>"                                                                                               \
    }
#define GEMMA                                                                                                          \
    .begin = TH_BOS, .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},                                             \
    .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n"}, .prompt = "<start_of_turn>model\n",                    \
    .stop = "<end_of_turn>"
#define PHI                                                                                                            \
    .system = {"<|system|>\n", "<|end|>\n"}, .user = {"<|user|>\n", "<|end|>\n"},                                      \
    .assistant = {"<|assistant|>\n", "<|end|>\n"}, .prompt = "<|assistant|>\n", .end = TH_EOS, .stop = "<|end|>"

#define MISTRAL_3                                                                                                      \
    .begin = TH_BOS, .system = {"", "\n\n"}, .user = {"[INST] ", "[/INST]"}, .assistant = {" ", TH_EOS}, .prompt = "", \
    .stop = TH_EOS
#define TULU                                                                                                           \
    .system = {"<|system|>\n", "\n"}, .user = {"<|user|>\n", "\n"}, .assistant = {"<|assistant|>\n", TH_EOS "\n"},     \
    .prompt = "<|assistant|>\n", .stop = TH_EOS, .rules = TH_CHAT_LAST_OPEN

const th_chat_kind th_chat_table[] = {
    [TH_CHAT_PLAIN] = {.name = "plain",
                       .system = {"", "\n\n"},
                       .user = {"User: ", "\n\n"},
                       .assistant = {"Assistant: ", TH_EOS "\n\n"},
                       .prompt = "Assistant:",
                       .stop = TH_EOS,
                       .rules = TH_CHAT_LAST_OPEN | TH_CHAT_COUNTS_LEAD},
    {.name = "chatml", CHATML},
    {.name = "chatml-bos", CHATML, .begin = TH_BOS},
    {.name = "qwen-1.5", CHATML, .default_system = "You are a helpful assistant"},
    {.name = "qwen-2", CHATML, .default_system = "You are a helpful assistant."},
    {.name = "qwen-2.5",
     CHATML,
     .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     .rules = TH_CHAT_COUNTS_LEAD},
    {.name = "qwen-2.5-math",
     CHATML,
     .default_system = "Please reason step by step, and put your final answer within \\boxed{}."},
    {.name = "qwen-3", CHATML, .rules = TH_CHAT_THINKS},
    {.name = "smollm-2",
     CHATML,
     .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
    {.name = "smollm-3",
     .user = IM("user"),
     .assistant = IM("assistant"),
     .prompt = "<|im_start|>assistant\n",
     .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face.",
     .stop = "<|im_end|>",
     .rules = TH_CHAT_SMOLLM_3 | TH_CHAT_COUNTS_HEADER | TH_CHAT_ALWAYS_SYSTEM},
    {.name = "llama-2",
     .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .user = {TH_BOS "[INST] ", " [/INST]"},
     .assistant = {" ", " " TH_EOS},
     .prompt = "",
     .stop = TH_EOS,
     .rules = TH_CHAT_TRIMS | TH_CHAT_ALTERNATES | TH_CHAT_SYSTEM_INSIDE | TH_CHAT_SYSTEM_AS_IS | TH_CHAT_TRIMS_USER |
              TH_CHAT_COUNTS_LEAD},
    {.name = "llama-3", LLAMA_3, .begin = TH_BOS, .system = HEADER("system"), .rules = TH_CHAT_TRIMS},
    {.name = "llama-3.1", LLAMA_3, .begin = TH_BOS, .system = DATED, .rules = TH_CHAT_TRIMS | TH_CHAT_ALWAYS_SYSTEM},
    {.name = "llama-3.2",
     LLAMA_3,
     .begin = TH_BOS,
     .system = DATED,
     .rules = TH_CHAT_TRIMS | TH_CHAT_ALWAYS_SYSTEM | TH_CHAT_TODAY},
    {.name = "mistral-1", /* of Mistral 7B Instruct 0.2 */
     .begin = TH_BOS,
     .user = {"[INST] ", " [/INST]"},
     .assistant = {"", TH_EOS},
     .prompt = "",
     .stop = TH_EOS,
     .rules = TH_CHAT_ALTERNATES | TH_CHAT_NO_SYSTEM},
    {.name = "mistral-0.1", /* of Mistral 7B Instruct 0.1: a space after each answer */
     .begin = TH_BOS,
     .user = {"[INST] ", " [/INST]"},
     .assistant = {"", TH_EOS " "},
     .prompt = "",
     .stop = TH_EOS,
     .rules = TH_CHAT_ALTERNATES | TH_CHAT_NO_SYSTEM},
    {.name = "mistral-1-system", /* the same with a system message */
     .begin = TH_BOS,
     .system = {"", "\n\n"},
     .user = {" [INST] ", " [/INST]"},
     .assistant = {" ", TH_EOS},
     .prompt = "",
     .stop = TH_EOS,
     .rules = TH_CHAT_ALTERNATES | TH_CHAT_SYSTEM_INSIDE | TH_CHAT_SYSTEM_AS_IS | TH_CHAT_COUNTS_LEAD},
    {.name = "mistral-0.3",
     MISTRAL_3,
     .rules = TH_CHAT_ALTERNATES | TH_CHAT_SYSTEM_INSIDE | TH_CHAT_SYSTEM_LAST | TH_CHAT_COUNTS_LEAD},
    {.name = "mistral-0.3-trim", /* a later version of the same */
     MISTRAL_3,
     .rules =
         TH_CHAT_ALTERNATES | TH_CHAT_SYSTEM_INSIDE | TH_CHAT_SYSTEM_LAST | TH_CHAT_TRIMS_ANSWER | TH_CHAT_COUNTS_LEAD},
    {.name = "mistral-nemo",
     .begin = TH_BOS,
     .system = {"", "\n\n"},
     .user = {"[INST]", "[/INST]"},
     .assistant = {"", TH_EOS},
     .prompt = "",
     .stop = TH_EOS,
     .rules = TH_CHAT_ALTERNATES | TH_CHAT_SYSTEM_INSIDE | TH_CHAT_SYSTEM_LAST},
    {.name = "mistral-small",
     .begin = TH_BOS,
     .system = {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"},
     .user = {"[INST]", "[/INST]"},
     .assistant = {"", TH_EOS},
     .prompt = "",
     .stop = TH_EOS},
    {.name = "gemma", GEMMA, .rules = TH_CHAT_TRIMS | TH_CHAT_ALTERNATES | TH_CHAT_NO_SYSTEM},
    {.name = "gemma-3",
     GEMMA,
     .system = {"", "\n\n"},
     .rules = TH_CHAT_TRIMS | TH_CHAT_ALTERNATES | TH_CHAT_SYSTEM_INSIDE | TH_CHAT_SYSTEM_AS_IS},
    {.name = "phi-3", PHI},
    {.name = "phi-3.5", PHI, .rules = TH_CHAT_SKIPS_EMPTY_SYSTEM},
    {.name = "phi-3-medium", /* and the first versions of Phi-3 */
     .begin = TH_BOS,
     .user = {"<|user|>\n", "<|end|>\n<|assistant|>\n"},
     .assistant = {"", "<|end|>\n"},
     .prompt = "",
     .stop = "<|end|>",
     .rules = TH_CHAT_NO_SYSTEM},
    {.name = "phi-4-mini",
     .system = {"<|system|>", "<|end|>"},
     .user = {"<|user|>", "<|end|>"},
     .assistant = {"<|assistant|>", "<|end|>"},
     .prompt = "<|assistant|>",
     .end = TH_EOS,
     .stop = "<|end|>"},
    {.name = "olmo-2", TULU, .begin = TH_BOS},
    {.name = "tulu", TULU},
    {.name = "zephyr",
     .system = {"<|system|>\n", TH_EOS "\n"},
     .user = {"<|user|>\n", TH_EOS "\n"},
     .assistant = {"<|assistant|>\n", TH_EOS "\n"},
     .prompt = "<|assistant|>\n",
     .stop = TH_EOS},
};
_Static_assert(sizeof th_chat_table / sizeof *th_chat_table == TH_CHAT_KINDS, "the number of kinds");

const char *th_chat_kind_name(int index)
{
    return index >= 0 && index < TH_CHAT_KINDS ? th_chat_table[index].name : NULL;
}
