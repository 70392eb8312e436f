/* The settings: defaults, options of the command line, and what follows from them. The defaults are nanoGPT's for a
 * CPU, a model of 0.8 million parameters, with three times its learning rate. settings_json.c converts settings to
 * JSON. */
#include "settings.h"

#include <string.h>

#include "checkpoints.h"
#include "processes.h"
#include "schedules.h"
#include "shared/run_folder.h"

enum { DEFAULT_LAYERS = 4, DEFAULT_HEADS = 4, DEFAULT_WIDTH = 128 };
/* docs/tuning.md explains how the rate was found for a model of this width. */
static const double TUNING_LR = 3e-4, TUNED_WIDTH = 128;

/* Adapters begin at 0 and their product is scaled, so one rate suits all widths. */
static const double LORA_LR = 2e-4;

/* Of Muon for a new model: of matrices, and of the other parameters. */
static const double MUON_LR = 0.02, MUON_ADAM_LR = 3e-3;

const char *const program_name = PROGRAM;
given_options was_given;
settings chosen = {
    .tokenizer = "characters",
    .vocabulary = 4096,
    .validation = 0.1,
    .layers = DEFAULT_LAYERS,
    .heads = DEFAULT_HEADS,
    .width = DEFAULT_WIDTH,
    .keep = DEFAULT_KEEP,
    .steps = 2000,
    .precision = "float32",
    .optimizer = "adamw",
    .momentum = 0.95,
    .adjust_lr = "original",
    .weights = "float32",
    .batch = DEFAULT_BATCH,
    .shards = 1,
    .accumulate = 1,
    .warmup = 100,
    .seed = 1,
    .lr = 3e-3,
    .min_lr = -1,
    .beta1 = 0.9,
    .beta2 = 0.99,
    .weight_decay = 0.1,
    .clip = 1,
    .schedule = "cosine",
    .decay = 0.2,
    .plateau_factor = 0.5,
    .plateau_patience = 1,
    .batch_growth = 0.5,
    .log_every = 10,
    .eval_every = 250,
    .eval_batches = 20,
    .sample_tokens = 200,
    .temperature = 0.8,
};

/* -- the options of train -- */

#define MAX_STEPS 1e9

