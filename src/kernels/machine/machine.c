/* Chooses the kernels of a context from the processor and the environment. AMX is detected later, when a context first
 * sets a reduced precision. */
#include "kernels/machine/machine.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/machine/amx.h"
#include "kernels/machine/openblas.h"
#include "kernels/machine/processors.h"
#include "kernels/product_kernels.h"

#define INSTANCES(isa)                                                                                                 \
    extern const th_kernels th_kernels_f32_##isa, th_kernels_f64_##isa;                                                \
    extern const th_product_kernels th_product_fma_f32_##isa[2]
INSTANCES(baseline);
INSTANCES(avx2);
INSTANCES(avx512);
#undef INSTANCES
extern const th_product_kernels th_product_dpbf16_f32_avx512bf16[2];

/* The values of TAPEHEAD_ISA except amx (amx.h): the instruction sets, and AVX-512 with dot products of bfloat16
 * pairs. */
enum { DPBF16 = TH_ISA_AVX512 + 1, CHOICES };

static const struct {
    const char *name;
    th_isa isa;
    const th_kernels *kernels[2];
    const th_product_kernels *products;
    const char *missing;
} choices[CHOICES] = {
    [TH_ISA_BASELINE] = {"baseline",
                         TH_ISA_BASELINE,
                         {&th_kernels_f32_baseline, &th_kernels_f64_baseline},
                         th_product_fma_f32_baseline,
                         NULL},
    [TH_ISA_AVX2] = {"avx2",
                     TH_ISA_AVX2,
                     {&th_kernels_f32_avx2, &th_kernels_f64_avx2},
                     th_product_fma_f32_avx2,
                     "TAPEHEAD_ISA is avx2, but this processor has no AVX2 with fused multiply-add"},
    [TH_ISA_AVX512] = {"avx512",
                       TH_ISA_AVX512,
                       {&th_kernels_f32_avx512, &th_kernels_f64_avx512},
                       th_product_fma_f32_avx512,
                       "TAPEHEAD_ISA is avx512, but this processor has no AVX-512 (F, BW, DQ and VL)"},
    [DPBF16] = {"avx512_bf16",
                TH_ISA_AVX512,
                {&th_kernels_f32_avx512, &th_kernels_f64_avx512},
                th_product_dpbf16_f32_avx512bf16,
                "TAPEHEAD_ISA is avx512_bf16, but this processor has no AVX-512 with BF16"},
};

static bool processor_has(int choice)
{
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    switch (choice) {
    case TH_ISA_BASELINE:
        return true;
    case TH_ISA_AVX2:
        return avx2;
    case TH_ISA_AVX512:
        return avx2 && avx512;
    default:
        return avx2 && avx512 && __builtin_cpu_supports("avx512bf16");
    }
}

/* The value of an environment variable; NULL if it is not set or empty. */
static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Returns the best choice without AMX, which is detected on request. Dot products of bfloat16 pairs are not always
 * faster. One dot product does the work of two fused multiply-adds. Intel's processors need the time of four for it,
 * AMD's (from Zen 4) the time of one. */
static int best_choice(void)
{
    int choice = DPBF16;
    while (!processor_has(choice) || (choice == DPBF16 && __builtin_cpu_is("intel")))
        choice--;
    return choice;
}

static void use(th_machine *machine, int choice)
{
    machine->isa = choices[choice].isa;
    memcpy(machine->kernels, choices[choice].kernels, sizeof machine->kernels);
    machine->products = choices[choice].products;
}

/* If a request cannot be fulfilled, keeps the best choice: the context uses it after its error is cleared. */
static const char *detect_isa(th_machine *machine)
{
    const char *wanted = setting("TAPEHEAD_ISA");
    use(machine, best_choice());
    machine->may_use_amx = !wanted && machine->isa == TH_ISA_AVX512;
    if (!wanted)
        return NULL;
    if (strcmp(wanted, "amx") == 0) /* a processor with AMX has AVX-512, whose kernels best_choice has taken */
        return th_amx_detect(&machine->products);
    int choice = CHOICES - 1;
    while (choice >= 0 && strcmp(wanted, choices[choice].name) != 0)
        choice--;
    if (choice < 0)
        return "TAPEHEAD_ISA must be baseline, avx2, avx512, avx512_bf16 or amx";
    if (!processor_has(choice))
        return choices[choice].missing;
    use(machine, choice);
    return NULL;
}

static const char *detect_gemm(th_machine *machine)
{
    const char *wanted = setting("TAPEHEAD_GEMM");
    const bool native = wanted && strcmp(wanted, "native") == 0, openblas = wanted && strcmp(wanted, "openblas") == 0;
    const bool baseline = machine->isa == TH_ISA_BASELINE;
    machine->gemm = baseline || (openblas && th_openblas()) ? TH_GEMM_OPENBLAS : TH_GEMM_NATIVE;
    if (wanted && !native && !openblas && strcmp(wanted, "auto") != 0)
        return "TAPEHEAD_GEMM must be auto, native or openblas";
    if (native && baseline)
        return "TAPEHEAD_GEMM is native, but native matrix products need fused multiply-add, which isa baseline lacks: "
               "use openblas";
    if (openblas && !th_openblas())
        return "TAPEHEAD_GEMM is openblas, but OpenBLAS was not found (libopenblas.so.0)";
    if (baseline && !th_openblas())
        return "OpenBLAS was not found (libopenblas.so.0); matrix products need it on processors without fused "
               "multiply-add";
    return NULL;
}

const char *th_machine_detect(th_machine *machine)
{
    *machine = (th_machine){.threads = th_processors_default_team()};
    const char *isa = detect_isa(machine), *gemm = detect_gemm(machine);
    return isa ? isa : gemm;
}

bool th_machine_set_precision(th_machine *machine, th_precision precision)
{
    if (precision != TH_PRECISION_FLOAT32 && precision != TH_PRECISION_BFLOAT16X3 && precision != TH_PRECISION_BFLOAT16)
        return false;
    machine->precision = precision;
    if (precision != TH_PRECISION_FLOAT32 && machine->may_use_amx)
        (void)th_amx_detect(&machine->products);
    return true;
}

const char *th_precision_name(th_precision precision)
{
    switch (precision) {
    case TH_PRECISION_FLOAT32:
        return "float32";
    case TH_PRECISION_BFLOAT16X3:
        return "bfloat16x3";
    case TH_PRECISION_BFLOAT16:
        return "bfloat16";
    }
    return "?";
}

int th_machine_describe(const th_machine *machine, char *text, size_t size)
{
    const bool reduced = machine->precision != TH_PRECISION_FLOAT32;
    const th_openblas_functions *openblas = machine->gemm == TH_GEMM_OPENBLAS ? th_openblas() : NULL;
    return snprintf(text, size, "isa=%s gemm=%s threads=%d%s%s%s%s%s%s%s%s%s", choices[machine->isa].name,
                    openblas ? "openblas" : "native", machine->threads, openblas ? " openblas=" : "",
                    openblas ? openblas->version : "", openblas ? " (" : "", openblas ? openblas->core : "",
                    openblas ? ")" : "", reduced ? " precision=" : "",
                    reduced ? th_precision_name(machine->precision) : "", reduced ? " products=" : "",
                    reduced ? machine->products->name : "");
}
