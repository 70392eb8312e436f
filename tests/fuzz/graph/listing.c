/* Prints a program as a list of leaves and lines. */
#include <string.h>

#include "program.h"

const char *shape_text(const shape *s, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < s->ndim && at < size; i++) {
        const bool named = s->letter[i] != ' ' && s->letter[i] != 0;
        at += (size_t)snprintf(text + at, size - at, "%s%.1s%s%lld", i ? ", " : "", named ? &s->letter[i] : "",
                               named ? "=" : "", (long long)s->size[i]);
    }
    if (at < size)
        snprintf(text + at, size - at, ")");
    return text;
}

static bool is_used(const program *p, int v)
{
    for (int i = 0; i < p->lines; i++)
        for (int k = 0; k < p->line[i].operands; k++)
            if (!p->line[i].dropped && p->line[i].operand[k] == v)
                return true;
    return false;
}

static void print_value(const value *v, FILE *file)
{
    static const char *const names[] = {"real",    "index",          "bool",      "positions",
                                        "lengths", "memory lengths", "documents", "places"};
    char text[128];
    fprintf(file, "%s %s", names[v->content], shape_text(&v->shape, text, sizeof text));
    if (v->content == INDEX)
        fprintf(file, " below %lld, %s%s", (long long)v->limit, v->wide ? "int64" : "int32",
                v->ignored ? ", some -100" : "");
}

static void print_line(const program *p, const line *l, FILE *file)
{
    fprintf(file, "  ");
    for (int k = 0; k < l->outputs; k++)
        fprintf(file, "%sv%d", k ? ", " : "", l->first + k);
    fprintf(file, " = %s", l->label);
    for (int k = 0; k < l->operands; k++)
        if (l->operand[k] < 0)
            fprintf(file, "%snone", k ? ", " : "(");
        else
            fprintf(file, "%sv%d", k ? ", " : "(", l->operand[k]);
    fprintf(file, "%s%s: ", l->operands ? ")" : "()", l->no_grad ? ", no grad" : "");
    for (int k = 0; k < l->outputs; k++) {
        fprintf(file, "%s", k ? ", " : "");
        print_value(&p->value[l->first + k], file);
    }
    fprintf(file, "\n");
}

void program_print(const program *p, FILE *file)
{
    static const char *const endings[] = {"a cotangent for each output", "the sum of all outputs",
                                          "cotangents in the other order", "the sum of outputs and other values"};
    static const char *const ways[] = {"fused", "composed", "with its weights requested"};
    fprintf(file, "program: %s, %s, %s, ends with %s, seed %u; sequences run attention %s\n",
            th_precision_name(p->precision), th_dtype_name(p->dtype), p->training ? "training" : "evaluation",
            endings[p->ending], (unsigned)p->seed, ways[p->sequence_way]);
    fprintf(file, "  lengths");
    for (int b = 0; b < p->batch; b++)
        fprintf(file, " %lld (memory %lld)", (long long)p->length[b], (long long)p->memory_length[b]);
    for (int b = 0; b < (p->same_documents ? 1 : p->batch) && p->tokens; b++) {
        fprintf(file, "; documents%s", p->same_documents ? " of all" : "");
        for (int64_t first = 0; first < p->tokens; first = document_end(p, b, first))
            fprintf(file, " %lld", (long long)(document_end(p, b, first) - first));
    }
    fprintf(file, "\n");
    for (int i = 0; i < p->leaves; i++) {
        const leaf *l = &p->leaf[i];
        if (!is_used(p, l->value))
            continue;
        fprintf(file, "  v%d: leaf, ", l->value);
        print_value(&p->value[l->value], file);
        fprintf(file, "%s\n", l->gradient ? ", gradient" : "");
    }
    for (int i = 0; i < p->lines; i++)
        if (!p->line[i].dropped)
            print_line(p, &p->line[i], file);
    for (int i = 0; i < p->regions; i++)
        fprintf(file, "  a scope%s of lines %d to %d\n", p->region[i].recomputed ? ", recomputed," : "",
                p->region[i].first, p->region[i].end - 1);
}