const program_option run_options[] = {
    {"tokenizer",
     "characters, bytes, bpe (learned from the text), or a transformers folder; with --from the model's own",
     .text = &chosen.tokenizer, .given = &was_given.tokenizer, .group = "The text"},
    {"vocabulary", "tokens that bpe learns, at least 256", .integer = &chosen.vocabulary, .low = 1, .high = 1e6},
    {"validation", "share of the text, its end, to measure on; or a file, folder or pipe to measure on",
     .real = &chosen.validation, .text = &chosen.validation_file, .low = 1e-6, .high = 0.9},
    {"layers", "transformer blocks", .integer = &chosen.layers, .low = 1, .high = 1000, .group = "The model"},
    {"heads", "of attention; their number divides the width", .integer = &chosen.heads, .low = 1, .high = 1024},
    {"kv-heads", "of keys and values; 0: as many", .integer = &chosen.kv_heads, .low = 0, .high = 1024},
    {"width", "of the model", .integer = &chosen.width, .low = 1, .high = 65536},
    {"mlp-width", "inside the MLP; 0: 4 times the width, 8/3 with a gate", .integer = &chosen.mlp_width, .low = 0,
     .high = 1e6},
    {"length",
     "tokens that the model sees at once; 0: 64, or with --from the model's length, at most 4096 and the training "
     "text; halved while training needs over half of the memory",
     .integer = &chosen.length, .low = 0, .high = 1e6},
    {"dropout", "at every point where GPT-2 has dropout", .real = &chosen.dropout, .low = 0, .high = 0.99},
    {"llama", "Llama's norms, MLP and rotary positions instead of GPT-2's", .flag = &chosen.llama},
    {"no-bias", "no biases in layers and norms; implied by --llama", .flag = &chosen.no_bias},
    {"activation",
     "of the MLP: gelu, relu2 (squared ReLU), silu, or swiglu (silu with a gate); default: gelu, with --llama swiglu",
     .text = &chosen.activation},
    {"qk-norm", "normalizes queries and keys", .flag = &chosen.qk_norm},
    {"embedding-norm", "normalizes the embedding", .flag = &chosen.embedding_norm},
    {"value-residual", "layers mix their values with the first layer's", .flag = &chosen.value_residual},
    {"embedding-skip", "layers mix their input with the first layer's", .flag = &chosen.embedding_skip},
    {"bigram",
     "rows of an embedding of pairs of tokens, at least 2; more than the square of the tokens: no pairs share a row; "
     "0: none",
     .integer = &chosen.bigram, .low = 0, .high = 1e9},
    {"embedding-std", "standard deviation of the embedding at the beginning; 0: 0.02", .real = &chosen.embedding_std,
     .low = 0, .high = 100},
    {"uniform-init", "weights begin uniform in +-1 / sqrt(inputs), as in PyTorch, instead of GPT-2's N(0, 0.02^2)",
     .flag = &chosen.uniform_init},
    {"zero-init", "weights at the end of residual branches, and the weights of an untied classifier, begin at 0",
     .flag = &chosen.zero_init},
    {"recompute", "less memory, more time: blocks run again in backward", .flag = &chosen.recompute},
    {"from", "start with the model in this transformers folder or GGUF file, with its layers and widths",
     .text = &chosen.from},
    {"freeze", "parameters that are not trained: \"embedding.*,layers.[0-5].*\"", .text = &chosen.freeze},
    {"steps", "of the optimizer", .integer = &chosen.steps, .low = 0, .high = MAX_STEPS, .group = "Training",
     .given = &was_given.steps},
    {"batch", "windows of the text in a batch; with --from as many as 768 tokens fill, 1 to 12",
     .integer = &chosen.batch, .low = 1, .high = 1e6, .given = &was_given.batch},
    {"shards", SHARDS_HELP, .integer = &chosen.shards, .low = 1, .high = 4096},
    {"local-steps",
     "steps of each process alone, until the processes join their parameters (DiLoCo); 0: they join each step",
     .integer = &chosen.local_steps, .low = 0, .high = MAX_STEPS},
    {"accumulate", "batches in a step, one after another", .integer = &chosen.accumulate, .low = 1, .high = 1e6},
    {"lr",
     "the highest learning rate; with --optimizer muon 0.02; with --from 0.0003, or 0.0384 / width for a width above "
     "128",
     .real = &chosen.lr, .low = 1e-12, .high = 1e3, .given = &was_given.lr},
    {"min-lr", "learning rate at the end; -1: a tenth of the highest, with adamw at most 0.0003",
     .real = &chosen.min_lr, .low = -1, .high = 1e3},
    {"warmup", "steps up to the highest learning rate", .integer = &chosen.warmup, .low = 0, .high = MAX_STEPS,
     .given = &was_given.warmup},
    {"schedule",
     "of the learning rate: cosine, linear, wsd (warm-up, stable, linear decay), wsd-sqrt (1 - sqrt), plateau (reduced "
     "when the validation loss does not improve) or constant; all begin with the warm-up",
     .text = &chosen.schedule},
    {"decay", "share of the steps, at the end, in which wsd decays", .real = &chosen.decay, .low = 1e-6, .high = 1,
     .given = &was_given.decay},
    {"plateau-factor", "of each reduction with --schedule plateau, down to --min-lr", .real = &chosen.plateau_factor,
     .low = 1e-6, .high = 0.999999, .given = &was_given.plateau},
    {"plateau-patience", "evaluations without an improvement before a reduction", .integer = &chosen.plateau_patience,
     .low = 0, .high = MAX_STEPS, .given = &was_given.plateau},
    {"average",
     "decay of an exponential moving average (EMA) of the weights, such as 0.999, which is evaluated, sampled and "
     "exported; with --local-steps, of the joined weights; 0: none",
     .real = &chosen.average, .low = 0, .high = 0.99999},
    {"batch-from", "windows in a batch of the first step; the batch grows to --batch; 0: it does not grow",
     .integer = &chosen.batch_from, .low = 0, .high = 1e6},
    {"batch-growth", "share of the steps in which the batch grows", .real = &chosen.batch_growth, .low = 1e-6,
     .high = 1, .given = &was_given.batch_growth},
    {"weight-decay", "of matrices (AdamW)", .real = &chosen.weight_decay, .low = 0, .high = 10},
    {"optimizer", "adamw, or muon: Muon for the matrices of hidden layers, AdamW for the other parameters",
     .text = &chosen.optimizer},
    {"adam-lr", "with muon, AdamW's highest learning rate; it changes as --lr does; 0: 0.003, with --from as --lr",
     .real = &chosen.adam_lr, .low = 0, .high = 1e3, .given = &was_given.adam_lr},
    {"momentum", "of Muon", .real = &chosen.momentum, .low = 0, .high = 0.99999},
    {"newton-schulz", "steps of Muon's Newton-Schulz iteration; 0: 5, or 3 with --polar-express",
     .integer = &chosen.newton_schulz, .low = 0, .high = 16},
    {"polar-express", "another polynomial in each step of Muon's iteration", .flag = &chosen.polar_express},
    {"adjust-lr",
     "how Muon adjusts the rate to a matrix's shape: original, or match_rms_adamw, which is the default with --from",
     .text = &chosen.adjust_lr, .given = &was_given.adjust_lr},
    {"beta1", "of AdamW", .real = &chosen.beta1, .low = 0, .high = 0.99999},
    {"beta2", "of AdamW", .real = &chosen.beta2, .low = 0, .high = 0.99999},
    {"clip", "largest norm of the gradient; 0: no limit", .real = &chosen.clip, .low = 0, .high = 1e9},
    {"patience", "stop after this many evaluations without an improvement; 0: never", .integer = &chosen.patience,
     .low = 0, .high = MAX_STEPS},
    {"seed", "of all random numbers", .integer = &chosen.seed, .low = 0, .high = 1e15},
    {"threads", "0: one for each processor; the results are the same", .integer = &chosen.threads, .low = 0,
     .high = 1024},
    {"precision", PRECISION_HELP, .text = &chosen.precision},
    {"lora", "rank of adapters beside frozen weights (LoRA); 0: all weights are trained", .integer = &chosen.lora,
     .low = 0, .high = 65536, .group = "Tuning a pretrained model (--from)"},
    {"lora-alpha", "the adapters' product is multiplied by this / rank; 0: twice the rank", .real = &chosen.lora_alpha,
     .low = 0, .high = 1e6},
    {"lora-dropout", "in front of the adapters", .real = &chosen.lora_dropout, .low = 0, .high = 0.99},
    {"lora-targets", "projections with an adapter: \"q_proj,v_proj\" (default: all except the classifier)",
     .text = &chosen.lora_targets},
    {"weights", "how frozen weights are stored: float32, bfloat16, float16, q8_0 or q4_0", .text = &chosen.weights},
    TEMPLATE_OPTIONS(chosen),
    {"epochs", "times that each example is seen, instead of --steps; 0 only measures", .real = &chosen.epochs, .low = 0,
     .high = 1e6, .given = &was_given.epochs, .standard = "by --steps"},
    {"log-every", "steps from one line of the log to the next", .integer = &chosen.log_every, .low = 1,
     .high = MAX_STEPS, .group = "Reports", .given = &was_given.log_every,
     .standard = "a twentieth of the steps, 1 to 10"},
    {"eval-every", "steps from one evaluation, sample and checkpoint to the next", .integer = &chosen.eval_every,
     .low = 1, .high = MAX_STEPS, .given = &was_given.eval_every},
    {"keep", "checkpoints to keep, the newest included", .integer = &chosen.keep, .low = 1, .high = MAX_CHECKPOINTS},
    {"eval-batches", "to evaluate on; 0: all of the validation text", .integer = &chosen.eval_batches, .low = 0,
     .high = MAX_STEPS},
    {"sample-tokens", "of a sample; 0: no samples", .integer = &chosen.sample_tokens, .low = 0, .high = 1e6},
    {"temperature", "of samples", .real = &chosen.temperature, .low = 0, .high = 100},
    {"prompt", "beginning of samples (default: a new line)", .text = &chosen.prompt},
    {0},
};

