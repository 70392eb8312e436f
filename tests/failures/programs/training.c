/* Programs about training: optimizers, clipping, schedules, precision, threads. */
#include "subjects.h"

static th_status model_setup(program_run *r)
{
    r->model = th_module_list_new(r->ctx);
    th_module_list_add(r->model, th_dense_new(r->ctx, 6, 10, NULL));
    th_module_list_add(r->model, th_layer_norm_new(r->ctx, 10, NULL));
    th_module_list_add(r->model, th_dropout_new(r->ctx, 0.2));
    th_module_list_add(r->model, th_dense_new(r->ctx, 10, 3, NULL));
    return th_error_code(r->ctx);
}

static th_tensor *model_loss(program_run *r, uint32_t seed)
{
    th_tensor *logits = th_module_forward(r->model, numbers(r, TH_SHAPE(4, 6), seed));
    return th_cross_entropy(logits, integers(r, TH_SHAPE(4), 3, seed), NULL);
}

/* A step that failed after its backward leaves gradients, which the repetition would add to. */
static void empty_gradients(program_run *r)
{
    for (th_parameter_iterator p = th_module_parameters(r->model); th_parameter_next(&p);)
        th_empty_gradient(p.tensor);
}

static th_status train(program_run *r)
{
    empty_gradients(r);
    TRY(th_backward(model_loss(r, 81), NULL));
    TRY(th_optimizer_step(r->optimizer));
    add_number(r, th_optimizer_gradient_norm(r->optimizer));
    add_number(r, th_module_crc32c(r->model));
    add_number(r, (double)th_step(r->ctx));
    return th_error_code(r->ctx);
}

/* -- SGD -- */

static th_status sgd_setup(program_run *r)
{
    TRY(model_setup(r));
    r->optimizer = th_sgd_new(r->model, &(th_sgd_options){.learning_rate = 0.1, .momentum = 0.9, .nesterov = true});
    return th_error_code(r->ctx);
}

static th_status clipped(program_run *r)
{
    double norm = 0;
    empty_gradients(r);
    TRY(th_backward(model_loss(r, 82), NULL));
    TRY(th_clip_gradients(r->model, 0.01, &norm));
    add_number(r, norm);
    add_gradients(r, r->model);
    return th_error_code(r->ctx);
}

const program sgd = {.name = "sgd", .setup = sgd_setup, .step = {train, train, clipped, train}};

/* -- Adam -- */

static bool takes_norms(const char *name, th_tensor *parameter, void *user)
{
    (void)user;
    return th_ndim(parameter) == 1 && name[0] == '1';
}

static th_status adam_setup(program_run *r)
{
    const th_parameter_group groups[] = {{.pattern = "*.bias", .no_weight_decay = true, .learning_rate_factor = 0.5},
                                         {.takes = takes_norms, .no_update = true}};
    TRY(model_setup(r));
    r->optimizer = th_adam_new(
        r->model, &(th_adam_options){
                      .learning_rate = 0.01, .amsgrad = true, .weight_decay = 0.1, .groups = groups, .n_groups = 2});
    return th_error_code(r->ctx);
}

static th_status scheduled(program_run *r)
{
    const th_cosine_schedule cosine = {.peak = 0.02, .warmup_steps = 2, .total_steps = 9};
    const th_noam_schedule noam = {.width = 10, .warmup_steps = 4};
    TRY(th_optimizer_set_learning_rate(r->optimizer, th_schedule_cosine(3, &cosine)));
    TRY(train(r));
    add_number(r, th_optimizer_learning_rate(r->optimizer));
    const th_linear_schedule linear = {.peak = 0.02, .total_steps = 9};
    const th_wsd_schedule wsd = {.peak = 0.02, .total_steps = 9, .decay_steps = 4};
    add_number(r, th_schedule_linear(3, &linear));
    add_number(r, th_schedule_wsd(7, &wsd));
    add_number(r, th_schedule_plateau(1, &(th_plateau_schedule){.rate = 0.02}, &(th_plateau_state){0}));
    add_number(r, (double)th_schedule_batch(3, &(th_batch_schedule){.first = 1, .last = 9, .growth_steps = 8}));
    return th_optimizer_set_learning_rate(r->optimizer, th_schedule_noam(5, &noam));
}

/* New parameters of a module that is already being trained, and another optimizer. */
static th_status replaced(program_run *r)
{
    const th_adam_options options = {.learning_rate = 0.01, .max_norm = 0.5};
    th_optimizer *other = th_adam_w_new(r->model, &options);
    if (other == NULL)
        return th_error_code(r->ctx);
    th_optimizer_free(r->optimizer);
    r->optimizer = other;
    return TH_OK;
}

const program adam = {.name = "adam", .setup = adam_setup, .step = {train, train, scheduled, replaced, train, train}};

/* -- a conversion in between, and frozen parameters -- */

static th_status widened(program_run *r)
{
    return th_module_cast(r->model, TH_FLOAT64);
}

static th_status narrowed(program_run *r)
{
    return th_module_cast(r->model, TH_FLOAT32);
}

