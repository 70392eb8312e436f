/* The folder of a run: made, described, opened. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "trainer.h"

const char *in_run(const char *run, const char *name)
{
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    if (snprintf(path, sizeof paths[0], "%s/%s", run, name) >= (int)sizeof paths[0])
        give_up(PROGRAM, "the path of the run is too long");
    return path;
}

void expect_no_error(const trainer *t)
{
    if (th_error_code(t->ctx) != TH_OK)
        give_up(PROGRAM, th_error_message(t->ctx));
}

void expect(const trainer *t, th_status status)
{
    if (status != TH_OK)
        give_up(PROGRAM, th_error_message(t->ctx));
}

FILE *create_in_run(const char *run, const char *within, const char *name)
{
    const int folder = within ? open(in_run(run, within), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                              : open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return NULL;
    unlinkat(folder, name, 0);
    const int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const int trouble = errno;
    close(folder);
    errno = trouble;
    return file < 0 ? NULL : fdopen(file, "w");
}

/* Those of the folder that are called like the pattern. (The folder is no pattern: "run[1]" is a name, too.) */
static void remove_files(const char *folder, const char *pattern)
{
    DIR *directory = opendir(folder);
    for (struct dirent *file; directory && (file = readdir(directory)) != NULL;)
        if (fnmatch(pattern, file->d_name, FNM_PERIOD) == 0)
            unlinkat(dirfd(directory), file->d_name, 0);
    if (directory)
        closedir(directory);
}

void lock_run(const char *run)
{
    enum { TENTHS = 20 }; /* a process that was killed takes a moment to be gone */
    const int folder = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* stays open, and so locked, until the end */
    for (int i = 0; folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++) {
        if (i == TENTHS)
            refuse(PROGRAM, "another process is at work on this run: ", run);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}

void make_folder(const char *run, bool force)
{
    struct stat status;
    if (stat(run, &status) != 0 && mkdir(run, 0777) != 0)
        refuse(PROGRAM, "this folder cannot be made: ", run);
    if (access(in_run(run, "config.json"), F_OK) == 0 && access(in_run(run, "text.tokens"), F_OK) != 0)
        refuse(PROGRAM, "this folder holds something else than a run: ", run);
    if (!force && access(in_run(run, "last.safetensors"), F_OK) == 0)
        refuse(PROGRAM, "there is a run already (resume it, or --force replaces it): ", run);
    lock_run(run);
}

void empty_folder(const char *run)
{
    /* config.json says that the others are a run's: it goes when they have gone. */
    static const char *const files[] = {"*.safetensors", "events.out.tfevents.*", "log.jsonl",
                                        "curves.svg",    "config.json",           "text.tokens"};
    if (access(in_run(run, "config.json"), F_OK) != 0)
        return;
    struct stat samples;
    if (lstat(in_run(run, "samples"), &samples) == 0 && S_ISDIR(samples.st_mode))
        remove_files(in_run(run, "samples"), "step_*.txt");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        remove_files(run, files[i]);
}

/* The options of the pretrained model, but for those that are of training. */
static void choose_pretrained(trainer *t)
{
    if (access(in_run(chosen.from, "last.safetensors"), F_OK) == 0)
        refuse(PROGRAM, "this is a run; --from takes what " PROGRAM " export makes of it: ", chosen.from);
    expect(t, th_pretrained_options(t->ctx, chosen.from, &chosen.model));
    chosen.model.dropout = chosen.model.block.dropout = chosen.model.block.attention_dropout = chosen.dropout;
    chosen.model.embedding_dropout = chosen.dropout;
    chosen.model.block.recompute = chosen.recompute;
    if (chosen.length == 0)
        chosen.length = chosen.model.length < USUAL_LENGTH ? chosen.model.length : USUAL_LENGTH;
    if (chosen.length > chosen.model.length)
        refuse(PROGRAM, "--length is more than the positions of the model in ", chosen.from);
}

/* A pretrained model says which token ends a text, if the tokenizer is its own. Others end as GPT-2's does, as do those
 * that are trained here, or not at all. */
static void choose_end_token(trainer *t)
{
    if (chosen.from && strcmp(chosen.tokenizer, chosen.from) == 0) {
        expect(t, th_pretrained_end_token(t->ctx, chosen.from, &chosen.end_token));
        return;
    }
    chosen.end_token = th_tokenizer_find(t->tokenizer, "<|endoftext|>");
    if (chosen.end_token >= 0 && !th_tokenizer_is_special(t->tokenizer, chosen.end_token))
        chosen.end_token = -1;
}

void choose_model(trainer *t, const text_file *text)
{
    if (chosen.from)
        choose_pretrained(t);
    t->tokenizer = make_tokenizer(t->ctx, text);
    expect_no_error(t);
    if (!chosen.from)
        chosen.model.vocabulary = th_tokenizer_size(t->tokenizer);
    if (th_tokenizer_size(t->tokenizer) > chosen.model.vocabulary)
        refuse(PROGRAM, "the tokenizer has more tokens than the model in ", chosen.from);
    choose_end_token(t);
}

int64_t hash_of_tokenizer(const char *run)
{
    uint32_t hash = 2166136261; /* FNV-1a */
    FILE *file = fopen(in_run(run, "tokenizer.json"), "r");
    for (int byte; file && (byte = getc(file)) != EOF;)
        hash = (hash ^ (uint32_t)byte) * 16777619;
    if (file)
        fclose(file);
    return hash;
}

void write_settings(const char *run)
{
    char *text = settings_to_json();
    FILE *file = create_in_run(run, NULL, "config.json");
    if (file == NULL || fprintf(file, "%s\n", text) < 0 || fclose(file) != 0)
        give_up(PROGRAM, "config.json cannot be written");
    free(text);
}

void open_run(trainer *t, const char *run, const char *checkpoint, bool weights)
{
    *t = (trainer){.run = run, .ctx = th_context_new(NULL)};
    const char *path = in_run(run, checkpoint);
    if (access(path, F_OK) != 0)
        refuse(PROGRAM, "this is no folder of a run, or one that was stopped before its first checkpoint: ", run);
    const char *text = th_checkpoint_configuration(t->ctx, path);
    expect_no_error(t);
    settings_from_json(text, path);
    if (chosen.threads > 0)
        expect(t, th_set_threads(t->ctx, (int)chosen.threads));
    expect(t, th_set_precision(t->ctx, precision_called(PROGRAM, chosen.precision)));
    t->tokenizer = th_tokenizer_load(t->ctx, run);
    if (t->tokenizer && hash_of_tokenizer(run) != chosen.tokenizer_hash) {
        fprintf(stderr, PROGRAM ": %s is not what the run was begun with\n", in_run(run, "tokenizer.json"));
        exit(EXIT_FAILURE);
    }
    make_model(t);
    if (weights)
        expect(t, th_weights_load(t->model, path, NULL));
}