const program_option *append_options(const program_option *more)
{
    static program_option table[MAX_OPTIONS + 1];
    int count = 0;
    for (const program_option *option = run_options; option->name; option++)
        table[count++] = *option;
    for (const program_option *option = more; option->name && count < MAX_OPTIONS; option++)
        table[count++] = *option;
    table[count] = (program_option){0};
    return table;
}

/* Sets the options of Llama. GPT-2's are zero. */
static void set_llama_options(th_language_model_options *m)
{
    m->positions = TH_POSITIONS_NONE;
    m->untied = true;
    m->block.norm = TH_RMS_NORM;
    m->block.gated = true;
    m->block.activation = TH_SILU;
    m->block.no_bias = true;
    m->block.scores.rotary = true;
}

/* The activations of --activation. */
static const struct {
    const char *name;
    th_activation activation;
    bool gated;
} activations[] = {{"gelu", TH_GELU_TANH, false},
                   {"relu2", TH_RELU_SQUARED, false},
                   {"silu", TH_SILU, false},
                   {"swiglu", TH_SILU, true}};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

/* Returns the index of an activation; ACTIVATIONS if the name is unknown. */
static int find_activation(const char *name)
{
    int i = 0;
    while (i < ACTIVATIONS && strcmp(name, activations[i].name) != 0)
        i++;
    return i;
}

