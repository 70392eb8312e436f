/* Runs the programs, and has what they share: the checksum, inputs and paths. */
#include "subjects.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- the programs -- */

const program *const programs[] = {
    &create_tensors,
    &access_tensors,
    &views,
    &settings,
    &elementwise_operations,
    &reductions_and_losses,
    &products_and_indices,
    &operations_of_the_registry,
    &scopes,
    &gradients,
    &looking_at_the_tape,
    &many_nodes,
    &gradient_checks,
    &operation_check,
    &own_operations,
    &own_modules,
    &layers,
    &attention_of_heads,
    &attention_layers,
    &cache,
    &stored_weights,
    &lora,
    &blocks,
    &classifier,
    &gpt,
    &llama,
    &translator,
    &generation,
    &beam_search,
    &translation,
    &sgd,
    &adam,
    &converted_training,
    &muon,
    &weight_averages,
    &micro_batches,
    &reduced_precision,
    &several_threads,
    &shards_alone,
    &shards_together,
    &local_steps,
    &npy,
    &whole_files,
    &pages,
    &pictures,
    &profile,
    &progress,
    &logs,
    &simple_tokenizers,
    &trained_tokenizer,
    &loaded_tokenizer,
    &loaded_document_tokenizer,
    &merges_of_a_folder,
    &token_files,
    &instruction_data,
    &tuning_inside,
    &safetensors,
    &weights_alone,
    &checkpoints,
    &averaged_checkpoints,
    &resumed_training,
    &hugging_face_gpt2,
    &hugging_face_llama,
    &sentence_embeddings,
    &gguf,
    &peft,
};
const int program_count = sizeof programs / sizeof *programs;

/* -- the checksum -- */

void add_bytes(program_run *r, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    uint32_t crc = ~r->crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= byte[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    r->crc = ~crc;
}

void add_number(program_run *r, double number)
{
    add_bytes(r, &number, sizeof number);
}

void add_text(program_run *r, const char *text)
{
    if (text)
        add_bytes(r, text, strlen(text) + 1);
}

void add_tensor(program_run *r, th_tensor *t)
{
    const size_t bytes = (size_t)th_numel(t) * th_dtype_size(th_dtype_of(t));
    if (t == NULL)
        return;
    const th_shape shape = th_shape_of(t);
    add_bytes(r, shape.size, (size_t)shape.ndim * sizeof shape.size[0]);
    if (bytes <= sizeof r->bytes && th_copy_out(t, r->bytes, bytes) == TH_OK)
        add_bytes(r, r->bytes, bytes);
}

void add_output(program_run *r)
{
    fflush(r->out);
    const ssize_t bytes = pread(fileno(r->out), r->bytes, sizeof r->bytes, 0);
    if (bytes > 0)
        add_bytes(r, r->bytes, (size_t)bytes);
}

void add_file(program_run *r, const char *path)
{
    const int file = open(path, O_RDONLY);
    for (ssize_t bytes; file >= 0 && (bytes = read(file, r->bytes, sizeof r->bytes)) > 0;)
        add_bytes(r, r->bytes, (size_t)bytes);
    if (file >= 0)
        close(file);
}

void add_gradients(program_run *r, th_module *m)
{
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        add_text(r, p.name);
        add_tensor(r, th_gradient(p.tensor));
        th_empty_gradient(p.tensor);
    }
}

/* -- inputs and paths -- */

const char *in_folder(program_run *r, const char *name)
{
    char *path = r->path[r->paths++ % 4];
    snprintf(path, sizeof r->path[0], "%s/%s", r->folder, name);
    return path;
}

static uint32_t next_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static int64_t elements(th_shape shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.size[d];
    return count;
}

th_tensor *numbers(program_run *r, th_shape shape, uint32_t seed)
{
    float *number = (float *)(void *)r->bytes;
    for (int64_t i = 0; i < elements(shape); i++)
        number[i] = (float)next_number(&seed) / (float)(1 << 23) - 1;
    return th_from_data(r->ctx, TH_FLOAT32, shape, number);
}

