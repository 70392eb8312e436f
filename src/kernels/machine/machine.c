/* Chooses the kernels of a context from the processor and the environment. isa.h has the choices. */
#include "kernels/machine/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/machine/openblas.h"
#include "kernels/machine/paths.h"
#include "kernels/machine/processors.h"
#include "kernels/product_kernels.h"

/* The value of an environment variable; NULL if it is not set or empty. */
static const char *environment_setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void use_choice(th_machine *machine, const th_isa_choice *choice)
{
    machine->isa = choice->isa;
    machine->products = choice->products;
}

/* If a request cannot be fulfilled, keeps the automatic choice: the context uses it after its error is cleared. */
static const char *detect_isa(th_machine *machine)
{
    const char *wanted = environment_setting("TAPEHEAD_ISA");
    machine->automatic = true;
    use_choice(machine, th_isa_automatic());
    if (!wanted)
        return NULL;
    const th_isa_choice *choice = th_isa_choices, *end = th_isa_choices + th_isa_choice_count;
    while (choice < end && strcmp(wanted, choice->name) != 0)
        choice++;
    if (choice == end)
        return th_isa_choice_names;
    const char *reason = choice->why_not ? choice->why_not() : NULL;
    if (reason)
        return reason;
    machine->automatic = false;
    use_choice(machine, choice);
    return NULL;
}

static const char *detect_gemm(th_machine *machine)
{
    const char *wanted = environment_setting("TAPEHEAD_GEMM");
    const bool native = wanted && strcmp(wanted, "native") == 0, openblas = wanted && strcmp(wanted, "openblas") == 0;
    const bool prefers_openblas = openblas || (!native && !machine->isa->fused); /* faster without fused multiply-add */
    machine->gemm = prefers_openblas && th_openblas() ? TH_GEMM_OPENBLAS : TH_GEMM_NATIVE;
    if (wanted && !native && !openblas && strcmp(wanted, "auto") != 0)
        return "TAPEHEAD_GEMM must be auto, native or openblas";
    if (openblas && !th_openblas())
        return "TAPEHEAD_GEMM is openblas, but OpenBLAS was not found (libopenblas.so.0)";
    return NULL;
}

bool th_machine_possible(void)
{
    return th_isa_automatic() != NULL;
}

const char *th_machine_detect(th_machine *machine)
{
    *machine = (th_machine){.threads = th_processors_default_team()};
    const char *isa = detect_isa(machine), *gemm = detect_gemm(machine);
    return isa ? isa : gemm;
}

bool th_machine_set_precision(th_machine *machine, th_precision precision)
{
#ifdef TAPEHEAD_NO_PRECISIONS
    const th_precision last = TH_PRECISION_FLOAT32;
#else
    const th_precision last = TH_PRECISION_INT8;
#endif
    if (precision < TH_PRECISION_FLOAT32 || precision > last)
        return false;
    machine->precision = precision;
    if (machine->automatic && (precision == TH_PRECISION_BFLOAT16X3 || precision == TH_PRECISION_BFLOAT16))
        machine->products = th_path_automatic();
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
    case TH_PRECISION_INT8:
        return "int8";
    }
    return "?";
}

int th_machine_describe(const th_machine *machine, char *text, size_t size)
{
    const bool reduced = machine->precision != TH_PRECISION_FLOAT32;
    const bool parts = reduced && machine->precision != TH_PRECISION_INT8;
    const th_openblas_functions *openblas = machine->gemm == TH_GEMM_OPENBLAS ? th_openblas() : NULL;
    return snprintf(text, size, "isa=%s gemm=%s threads=%d%s%s%s%s%s%s%s%s%s", machine->isa->name,
                    openblas ? "openblas" : "native", machine->threads, openblas ? " openblas=" : "",
                    openblas ? openblas->version : "", openblas ? " (" : "", openblas ? openblas->core : "",
                    openblas ? ")" : "", reduced ? " precision=" : "",
                    reduced ? th_precision_name(machine->precision) : "", parts ? " products=" : "",
                    parts ? machine->products->name : "");
}