bool is_activation(const char *name)
{
    return find_activation(name) < ACTIVATIONS;
}

/* Sets the options of the model that have options of the command line, except its sizes. */
static void set_model_options(th_language_model_options *m)
{
    if (chosen.llama)
        set_llama_options(m);
    if (chosen.no_bias)
        m->block.no_bias = true;
    if (chosen.activation) {
        const int i = find_activation(chosen.activation);
        m->block.activation = activations[i].activation;
        m->block.gated = activations[i].gated;
    }
    if (m->block.gated && m->block.mlp_width == 0) /* three matrices with about as many weights as two of 4 width */
        m->block.mlp_width = (8 * m->width / 3 + 15) / 16 * 16;
    m->block.scores.qk_norm = m->block.scores.qk_norm_no_weight = chosen.qk_norm;
    m->block.value_residual = chosen.value_residual;
    m->block.embedding_skip = chosen.embedding_skip;
    m->bigram_rows = chosen.bigram;
    m->embedding_norm = chosen.embedding_norm;
    m->initialization = (th_initialization_options){.embedding_deviation = chosen.embedding_std,
                                                    .uniform = chosen.uniform_init,
                                                    .zero_branches = chosen.zero_init,
                                                    .zero_classifier = chosen.zero_init && m->untied};
}

bool steps_depend_on_data(void)
{
    return !was_given.steps && (chosen.epochs > 0 || was_given.epochs);
}

/* Returns whether an option of the model differs from its default. */
static bool has_model_options(void)
{
    return chosen.llama || chosen.no_bias || chosen.layers != DEFAULT_LAYERS || chosen.heads != DEFAULT_HEADS ||
           chosen.kv_heads != 0 || chosen.width != DEFAULT_WIDTH || chosen.mlp_width != 0 || chosen.activation ||
           chosen.qk_norm || chosen.embedding_norm || chosen.value_residual || chosen.embedding_skip ||
           chosen.bigram != 0 || chosen.embedding_std != 0 || chosen.uniform_init || chosen.zero_init;
}

