/* The table of element types. */
#include "models/gguf/types.h"

#include <stddef.h>

#define READABLE(code, name, dtype, numbers, bytes)                                                                    \
    {                                                                                                                  \
        code, name, numbers, bytes, true, dtype                                                                        \
    }
#define KNOWN(code, name, numbers, bytes)                                                                              \
    {                                                                                                                  \
        code, name, numbers, bytes, false, TH_FLOAT32                                                                  \
    }
static const th_gguf_type types[] = {
    READABLE(0, "F32", TH_FLOAT32, 1, 4),
    READABLE(1, "F16", TH_FLOAT16, 1, 2),
    READABLE(2, "Q4_0", TH_Q4_0, 32, 18),
    READABLE(8, "Q8_0", TH_Q8_0, 32, 34),
    READABLE(28, "F64", TH_FLOAT64, 1, 8),
    READABLE(30, "BF16", TH_BFLOAT16, 1, 2),
    READABLE(3, "Q4_1", TH_Q4_1, 32, 20),
    READABLE(6, "Q5_0", TH_Q5_0, 32, 22),
    READABLE(7, "Q5_1", TH_Q5_1, 32, 24),
    READABLE(10, "Q2_K", TH_Q2_K, 256, 84),
    READABLE(11, "Q3_K", TH_Q3_K, 256, 110),
    READABLE(12, "Q4_K", TH_Q4_K, 256, 144),
    READABLE(13, "Q5_K", TH_Q5_K, 256, 176),
    READABLE(14, "Q6_K", TH_Q6_K, 256, 210),
    READABLE(20, "IQ4_NL", TH_IQ4_NL, 32, 18),
    READABLE(23, "IQ4_XS", TH_IQ4_XS, 256, 136),
    KNOWN(9, "Q8_1", 32, 36),
    KNOWN(15, "Q8_K", 256, 292),
    KNOWN(16, "IQ2_XXS", 256, 66),
    KNOWN(17, "IQ2_XS", 256, 74),
    KNOWN(18, "IQ3_XXS", 256, 98),
    KNOWN(19, "IQ1_S", 256, 50),
    KNOWN(21, "IQ3_S", 256, 110),
    KNOWN(22, "IQ2_S", 256, 82),
    KNOWN(29, "IQ1_M", 256, 56),
    KNOWN(34, "TQ1_0", 256, 54),
    KNOWN(35, "TQ2_0", 256, 66),
    KNOWN(39, "MXFP4", 32, 17),
    KNOWN(40, "NVFP4", 64, 36),
    KNOWN(24, "I8", 1, 1),
    KNOWN(25, "I16", 1, 2),
    KNOWN(26, "I32", 1, 4),
    KNOWN(27, "I64", 1, 8),
};
enum { TYPES = sizeof types / sizeof *types };

const th_gguf_type *th_gguf_type_find(uint32_t code)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].code == code)
            return &types[i];
    return NULL;
}

const th_gguf_type *th_gguf_type_of(th_dtype dtype)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].readable && types[i].dtype == dtype)
            return &types[i];
    return NULL;
}