th_tensor *leaf(program_run *r, th_shape shape, uint32_t seed)
{
    th_tensor *made = numbers(r, shape, seed), *kept = th_keep(made);
    th_tensor_free(made);
    return th_set_requires_gradient(kept, true);
}

th_tensor *integers(program_run *r, th_shape shape, int high, uint32_t seed)
{
    int32_t *integer = (int32_t *)(void *)r->bytes;
    for (int64_t i = 0; i < elements(shape); i++)
        integer[i] = (int32_t)(next_number(&seed) % (uint32_t)high);
    return th_from_data(r->ctx, TH_INT32, shape, integer);
}

/* -- running -- */

static th_status make_context(program_run *r, int threads)
{
    r->ctx = th_context_new(&(th_context_options){.seed = PROGRAM_SEED, .threads = threads});
    return r->ctx ? th_error_code(r->ctx) : TH_ERROR_MEMORY;
}

/* Runs step `index` of a program as program_result counts them. */
static th_status run_step(const program *p, program_run *r, int index, int threads)
{
    rewind(r->out);
    if (ftruncate(fileno(r->out), 0) != 0)
        return TH_ERROR_FILE;
    if (index == 0)
        return make_context(r, threads);
    if (index == 1)
        return p->setup ? p->setup(r) : TH_OK;
    th_step_begin(r->ctx);
    const th_status status = p->step[index - 2](r);
    th_tape_clear(r->ctx);
    return status != TH_OK ? status : th_error_code(r->ctx);
}

static void prepare_repetition(program_run *r, int index)
{
    r->other_text[0] = 0;
    if (index == 0) {
        th_context_free(r->ctx);
        r->ctx = NULL;
        return;
    }
    th_tape_clear(r->ctx);
    th_error_clear(r->ctx);
    if (index == 1)
        th_set_seed(r->ctx, PROGRAM_SEED);
}

/* Makes the folders that programs write to. Removes the logs for TensorBoard, because their names contain the time. */
static void prepare_folder(program_run *r)
{
    static const char *const names[] = {"bytes", "characters", "bpe", "merges", "events"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        mkdir(in_folder(r, names[i]), 0777);
    DIR *events = opendir(in_folder(r, "events"));
    for (struct dirent *entry; events && (entry = readdir(events));)
        unlinkat(dirfd(events), entry->d_name, 0);
    if (events)
        closedir(events);
}

static void keep_error(program_result *result, const program_run *r, int step)
{
    result->step = step;
    snprintf(result->text, sizeof result->text, "%s", r->other_text[0] ? r->other_text : th_error_text(r->ctx));
}

/* Runs all steps. After the first error it repeats the step, if hooks->repeat is given. */
static void run_steps(const program *p, program_run *r, int threads, const program_hooks *hooks, program_result *result)
{
    for (int i = 0; i < 2 || p->step[i - 2]; i++) {
        const uint32_t before = r->crc;
        const th_status status = run_step(p, r, i, threads);
        if (status == TH_OK)
            continue;
        if (result->status == TH_OK) {
            result->status = status;
            keep_error(result, r, i);
        }
        if (hooks == NULL || hooks->repeat == NULL)
            return;
        hooks->repeat();
        prepare_repetition(r, i);
        r->crc = before;
        result->repeated = run_step(p, r, i, threads);
        if (result->repeated != TH_OK) {
            keep_error(result, r, i);
            return;
        }
    }
}

program_result run_program(const program *p, const char *folder, int threads, const program_hooks *hooks)
{
    static _Thread_local program_run run;
    static _Thread_local char buffer[4096], path[512];
    program_result result = {.status = TH_OK};
    memset(&run, 0, sizeof run);
    run.folder = folder;
    snprintf(path, sizeof path, "%s/output", folder);
    run.out = fopen(path, "w+");
    if (run.out == NULL)
        return (program_result){.status = TH_ERROR_FILE, .text = "the program cannot open the file for its output"};
    setvbuf(run.out, buffer, _IOFBF, sizeof buffer);
    prepare_folder(&run);
    if (hooks && hooks->begin)
        hooks->begin();
    run_steps(p, &run, threads, hooks, &result);
    th_context_free(run.ctx);
    fclose(run.out);
    result.crc = run.crc;
    return result;
}
