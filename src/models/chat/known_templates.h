/* Normal forms of known chat templates, by length and hash. scripts/interop/chat_templates.py writes this
 * file. */
#ifndef TH_MODELS_CHAT_KNOWN_TEMPLATES_H
#define TH_MODELS_CHAT_KNOWN_TEMPLATES_H

#include <stdint.h>

static const struct {
    const char *kind;
    uint64_t count, hash;
} known[] = {
    {"chatml", 179, UINT64_C(0xca228e92ca8caeae)},
    {"chatml", 216, UINT64_C(0x15bd774721d07121)},
    {"qwen-2", 305, UINT64_C(0x64cae7c461fba393)},
    {"smollm-2", 345, UINT64_C(0x094d0b148b2f9e32)},
    {"llama-2", 721, UINT64_C(0x52e768f31d942fc9)},
    {"mistral-1", 426, UINT64_C(0x2bc9246e3e4f7959)},
    {"mistral-1-system", 975, UINT64_C(0x21886835aa201b1b)},
    {"olmo-2", 456, UINT64_C(0x450ed1943b2f84a5)},
    {"zephyr", 370, UINT64_C(0x8c3bea40cff80060)},
    {"llama-3", 352, UINT64_C(0x9fc5528b8ef03432)},
    {"llama-3", 547, UINT64_C(0x6192b19bdc031577)},
    {"llama-3.1", 4043, UINT64_C(0x58c8af19170e8558)},
    {"llama-3.2", 3357, UINT64_C(0x5f464dd3690b2315)},
    {"phi-3", 374, UINT64_C(0x4a923fa8343c6ff1)},
    {"phi-3", 625, UINT64_C(0x719309d30706e363)},
    {"phi-3.5", 396, UINT64_C(0xe6defdd3f10eca72)},
    {"phi-3.5", 647, UINT64_C(0xd539a5b7ab5f91bc)},
    {"gemma", 532, UINT64_C(0x6e597fda778cd9dd)},
    {"gemma", 743, UINT64_C(0x44c991642a16a138)},
    {"gemma-3", 1410, UINT64_C(0xb7941c9422937df3)},
    {"gemma-3", 2103, UINT64_C(0xfbb710201a53ae79)},
    {"qwen-2.5", 2339, UINT64_C(0x1aca4a1bc9bc868b)},
    {"qwen-2.5", 2522, UINT64_C(0x6107357ae1eb0fe9)},
    {"qwen-3", 3881, UINT64_C(0x8ecc6f16c379e10f)},
    {"chatml", 2447, UINT64_C(0xe0e9aaa93dd6eb51)},
    {"chatml", 2517, UINT64_C(0x8248faf9d4f1517d)},
};

#endif
