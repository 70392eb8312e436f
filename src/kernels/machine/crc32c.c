/* CRC-32C (crc32c.h): with the processor's instruction if it has one (SSE 4.2, AArch64 with CRC32), about 8 GB/s;
 * otherwise half a byte at a time. */
#include "kernels/machine/crc32c.h"

#include <stdbool.h>
#include <string.h>

#include "platform/system.h"

/* The remainders of 0 .. 15 modulo the polynomial 0x1edc6f41, bits reversed. */
static const uint32_t remainder_of[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t th_crc32c_plain(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *byte = bytes;
    uint32_t state = ~crc;
    for (size_t i = 0; i < n; i++) {
        state ^= byte[i];
        state = state >> 4 ^ remainder_of[state & 15];
        state = state >> 4 ^ remainder_of[state & 15];
    }
    return ~state;
}

#if defined(__x86_64__)

#if defined __clang__ && __clang_major__ < 14
#define FOR_INSTRUCTION __attribute__((target("sse4.2"))) /* which has the instruction */
#else
#define FOR_INSTRUCTION __attribute__((target("sse4.2,crc32")))
#endif

static bool has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2");
}

FOR_INSTRUCTION static uint64_t add_word(uint64_t state, uint64_t word)
{
    return __builtin_ia32_crc32di(state, word);
}

FOR_INSTRUCTION static uint32_t add_byte(uint32_t state, unsigned char byte)
{
    return __builtin_ia32_crc32qi(state, byte);
}

#elif defined(__aarch64__)

#define FOR_INSTRUCTION

static bool has_instruction(void)
{
    return th_processor_has_crc32();
}

static uint64_t add_word(uint64_t state, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %1" : "+r"(state) : "r"(word));
    return state;
}

static uint32_t add_byte(uint32_t state, unsigned char byte)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(state) : "r"(byte));
    return state;
}

#endif

#ifdef FOR_INSTRUCTION
FOR_INSTRUCTION static uint32_t crc_by_instruction(uint32_t state, const unsigned char *bytes, size_t n)
{
    uint64_t wide = state;
    for (; n >= sizeof wide; n -= sizeof wide, bytes += sizeof wide) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        wide = add_word(wide, word);
    }
    state = (uint32_t)wide;
    for (size_t i = 0; i < n; i++)
        state = add_byte(state, bytes[i]);
    return state;
}
#endif

uint32_t th_crc32c(uint32_t crc, const void *bytes, size_t n)
{
#ifdef FOR_INSTRUCTION
    if (has_instruction())
        return ~crc_by_instruction(~crc, bytes, n);
#endif
    return th_crc32c_plain(crc, bytes, n);
}
