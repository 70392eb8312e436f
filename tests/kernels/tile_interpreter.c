/* See tile_interpreter.h. The names of operands and fields are those of Intel's Software Developer's Manual, volume 2.
 */
#include "tile_interpreter.h"

#include <cpuid.h>
#include <immintrin.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* -- tiles -- */

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64, COLUMNS = ROW_BYTES / 4 }; /* palette 1 */

/* The 64 bytes in memory that ldtilecfg reads and sttilecfg writes. */
typedef struct configuration {
    uint8_t palette, start_row, zeros[14];
    uint16_t bytes[16]; /* of a tile's row */
    uint8_t rows[16];
} configuration;
_Static_assert(sizeof(configuration) == 64, "nothing is between the fields");

typedef struct tile {
    _Alignas(ROW_BYTES) uint32_t elements[ROWS][COLUMNS];
} tile;

/* Of each thread. Elements outside the configuration are always 0. */
static _Thread_local struct {
    configuration configuration; /* all 0 if tiles are not configured */
    tile tiles[TILES];
} state;

static _Atomic int64_t instructions;
static _Atomic int configured_threads;

/* Ends the program where a processor would have raised an exception. */
__attribute__((noreturn, format(printf, 1, 2))) static void refuse(const char *format, ...)
{
    char sentence[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    fprintf(stderr, "tile interpreter: %s\n", sentence);
    abort();
}

static void need(bool condition, const char *sentence)
{
    if (!condition)
        refuse("%s", sentence);
}

/* -- decoding an instruction -- */

enum { NO_PREFIX, PREFIX_66, PREFIX_F3, PREFIX_F2 }; /* as VEX has them in `pp` */
enum { VEX = 0xc4, CONFIGURE = 0x49, MOVE = 0x4b, DOT_BFLOAT16 = 0x5c, TILERELEASE_MODRM = 0xc0 };

typedef struct instruction {
    uint8_t opcode, prefix, modrm;
    bool memory, sib;
    int reg, rm, vvvv;   /* 0 to 15 each */
    char *address;       /* of memory, without the index */
    int64_t row_stride;  /* the index, scaled */
    const uint8_t *next; /* the next instruction */
} instruction;

static int64_t general_register(const ucontext_t *context, int number)
{
    static const int registers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return context->uc_mcontext.gregs[registers[number]];
}

static int64_t displacement(const uint8_t *code, int bytes)
{
    int8_t one;
    int32_t four;
    if (bytes == 1)
        return memcpy(&one, code, sizeof one), one;
    if (bytes == 4)
        return memcpy(&four, code, sizeof four), four;
    return 0;
}

/* Decodes the memory operand whose ModRM byte is at `code`: base + displacement, and separately index * scale. */
static void decode_memory(instruction *i, const uint8_t *code, int extend_index, int extend_base,
                          const ucontext_t *context)
{
    enum { NO_INDEX = 4, NO_BASE = 5 };
    const int mod = i->modrm >> 6;
    int base = i->modrm & 7;
    int64_t address = 0;
    code++;
    i->sib = base == 4;
    if (i->sib) {
        const int index = (*code >> 3 & 7) | extend_index;
        if (index != NO_INDEX)
            i->row_stride = (int64_t)((uint64_t)general_register(context, index) << (*code >> 6));
        base = *code++ & 7;
    }
    const bool no_base = mod == 0 && base == NO_BASE;
    const int bytes = mod == 1 ? 1 : mod == 2 || no_base ? 4 : 0;
    if (!no_base)
        address = general_register(context, base | extend_base);
    address += displacement(code, bytes);
    code += bytes;
    if (no_base && !i->sib)
        address += (int64_t)(intptr_t)code; /* relative to the next instruction */
    i->address = (char *)(intptr_t)address; /* NOLINT: up to here the address is a number */
    i->next = code;
}

/* C4, then R X B (inverted) and the map, then W, vvvv (inverted), L, pp, then the opcode and ModRM. */
static bool begins_instruction(const uint8_t *code)
{
    enum { MAP_0F38 = 2, W = 0x80, L = 4 };
    return code[0] == VEX && (code[1] & 0x1f) == MAP_0F38 && !(code[2] & (W | L)) &&
           (code[3] == CONFIGURE || code[3] == MOVE || code[3] == DOT_BFLOAT16);
}

static instruction decode(const uint8_t *code, const ucontext_t *context)
{
    if (!begins_instruction(code))
        refuse("no instruction of AMX known here begins with %02x %02x %02x %02x %02x", code[0], code[1], code[2],
               code[3], code[4]);
    const int extend_reg = code[1] & 0x80 ? 0 : 8, extend_index = code[1] & 0x40 ? 0 : 8,
              extend_base = code[1] & 0x20 ? 0 : 8;
    instruction i = {.prefix = code[2] & 3, .opcode = code[3], .modrm = code[4]};
    i.vvvv = ~(code[2] >> 3) & 15;
    i.reg = (i.modrm >> 3 & 7) | extend_reg;
    i.memory = i.modrm >> 6 != 3;
    if (i.memory) {
        decode_memory(&i, code + 4, extend_index, extend_base, context);
    } else {
        i.rm = (i.modrm & 7) | extend_base;
        i.next = code + 5;
    }
    return i;
}

/* -- executing an instruction -- */

static int columns_of(int t)
{
    return state.configuration.bytes[t] / 4;
}

/* Tile t, if an instruction may use it. */
static tile *valid_tile(int t)
{
    const configuration *c = &state.configuration;
    need(c->palette != 0, "a tile is used while none is configured");
    if (t >= TILES)
        refuse("there is no tile %d", t);
    if (c->rows[t] == 0)
        refuse("tile %d is used, but has no rows and columns", t);
    if (c->bytes[t] % 4 != 0)
        refuse("tile %d is used, but its rows of %d bytes are not multiples of 4 bytes", t, c->bytes[t]);
    return &state.tiles[t];
}

static void set_configuration(const configuration *c)
{
    const int change = (c->palette != 0) - (state.configuration.palette != 0);
    atomic_fetch_add(&configured_threads, change);
    state.configuration = *c;
    memset(state.tiles, 0, sizeof state.tiles);
}

static void load_configuration(const char *address)
{
    static const configuration none;
    configuration c;
    memcpy(&c, address, sizeof c);
    if (c.palette == 0) {
        set_configuration(&none);
        return;
    }
    if (c.palette != 1)
        refuse("there is no palette %d", c.palette);
    need(memcmp(c.zeros, none.zeros, sizeof c.zeros) == 0, "bytes 2 to 15 of a configuration are reserved, and not 0");
    for (int t = 0; t < TILES; t++) {
        if (c.bytes[t] > ROW_BYTES || c.rows[t] > ROWS)
            refuse("tile %d cannot have %d rows of %d bytes", t, c.rows[t], c.bytes[t]);
        if ((c.bytes[t] == 0) != (c.rows[t] == 0))
            refuse("tile %d cannot have %d rows of %d bytes: both are 0 or none", t, c.rows[t], c.bytes[t]);
    }
    for (int t = TILES; t < 16; t++)
        need(c.bytes[t] == 0 && c.rows[t] == 0, "a configuration has 8 tiles, and what is behind them is not 0");
    set_configuration(&c);
}

static void zero(int t)
{
    memset(valid_tile(t), 0, sizeof(tile));
    state.configuration.start_row = 0;
}

static int first_row(int t)
{
    const int row = state.configuration.start_row;
    if (row >= state.configuration.rows[t])
        refuse("start_row is %d, and tile %d has %d rows", row, t, state.configuration.rows[t]);
    return row;
}

static void load(const instruction *i)
{
    const int t = i->reg;
    tile *to = valid_tile(t);
    const int first = first_row(t);
    memset(to->elements[first], 0, sizeof(tile) - (size_t)first * ROW_BYTES);
    for (int row = first; row < state.configuration.rows[t]; row++)
        memcpy(to->elements[row], i->address + row * i->row_stride, state.configuration.bytes[t]);
    state.configuration.start_row = 0;
}

static void store(const instruction *i)
{
    const int t = i->reg;
    const tile *from = valid_tile(t);
    for (int row = first_row(t); row < state.configuration.rows[t]; row++)
        memcpy(i->address + row * i->row_stride, from->elements[row], state.configuration.bytes[t]);
    state.configuration.start_row = 0;
}

/* The elements of a tile, pairs of bfloat16 numbers, as floats: the even ones (lower halves) and the odd ones. */
typedef struct halves {
    _Alignas(ROW_BYTES) uint32_t even[ROWS][COLUMNS], odd[ROWS][COLUMNS];
} halves;

__attribute__((target("avx2,fma"))) static halves halves_of(const tile *t)
{
    halves h;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column += 8) {
            const __m256i pairs = _mm256_load_si256((const __m256i *)&t->elements[row][column]);
            _mm256_store_si256((__m256i *)&h.even[row][column], _mm256_slli_epi32(pairs, 16));
            _mm256_store_si256((__m256i *)&h.odd[row][column],
                               _mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
        }
    return h;
}

__attribute__((target("avx2,fma"))) static __m256 eight_of(const uint32_t *floats)
{
    return _mm256_castsi256_ps(_mm256_load_si256((const __m256i *)floats));
}

__attribute__((target("avx2,fma"))) static __m256 all_of(uint32_t number)
{
    return _mm256_castsi256_ps(_mm256_set1_epi32((int)number));
}

/* c += a b: for each element the even and the odd sum, then c + their sum. Columns outside c are computed too; they are
 * 0. Never inlined: the caller's mode is changed around it, and arithmetic must not move out of that. */
__attribute__((target("avx2,fma"), noinline)) static void dot(tile *c, const tile *a, const tile *b, int rows,
                                                              int pairs)
{
    const halves x = halves_of(a), y = halves_of(b);
    for (int row = 0; row < rows; row++) {
        __m256 even[2], odd[2];
        for (int half = 0; half < 2; half++)
            even[half] = odd[half] = _mm256_setzero_ps();
        for (int k = 0; k < pairs; k++)
            for (int half = 0; half < 2; half++) {
                even[half] = _mm256_fmadd_ps(all_of(x.even[row][k]), eight_of(&y.even[k][8 * half]), even[half]);
                odd[half] = _mm256_fmadd_ps(all_of(x.odd[row][k]), eight_of(&y.odd[k][8 * half]), odd[half]);
            }
        for (int half = 0; half < 2; half++) {
            uint32_t *sum = &c->elements[row][8 * half];
            const __m256 before = eight_of(sum), both = _mm256_add_ps(even[half], odd[half]);
            _mm256_store_si256((__m256i *)sum, _mm256_castps_si256(_mm256_add_ps(before, both)));
        }
    }
}

static void dot_bfloat16(const instruction *i)
{
    const configuration *s = &state.configuration;
    const int c = i->reg, a = i->rm, b = i->vvvv;
    tile *sums = valid_tile(c);
    const tile *left = valid_tile(a), *right = valid_tile(b);
    need(c != a && c != b && a != b, "the three tiles of a product must differ");
    if (s->rows[c] != s->rows[a] || s->bytes[c] != s->bytes[b] || columns_of(a) != s->rows[b])
        refuse("tiles %d, %d and %d of %d x %d, %d x %d and %d x %d elements do not match", c, a, b, s->rows[c],
               columns_of(c), s->rows[a], columns_of(a), s->rows[b], columns_of(b));
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(_MM_MASK_MASK | _MM_ROUND_NEAREST | _MM_FLUSH_ZERO_ON | 0x40 /* denormals are zeros */);
    dot(sums, left, right, s->rows[c], columns_of(a));
    _mm_setcsr(mode);
    state.configuration.start_row = 0;
}

static void execute(const instruction *i)
{
    enum { MEMORY = 0x400 };
    const int what = i->opcode | i->prefix << 8 | (i->memory ? MEMORY : 0);
    if (i->opcode != DOT_BFLOAT16)
        need(i->vvvv == 0, "VEX.vvvv is not 1111b");
    if (i->opcode == MOVE)
        need(i->sib, "tiles are loaded and stored with a SIB byte only");
    else if (i->opcode == CONFIGURE && i->memory)
        need((i->reg & 7) == 0, "unknown instruction of opcode 49 with memory");
    switch (what) {
    case CONFIGURE | NO_PREFIX << 8 | MEMORY:
        load_configuration(i->address);
        break;
    case CONFIGURE | PREFIX_66 << 8 | MEMORY:
        memcpy(i->address, &state.configuration, sizeof state.configuration);
        break;
    case CONFIGURE | NO_PREFIX << 8:
        need(i->modrm == TILERELEASE_MODRM, "unknown instruction of opcode 49 without memory");
        set_configuration(&(configuration){0});
        break;
    case CONFIGURE | PREFIX_F2 << 8:
        need(i->rm == 0, "unknown instruction of opcode 49 without memory");
        zero(i->reg);
        break;
    case MOVE | PREFIX_F2 << 8 | MEMORY:
    case MOVE | PREFIX_66 << 8 | MEMORY: /* data that should not stay in the cache */
        load(i);
        break;
    case MOVE | PREFIX_F3 << 8 | MEMORY:
        store(i);
        break;
    case DOT_BFLOAT16 | PREFIX_F3 << 8:
        dot_bfloat16(i);
        break;
    default:
        refuse("unknown instruction of AMX: opcode %02x with prefix %d, %s memory", i->opcode, i->prefix,
               i->memory ? "with" : "without");
    }
}

/* The kernel gives a handler the default floating-point mode, and restores the program's registers when the handler
 * returns. Consecutive AMX instructions, which change no registers, are interpreted without returning, because traps
 * take most of the time. */
static void interpret(int signal_number, siginfo_t *information, void *context)
{
    (void)signal_number;
    (void)information;
    ucontext_t *program = context;
    const uint8_t *code = (const uint8_t *)(intptr_t)program->uc_mcontext.gregs[REG_RIP];
    do {
        const instruction i = decode(code, program);
        execute(&i);
        code = i.next;
        atomic_fetch_add_explicit(&instructions, 1, memory_order_relaxed);
    } while (begins_instruction(code));
    program->uc_mcontext.gregs[REG_RIP] = (greg_t)(intptr_t)code;
}

/* -- setup -- */

static bool interpreted;

/* Whether the processor has AMX with bfloat16 products, and the kernel saves its registers and permits their use. */
static bool processor_has_tiles(void)
{
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, XSAVE_IN_USE = 1 << 27, TILE_STATE = 3 << 17 };
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* of arch_prctl */
    unsigned a, b, c, d, state_low, state_high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & XSAVE_IN_USE) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        (d & (AMX_BF16 | AMX_TILE)) != (AMX_BF16 | AMX_TILE))
        return false;
    __asm__("xgetbv" : "=a"(state_low), "=d"(state_high) : "c"(0));
    return (state_low & TILE_STATE) == TILE_STATE && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

bool tiles_start(void)
{
    if (interpreted || processor_has_tiles())
        return true;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        puts("skipped: AMX's instructions are interpreted with those of AVX2, which this processor has not got");
        return false;
    }
    struct sigaction action = {.sa_sigaction = interpret, .sa_flags = SA_SIGINFO};
    interpreted = sigaction(SIGILL, &action, NULL) == 0;
    if (!interpreted)
        puts("skipped: no handler can be installed here that interprets AMX's instructions");
    return interpreted;
}

bool tiles_interpreted(void)
{
    return interpreted;
}

bool tiles_configured(void)
{
    if (interpreted)
        return atomic_load(&configured_threads) > 0;
    configuration now;
    __asm__ volatile(".byte 0xc4, 0xe2, 0x79, 0x49, 0x00" : "=m"(now) : "a"(&now)); /* sttilecfg (%rax) */
    return now.palette != 0;
}

int64_t tiles_instructions(void)
{
    return atomic_load(&instructions);
}