bool find_storage(const char *name, th_dtype *dtype)
{
    static const th_dtype types[] = {TH_FLOAT32, TH_BFLOAT16, TH_FLOAT16, TH_Q8_0, TH_Q4_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, th_dtype_name(types[i])) == 0) {
            *dtype = types[i];
            return true;
        }
    return false;
}

th_dtype parse_storage(const char *name)
{
    th_dtype dtype = TH_FLOAT32;
    if (!find_storage(name, &dtype))
        refuse(PROGRAM, "--weights must be float32, bfloat16, float16, q8_0 or q4_0, not ", name);
    return dtype;
}

bool find_adjustment(const char *name, th_muon_adjustment *adjustment)
{
    *adjustment = strcmp(name, "original") == 0 ? TH_MUON_ORIGINAL : TH_MUON_MATCH_RMS_ADAMW;
    return *adjustment == TH_MUON_ORIGINAL || strcmp(name, "match_rms_adamw") == 0;
}

bool uses_muon(void)
{
    return strcmp(chosen.optimizer, "muon") == 0;
}

/* Rejects options of optimizers that contradict each other. */
static void refuse_optimizers(void)
{
    th_muon_adjustment adjustment;
    if (!uses_muon() && strcmp(chosen.optimizer, "adamw") != 0)
        refuse(PROGRAM, "--optimizer must be adamw or muon, not ", chosen.optimizer);
    if (!find_adjustment(chosen.adjust_lr, &adjustment))
        refuse(PROGRAM, "--adjust-lr must be original or match_rms_adamw, not ", chosen.adjust_lr);
    if (!uses_muon() && (was_given.adam_lr || was_given.adjust_lr || chosen.polar_express))
        refuse(PROGRAM, "--adam-lr, --adjust-lr and --polar-express are for --optimizer muon", "");
}

int64_t round_up_to_local_steps(int64_t count)
{
    const int64_t at_least_1 = count < 1 ? 1 : count, local_steps = chosen.local_steps;
    return local_steps > 0 ? (at_least_1 + local_steps - 1) / local_steps * local_steps : at_least_1;
}

bool local_steps_divide(int64_t steps)
{
    return chosen.local_steps == 0 || steps % chosen.local_steps == 0;
}

void check_local_steps(void)
{
    char problem[200];
    const bool in_all = local_steps_divide(chosen.steps);
    snprintf(problem, sizeof problem, "--local-steps %lld does not divide --%s %lld", (long long)chosen.local_steps,
             in_all ? "eval-every" : "steps", (long long)(in_all ? chosen.eval_every : chosen.steps));
    if (!in_all || !local_steps_divide(chosen.eval_every))
        refuse(PROGRAM, problem, "");
}