static th_status train_wide(program_run *r)
{
    empty_gradients(r);
    th_tensor *x = th_cast(numbers(r, TH_SHAPE(4, 6), 83), TH_FLOAT64);
    TRY(th_backward(th_mean(th_module_forward(r->model, x), TH_ALL_AXES, NULL), NULL));
    TRY(th_optimizer_step(r->optimizer));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

static th_status frozen(program_run *r)
{
    TRY(th_module_freeze(th_module_list_at(r->model, 0), true));
    TRY(train(r));
    return th_module_freeze(r->model, false);
}

const program converted_training = {
    .name = "converted_training", .setup = adam_setup, .step = {train, widened, train_wide, narrowed, frozen, train}};

/* -- Muon -- */

static th_status muon_setup(program_run *r)
{
    const th_parameter_group groups[] = {{.pattern = "3.*", .muon = TH_MUON_NEVER}};
    TRY(model_setup(r));
    r->optimizer = th_muon_new(
        r->model,
        &(th_muon_options){.learning_rate = 0.02, .adam_learning_rate = 0.01, .groups = groups, .n_groups = 1});
    return th_error_code(r->ctx);
}

const program muon = {
    .name = "muon", .setup = muon_setup, .step = {train, scheduled, widened, train_wide, narrowed, frozen, train}};
/* -- averages of weights -- */

static th_status averages_setup(program_run *r)
{
    TRY(model_setup(r));
    r->average = th_weight_average_new(r->model, &(th_weight_average_options){.decay = 0.9, .warm_up = true});
    return th_error_code(r->ctx);
}

/* Only the first update allocates memory. */
static th_status averaged(program_run *r)
{
    const th_dtype type = th_dtype_of(th_module_find_parameter(r->model, "0.weight"));
    th_tensor *values = th_cast(numbers(r, TH_SHAPE(10, 6), 88), type);
    TRY(th_error_code(r->ctx));
    TRY(th_weight_average_update(r->average));
    TRY(th_copy_into(th_module_find_parameter(r->model, "0.weight"), values));
    TRY(th_weight_average_update(r->average));
    TRY(th_weight_average_swap(r->average));
    add_number(r, th_module_crc32c(r->model));
    add_number(r, th_weight_average_is_swapped(r->average));
    return th_weight_average_swap(r->average);
}

static th_status without_averages(program_run *r)
{
    th_weight_average_free(r->average);
    r->average = NULL;
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

const program weight_averages = {.name = "weight_averages",
                                 .setup = averages_setup,
                                 .step = {averaged, widened, averaged, narrowed, averaged, without_averages}};

/* -- two micro-batches -- */

static th_status accumulated(program_run *r)
{
    empty_gradients(r);
    TRY(th_backward(model_loss(r, 84), NULL));
    TRY(th_backward(model_loss(r, 85), NULL));
    TRY(th_optimizer_step(r->optimizer));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

const program micro_batches = {.name = "micro_batches", .setup = sgd_setup, .step = {accumulated, accumulated}};

/* -- reduced precision -- */

static th_status precise_setup(program_run *r)
{
    r->model = th_dense_new(r->ctx, 70, 40, NULL);
    r->optimizer = th_adam_w_new(r->model, &(th_adam_options){.learning_rate = 0.01});
    return th_error_code(r->ctx);
}

static th_status precise(program_run *r, th_precision precision)
{
    empty_gradients(r);
    TRY(th_set_precision(r->ctx, precision));
    th_tensor *y = th_module_forward(r->model, numbers(r, TH_SHAPE(66, 70), 86));
    add_tensor(r, y);
    y = th_scaled_dot_product_attention(y, y, y, NULL);
    add_tensor(r, y);
    TRY(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL));
    TRY(th_optimizer_step(r->optimizer));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

static th_status bfloat16(program_run *r)
{
    return precise(r, TH_PRECISION_BFLOAT16);
}

static th_status bfloat16x3(program_run *r)
{
    return precise(r, TH_PRECISION_BFLOAT16X3);
}

const program reduced_precision = {
    .name = "reduced_precision", .setup = precise_setup, .step = {bfloat16, bfloat16x3, bfloat16}};

/* -- work for several threads -- */

static th_status large_setup(program_run *r)
{
    r->model = th_dense_new(r->ctx, 128, 96, NULL);
    r->optimizer = th_sgd_new(r->model, &(th_sgd_options){.learning_rate = 0.01});
    return th_error_code(r->ctx);
}

static th_status large(program_run *r)
{
    empty_gradients(r);
    th_tensor *x = numbers(r, TH_SHAPE(96, 128), 87);
    th_tensor *y = th_gelu(th_module_forward(r->model, x));
    y = th_softmax(th_matmul(y, th_swap_axes(y, 0, 1)), 1);
    add_number(r, th_item(th_sum(th_mul(y, y), TH_ALL_AXES, NULL)));
    TRY(th_backward(th_mean(y, TH_ALL_AXES, NULL), NULL));
    TRY(th_optimizer_step(r->optimizer));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

/* Another size of the team. A repetition begins with the same size. */
static th_status resized(program_run *r)
{
    TRY(th_set_threads(r->ctx, 4));
    return large(r);
}

const program several_threads = {.name = "several_threads", .setup = large_setup, .step = {large, resized, large}};
