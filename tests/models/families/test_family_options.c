/* Normal options, and their comparison: each member of a model's options that two models differ in is named with both
 * values, and a member without effect is not. Names of activations and of scalings, and tables of families. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "models/families/family.h"
#include "models/families/fields.h"
#include "models/families/options.h"

#include "suite.h"

/* -- members -- */

typedef struct member {
    const char *name;
    char kind; /* 'b'ool, 'e'numeration, 'i'nt64, 'd'ouble */
    size_t at;
} member;
#define MODEL(kind, name)                                                                                              \
    {                                                                                                                  \
        "." #name, kind, offsetof(th_language_model_options, name)                                                     \
    }
#define SCORES(kind, name)                                                                                             \
    {                                                                                                                  \
        "." #name, kind, offsetof(th_score_options, name)                                                              \
    }

static const member of_model[] = {
    MODEL('i', heads),
    MODEL('e', positions),
    MODEL('b', untied),
    MODEL('b', classifier_bias),
    MODEL('d', embedding_scale),
    MODEL('d', logit_divisor),
    MODEL('d', logit_soft_cap),
    MODEL('b', scale_by_layer),
    MODEL('b', block.no_mlp),
    MODEL('b', block.gated),
    MODEL('b', block.post_norm),
    MODEL('b', block.output_norm),
    MODEL('b', block.no_input_norm),
    MODEL('b', block.parallel),
    MODEL('b', block.shared_norm),
    MODEL('d', block.branch_scale),
    MODEL('e', block.activation),
    MODEL('e', block.norm),
    MODEL('b', block.unit_offset),
    MODEL('b', block.no_bias),
    MODEL('b', block.no_attention_bias),
    MODEL('b', block.no_output_bias),
    MODEL('b', block.no_mlp_bias),
    MODEL('i', block.kv_heads),
    MODEL('i', block.head_width),
    MODEL('d', block.scale),
    MODEL('d', block.eps),
};
static const member of_scores[] = {
    SCORES('b', rotary),
    SCORES('e', rotary_pairing),
    SCORES('d', rotary_base),
    SCORES('i', rotary_width),
    SCORES('e', rotary_scaling.kind),
    SCORES('d', rotary_scaling.factor),
    SCORES('d', rotary_scaling.low_freq_factor),
    SCORES('d', rotary_scaling.high_freq_factor),
    SCORES('i', rotary_scaling.original_length),
    SCORES('d', rotary_scaling.attention_factor),
    SCORES('d', rotary_scaling.beta_fast),
    SCORES('d', rotary_scaling.beta_slow),
    SCORES('d', rotary_scaling.mscale),
    SCORES('d', rotary_scaling.mscale_all_dim),
    SCORES('b', rotary_scaling.no_truncate),
    SCORES('b', alibi),
    SCORES('b', qk_norm),
    SCORES('b', qk_norm_whole),
    SCORES('b', qk_norm_unit_offset),
    SCORES('d', qk_norm_eps),
    SCORES('d', soft_cap),
    SCORES('i', window),
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Changes a member to another value. Returns the old value in *a and the new one in *b. */
static void change(void *options, const member *m, double *a, double *b)
{
    char *at = (char *)options + m->at;
    int enumeration;
    int64_t integer;
    switch (m->kind) {
    case 'b':
        *a = *(bool *)at;
        *b = *(bool *)at = !*(bool *)at;
        break;
    case 'e':
        memcpy(&enumeration, at, sizeof enumeration);
        *a = enumeration;
        *b = ++enumeration;
        memcpy(at, &enumeration, sizeof enumeration);
        break;
    case 'i':
        memcpy(&integer, at, sizeof integer);
        *a = (double)integer;
        *b = (double)(integer += 3);
        memcpy(at, &integer, sizeof integer);
        break;
    default:
        memcpy(a, at, sizeof *a);
        *b = *a + 0.5;
        memcpy(at, b, sizeof *b);
    }
}

static const bool other_layers[4] = {false, false, true, false};
#define BASE_SCORES                                                                                                    \
    {                                                                                                                  \
        .rotary = true, .rotary_base = 5, .qk_norm = true, .qk_norm_eps = 1                                            \
    }
static const th_score_options scores = BASE_SCORES;
static const th_language_model_options base = {.layers = 4, .width = 16, .heads = 2, .block = {.scores = BASE_SCORES}};

static void expect_difference(const th_language_model_options *x, const th_language_model_options *y, const char *name,
                              double a, double b)
{
    th_option_difference d[TH_MAX_OPTIONS];
    const int found = th_options_compare(x, y, d);
    ck_assert_msg(found == 1, "%s: %d differences, first %s", name, found, found ? d[0].name : "");
    ck_assert_str_eq(d[0].name, name);
    ck_assert_double_eq(d[0].a, a);
    ck_assert_double_eq(d[0].b, b);
}

START_TEST(each_member_is_compared)
{
    th_option_difference d[TH_MAX_OPTIONS];
    char name[64];
    double a, b;
    ck_assert_int_eq(th_options_compare(&base, &base, d), 0);
    for (size_t i = 0; i < COUNT(of_model); i++) {
        th_language_model_options o = base;
        change(&o, &of_model[i], &a, &b);
        expect_difference(&base, &o, of_model[i].name, a, b);
        expect_difference(&o, &base, of_model[i].name, b, a);
    }
    for (size_t i = 0; i < COUNT(of_scores); i++)
        for (int other = 0; other < 2; other++) {
            th_language_model_options with = base, o;
            with.other_layers = other_layers;
            with.other_scores = scores;
            o = with;
            change(other ? &o.other_scores : &o.block.scores, &of_scores[i], &a, &b);
            snprintf(name, sizeof name, "%s%s", other ? ".other_scores" : ".block.scores", of_scores[i].name);
            expect_difference(&with, &o, name, a, b);
        }
}
END_TEST

/* A member that depends on a flag is not named if the flag differs. */
START_TEST(members_of_a_flag)
{
    th_language_model_options a = base, b = base;
    b.block.scores.rotary = false;
    b.block.scores.rotary_base = 7;
    b.block.scores.rotary_width = 4;
    b.block.scores.rotary_scaling = (th_rotary_scaling){.kind = TH_ROTARY_LINEAR, .factor = 2, .no_truncate = true};
    expect_difference(&a, &b, ".block.scores.rotary", 1, 0);
    b = base;
    b.block.scores.qk_norm = false;
    b.block.scores.qk_norm_eps = 3;
    b.block.scores.qk_norm_unit_offset = true;
    expect_difference(&a, &b, ".block.scores.qk_norm", 1, 0);
    b = base;
    b.block.no_bias = b.block.no_attention_bias = b.block.no_mlp_bias = true;
    expect_difference(&a, &b, ".block.no_bias", 0, 1);
    b = base;
    b.block.no_attention_bias = b.block.no_output_bias = true;
    expect_difference(&a, &b, ".block.no_attention_bias", 0, 1);
}
END_TEST

START_TEST(factors_are_compared)
{
    static const double one[3] = {1, 2, 3}, two[3] = {1, 2, 4};
    th_language_model_options a = base;
    a.block.scores.rotary_scaling = (th_rotary_scaling){.n_factors = 3, .short_factor = one, .long_factor = one};
    a.other_layers = other_layers;
    a.other_scores = a.block.scores;
    th_language_model_options b = a;
    b.block.scores.rotary_scaling.short_factor = two;
    expect_difference(&a, &b, ".block.scores.rotary_scaling.short_factor", 3, 4);
    b = a;
    b.other_scores.rotary_scaling.long_factor = two;
    expect_difference(&a, &b, ".other_scores.rotary_scaling.long_factor", 3, 4);
    b.other_scores.rotary_scaling.short_factor = two;
    expect_difference(&a, &b, ".other_scores.rotary_scaling.short_factor", 3, 4);
    b = a;
    b.block.scores.rotary_scaling.n_factors = 2;
    b.block.scores.rotary_scaling.long_factor = two;
    expect_difference(&a, &b, ".block.scores.rotary_scaling.n_factors", 3, 2);
}
END_TEST

/* -- normal options -- */

START_TEST(normal_options)
{
    th_language_model_options o = {.width = 16, .heads = 2, .block = {.head_width = 4}}, n = th_normal_options(&o);
    ck_assert(n.embedding_scale == 1 && n.block.scale == 0.5 && n.logit_divisor == 1 && n.block.branch_scale == 1);
    ck_assert(!n.block.no_bias && !n.block.no_attention_bias && !n.block.no_output_bias && !n.block.no_mlp_bias);
    o.embedding_scale = 3;
    o.block.scale = 7;
    n = th_normal_options(&o);
    ck_assert(n.embedding_scale == 3 && n.block.scale == 7);
    o.block.head_width = 0;
    o.block.scale = 0;
    ck_assert(th_normal_options(&o).block.scale == 0);
    o.block.no_attention_bias = true;
    n = th_normal_options(&o);
    ck_assert(n.block.no_attention_bias && n.block.no_output_bias && !n.block.no_mlp_bias && !n.block.no_bias);
    o.block.no_bias = true;
    o.block.no_attention_bias = false;
    n = th_normal_options(&o);
    ck_assert(n.block.no_attention_bias && n.block.no_output_bias && n.block.no_mlp_bias && n.block.no_bias);
    o.block.norm = TH_RMS_NORM;
    ck_assert(!th_normal_options(&o).block.no_bias);
}
END_TEST

START_TEST(normal_scores)
{
    const th_score_options unused = {.rotary_pairing = TH_ROTARY_NEIGHBORS,
                                     .rotary_base = 5,
                                     .rotary_width = 2,
                                     .rotary_scaling = {.kind = TH_ROTARY_LINEAR, .factor = 2},
                                     .qk_norm_unit_offset = true,
                                     .qk_norm_eps = 3};
    for (int other = 0; other < 2; other++) {
        th_language_model_options o = {.block = {.head_width = 4}};
        th_score_options *given = other ? &o.other_scores : &o.block.scores;
        *given = unused;
        th_language_model_options n = th_normal_options(&o);
        const th_score_options *s = other ? &n.other_scores : &n.block.scores;
        ck_assert(s->rotary_pairing == TH_ROTARY_HALVES && s->rotary_base == 0 && s->rotary_width == 0);
        ck_assert(s->rotary_scaling.kind == TH_ROTARY_UNSCALED && s->rotary_scaling.factor == 0);
        ck_assert(!s->qk_norm_unit_offset && s->qk_norm_eps == 0);
        given->rotary = given->qk_norm = true;
        n = th_normal_options(&o);
        ck_assert(s->rotary_pairing == TH_ROTARY_NEIGHBORS && s->rotary_base == 5 && s->rotary_width == 2);
        ck_assert(s->rotary_scaling.factor == 2 && s->qk_norm_unit_offset && s->qk_norm_eps == 3);
        *given = (th_score_options){.rotary = true, .qk_norm_whole = true};
        n = th_normal_options(&o);
        ck_assert(s->rotary_base == 10000 && s->rotary_width == 4 && s->qk_norm_eps == 1e-5 && !s->qk_norm_unit_offset);
        o.block.unit_offset = true;
        n = th_normal_options(&o);
        ck_assert(s->qk_norm_unit_offset);
    }
}
END_TEST

START_TEST(scores_of_layers)
{
    th_language_model_options o = base;
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_eq(th_scores_of_layer(&o, i), &o.block.scores);
    o.other_layers = other_layers;
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_eq(th_scores_of_layer(&o, i), i == 2 ? &o.other_scores : &o.block.scores);
}
END_TEST

/* -- names -- */

START_TEST(names_of_activations)
{
    static const struct {
        const char *name;
        th_activation activation;
    } names[] = {{"gelu_new", TH_GELU_TANH},
                 {"gelu_pytorch_tanh", TH_GELU_TANH},
                 {"gelu_python_tanh", TH_GELU_TANH},
                 {"gelu_fast", TH_GELU_TANH},
                 {"gelu", TH_GELU},
                 {"gelu_python", TH_GELU},
                 {"relu", TH_RELU},
                 {"silu", TH_SILU},
                 {"swish", TH_SILU},
                 {"relu2", TH_RELU_SQUARED},
                 {"tanh", TH_TANH}};
    static const char *const first[] = {[TH_GELU_TANH] = "gelu_new", [TH_GELU] = "gelu",          [TH_RELU] = "relu",
                                        [TH_SILU] = "silu",          [TH_RELU_SQUARED] = "relu2", [TH_TANH] = "tanh"};
    th_activation found;
    for (size_t i = 0; i < COUNT(names); i++) {
        ck_assert(th_activation_find(names[i].name, &found) && found == names[i].activation);
        ck_assert_str_eq(th_activation_name(found, names[i].name), names[i].name);
        for (size_t j = 0; j < COUNT(names); j++)
            ck_assert_str_eq(th_activation_name(names[j].activation, names[i].name),
                             names[i].activation == names[j].activation ? names[i].name : first[names[j].activation]);
    }
    ck_assert(!th_activation_find("gel", &found) && !th_activation_find("gelu_", &found));
}
END_TEST

START_TEST(names_of_scalings)
{
    static const char *const names[] = {"default", "linear", "llama3", "dynamic", "yarn", "longrope"};
    th_rotary_scaling_kind kind;
    for (int i = 0; i < 6; i++) {
        ck_assert_str_eq(th_rotary_scaling_name((th_rotary_scaling_kind)i), names[i]);
        ck_assert(th_rotary_scaling_find(names[i], &kind) && (int)kind == i);
    }
    ck_assert(!th_rotary_scaling_find("su", &kind) && !th_rotary_scaling_find("", &kind));
}
END_TEST

/* -- families -- */

static const struct row {
    const char *type, *architecture, *title, *prefix, *embedding, *classifier, *other_classifier;
    int64_t end_token;
    double base, window_base;
} rows[] = {
#define LLAMA_NAMES "model.", "model.embed_tokens.weight", "lm_head.weight", NULL
    {"gpt2", "GPT2LMHeadModel", "GPT-2", "transformer.", "transformer.wte.weight", "lm_head.weight", NULL, 50256, 1e4,
     1e4},
    {"llama", "LlamaForCausalLM", "Llama", LLAMA_NAMES, 2, 1e4, 1e4},
    {"mistral", "MistralForCausalLM", "Mistral", LLAMA_NAMES, 2, 1e4, 1e4},
    {"qwen2", "Qwen2ForCausalLM", "Qwen 2", LLAMA_NAMES, -1, 1e4, 1e4},
    {"qwen3", "Qwen3ForCausalLM", "Qwen 3", LLAMA_NAMES, -1, 1e4, 1e4},
    {"smollm3", "SmolLM3ForCausalLM", "SmolLM 3", LLAMA_NAMES, 128001, 2e6, 2e6},
    {"phi3", "Phi3ForCausalLM", "Phi-3", LLAMA_NAMES, 32000, 1e4, 1e4},
    {"olmo2", "Olmo2ForCausalLM", "OLMo 2", LLAMA_NAMES, 50279, 1e4, 1e4},
    {"gemma2", "Gemma2ForCausalLM", "Gemma 2", LLAMA_NAMES, 1, 1e4, 1e4},
    {"gemma3_text", "Gemma3ForCausalLM", "Gemma 3", LLAMA_NAMES, 1, 1e6, 1e4},
    {"gpt_neox", "GPTNeoXForCausalLM", "GPT-NeoX", "gpt_neox.", "gpt_neox.embed_in.weight", "embed_out.weight",
     "lm_head.weight", 2, 1e4, 1e4},
    {"phi", "PhiForCausalLM", "Phi", LLAMA_NAMES, 2, 1e4, 1e4},
    {"granite", "GraniteForCausalLM", "Granite", LLAMA_NAMES, 2, 1e4, 1e4},
    {"minicpm", "MiniCPMForCausalLM", "MiniCPM", LLAMA_NAMES, 2, 1e4, 1e4},
    {"bert", "BertForMaskedLM", "BERT", "bert.", "bert.embeddings.word_embeddings.weight",
     "cls.predictions.decoder.weight", NULL, -1, 1e4, 1e4},
#define ROBERTA_NAMES "roberta.", "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight", NULL
    {"roberta", "RobertaForMaskedLM", "RoBERTa", ROBERTA_NAMES, 2, 1e4, 1e4},
    {"xlm-roberta", "XLMRobertaForMaskedLM", "XLM-RoBERTa", ROBERTA_NAMES, 2, 1e4, 1e4},
    {"distilbert", "DistilBertForMaskedLM", "DistilBERT", "distilbert.", "distilbert.embeddings.word_embeddings.weight",
     "vocab_projector.weight", NULL, -1, 1e4, 1e4},
    {"modernbert", "ModernBertForMaskedLM", "ModernBERT", "model.", "model.embeddings.tok_embeddings.weight",
     "decoder.weight", NULL, 50282, 160000, 1e4},
    {"mpnet", "MPNetForMaskedLM", "MPNet", "mpnet.", "mpnet.embeddings.word_embeddings.weight",
     "lm_head.decoder.weight", NULL, 2, 1e4, 1e4},
};

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

START_TEST(rows_of_families)
{
    char list[200];
    ck_assert_uint_eq(COUNT(rows), TH_FAMILIES);
    for (int i = 0; i < TH_FAMILIES; i++) {
        const th_family *f = th_families[i];
        const struct row *r = &rows[i];
        ck_assert_ptr_eq(th_family_find(r->type), f);
        ck_assert_msg(same_text(f->model_type, r->type) && same_text(f->architecture, r->architecture) &&
                          same_text(f->title, r->title) && same_text(f->prefix, r->prefix) &&
                          same_text(f->embedding, r->embedding) && same_text(f->classifier, r->classifier) &&
                          same_text(f->other_classifier, r->other_classifier) && f->end_token == r->end_token,
                      "%s", r->type);
        ck_assert_double_eq(th_rotary_usual_base(f, false), r->base);
        ck_assert_double_eq(th_rotary_usual_base(f, true), r->window_base);
        for (int t = 0; t < 4; t++) /* a matrix of one parameter has the place 0 */
            for (const th_tensor_name *n = f->tensors[t]; n && n->ours; n++)
                ck_assert_msg(n->place == 0 ||
                                  ((f == &th_family_phi3 || f == &th_family_modernbert) && n->view == TH_VIEW_WHOLE),
                              "%s", n->ours);
    }
    ck_assert_ptr_null(th_family_find("gpt"));
    th_family_list(list, sizeof list);
    ck_assert_str_eq(list, "gpt2, llama, mistral, qwen2, qwen3, smollm3, phi3, olmo2, gemma2, gemma3_text, gpt_neox, "
                           "phi, granite, minicpm, bert, roberta, xlm-roberta, distilbert, modernbert and mpnet");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("family_options", NULL, NULL);
    tcase_add_test(tests, each_member_is_compared);
    tcase_add_test(tests, members_of_a_flag);
    tcase_add_test(tests, factors_are_compared);
    tcase_add_test(tests, normal_options);
    tcase_add_test(tests, normal_scores);
    tcase_add_test(tests, scores_of_layers);
    tcase_add_test(tests, names_of_activations);
    tcase_add_test(tests, names_of_scalings);
    tcase_add_test(tests, rows_of_families);
    return run_suites();
}