static void refuse_contradictions(void)
{
    const int64_t heads = chosen.heads, width = chosen.width;
    char problem[200];
    if (width % heads != 0) {
        snprintf(problem, sizeof problem,
                 "--heads %lld does not divide --width %lld; the next widths that it divides are %lld and %lld",
                 (long long)heads, (long long)width, (long long)(width < heads ? heads : width / heads * heads),
                 (long long)(width < heads ? 2 * heads : (width / heads + 1) * heads));
        refuse(PROGRAM, problem, "");
    }
    if (chosen.kv_heads && heads % chosen.kv_heads != 0) {
        snprintf(problem, sizeof problem, "--kv-heads %lld does not divide --heads %lld", (long long)chosen.kv_heads,
                 (long long)heads);
        refuse(PROGRAM, problem, "");
    }
    if (chosen.llama && width / heads % 2 != 0) {
        snprintf(problem, sizeof problem,
                 "--width %lld / --heads %lld is %lld: with --llama it must be even, as with --width %lld",
                 (long long)width, (long long)heads, (long long)(width / heads), (long long)(width + heads));
        refuse(PROGRAM, problem, "");
    }
    if (chosen.activation && !is_activation(chosen.activation))
        refuse(PROGRAM, "--activation must be " ACTIVATION_NAMES ", not ", chosen.activation);
    if (chosen.bigram == 1)
        refuse(PROGRAM, "--bigram must be at least 2, or 0: one row is for tokens without a previous token", "");
    if (strcmp(chosen.tokenizer, "bpe") == 0 && chosen.vocabulary < 256)
        refuse(PROGRAM, "--vocabulary must be at least 256 with bpe, which has a token for each byte", "");
    if (chosen.from && has_model_options())
        refuse(PROGRAM,
               "--llama, --no-bias, --layers, --heads, --kv-heads, --width, --mlp-width, --activation, --qk-norm, "
               "--embedding-norm, "
               "--value-residual, --embedding-skip, --bigram, "
               "--embedding-std, --uniform-init and --zero-init are for new models: --from a folder takes the model as "
               "it is",
               "");
    if (!chosen.from && (chosen.lora > 0 || strcmp(chosen.weights, "float32") != 0))
        refuse(PROGRAM, "--lora and --weights are for pretrained models: name one with --from", "");
    if (chosen.lora == 0 && strcmp(chosen.weights, "float32") != 0)
        refuse(PROGRAM, "--weights stores frozen weights in fewer bits, so it needs --lora", "");
    if (chosen.prompt && chosen.prompt[0] == 0)
        refuse(PROGRAM, "the prompt must not be empty", "");
    if (!chosen.from || was_given.batch) /* otherwise length.c chooses the batch */
        check_shards(PROGRAM, chosen.shards, chosen.batch);
    refuse_schedule_contradictions();
    if (!was_given.eval_every)
        chosen.eval_every = round_up_to_local_steps(chosen.eval_every);
    if (!steps_depend_on_data())
        check_local_steps();
}

void set_learning_rates(void)
{
    char problem[100];
    if (chosen.from && !was_given.lr)
        chosen.lr = chosen.lora > 0 ? LORA_LR : TUNING_LR * fmin(1, TUNED_WIDTH / (double)chosen.model.width);
    if (uses_muon() && !chosen.from && !was_given.lr)
        chosen.lr = MUON_LR;
    if (uses_muon() && chosen.from && !was_given.adjust_lr)
        chosen.adjust_lr = "match_rms_adamw";
    if (uses_muon() && chosen.adam_lr == 0)
        chosen.adam_lr = chosen.from ? chosen.lr : MUON_ADAM_LR;
    if (chosen.min_lr > chosen.lr) {
        snprintf(problem, sizeof problem, "--min-lr %g is more than --lr, which is %g", chosen.min_lr, chosen.lr);
        refuse(PROGRAM, problem, "");
    }
    if (chosen.min_lr < 0)
        chosen.min_lr = uses_muon() ? chosen.lr / 10 : fmin(chosen.lr / 10, 3e-4);
}

/* Longer texts could be saved, but not loaded. */
static void refuse_long_texts(void)
{
    for (const program_option *option = run_options; option->name; option++)
        if (option->text && *option->text && strlen(*option->text) > MAX_TEXT)
            refuse(PROGRAM, "this option takes at most 4096 bytes: --", option->name);
}

void complete_settings(void)
{
    refuse_contradictions();
    refuse_optimizers();
    refuse_long_texts();
    if (chosen.from && !was_given.tokenizer)
        chosen.tokenizer = chosen.from;
    if (chosen.length == 0 && !chosen.from)
        chosen.length = DEFAULT_LENGTH;
    chosen.model = (th_language_model_options){
        .length = chosen.length,
        .width = chosen.width,
        .heads = chosen.heads,
        .layers = chosen.layers,
        .dropout = chosen.dropout,
        .block = {.attention_dropout = chosen.dropout,
                  .kv_heads = chosen.kv_heads,
                  .mlp_width = chosen.mlp_width,
                  .recompute = chosen.recompute},
    };
    set_model_options(&chosen.model);
    if (!chosen.from)
        set_learning_rates();
}
