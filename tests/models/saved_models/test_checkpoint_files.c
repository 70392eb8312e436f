/* The file and the memory of a checkpoint. A killed process or a full disk leaves the old file. No tensor is held twice. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tapehead/models.h"

#include "checkpoint_pair.h"

/* -- malloc, counted while `watching` -- */

static bool watching;
static size_t asked;
#if OWN_MALLOC
void *__libc_malloc(size_t bytes);

void *malloc(size_t bytes)
{
    asked += watching ? bytes : 0;
    return __libc_malloc(bytes);
}
#endif

/* Returns whether this malloc is the one that is called. The sanitizers and valgrind have their own. */
static bool counts_malloc(void)
{
    asked = 0;
    watching = true;
    void *volatile byte = malloc(1);
    watching = false;
    free(byte);
    return asked > 0;
}

/* -- crashes, full disks, readers -- */

/* Saves one version after another, each with its number in the weights, until the process is killed; *saved counts
 * them. */
static void save_until_killed(_Atomic int64_t *saved)
{
    for (int64_t version = 1;; version++) {
        position = version;
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
            ck_assert_int_eq(th_fill(p.tensor, (double)version), TH_OK);
        save();
        *saved = version;
    }
}

static pid_t start_saving(_Atomic int64_t *saved)
{
    *saved = 0;
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        save_until_killed(saved);
    return child;
}

static void sleep_for(uint64_t microseconds)
{
    nanosleep(&(struct timespec){0, 1000 * (long)microseconds}, NULL);
}

static void kill_and_wait(pid_t child)
{
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

START_TEST(a_killed_process_leaves_a_complete_file)
{
    _Atomic int64_t *saved = mmap(NULL, sizeof *saved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t state = 12345;
    model = pair_new(100); /* large enough to be killed in the middle of saving */
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.1});
    for (int i = 0; i < 25; i++) {
        const pid_t child = start_saving(saved);
        while (*saved < 1)
            sleep_for(100);
        state = state * 6364136223846793005u + 1442695040888963407u;
        sleep_for((state >> 33) % 8000);
        kill_and_wait(child);
        ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
        ck_assert_int_ge(position, *saved); /* the last version that was reported as saved, or the next */
        ck_assert_int_le(position, *saved + 1);
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
            ck_assert_double_eq(th_get(th_reshape(p.tensor, TH_SHAPE(-1)), TH_INDEX(-1)), (double)position);
        th_tape_clear(ctx);
        ck_assert_int_le(count_files(), 2); /* the next writer removes a leftover */
    }
    munmap(saved, sizeof *saved);
}
END_TEST

START_TEST(a_full_disk_leaves_the_old_file)
{
    step();
    save();
    position = 43;
    struct stat saved;
    ck_assert_int_eq(stat(path, &saved), 0);
    const pid_t child = fork();
    int status = 1;
    ck_assert_int_ge(child, 0);
    if (child == 0) { /* a limit on the file's size acts like a full disk */
        signal(SIGXFSZ, SIG_IGN);
        for (rlim_t max = 0; max < (rlim_t)saved.st_size; max += 100) {
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){max, RLIM_INFINITY});
            const th_checkpoint c = run();
            const bool refused = th_checkpoint_save(path, &c) == TH_ERROR_FILE;
            if (!refused || strstr(th_error_message(ctx), "run.safetensors: File too large") == NULL)
                _exit(2);
            th_error_clear(ctx);
        }
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(count_files(), 1);
    ck_assert_int_eq(load(), TH_OK);
    ck_assert_int_eq(position, 42);
    th_checkpoint c = run();
    expect_status(th_checkpoint_save("/dev/full", &c), TH_ERROR_FILE, "/dev/full: No space left on device");
    expect_status(th_checkpoint_save(folder, &c), TH_ERROR_FILE, folder);
}
END_TEST

/* Links are followed, modes are kept, and two processes can save at the same time. */
START_TEST(a_link_is_followed_and_the_mode_is_kept)
{
    char link[256];
    strcpy(link, in_folder("link"));
    save();
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert_int_eq(symlink("run.safetensors", link), 0);
    th_checkpoint c = run();
    position = 44;
    ck_assert_int_eq(th_checkpoint_save(link, &c), TH_OK);
    struct stat status;
    ck_assert_int_eq(lstat(link, &status), 0);
    ck_assert(S_ISLNK(status.st_mode));
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mode & 0777, 0640);
    position = 0;
    ck_assert_int_eq(load(), TH_OK);
    ck_assert_int_eq(position, 44);
    _Atomic int64_t *saved = mmap(NULL, 2 * sizeof *saved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const pid_t first = start_saving(&saved[0]), second = start_saving(&saved[1]);
    for (int loads = 0; loads < 50 || saved[0] < 3 || saved[1] < 3; loads++) /* one complete version, either one */
        ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
    kill_and_wait(first);
    kill_and_wait(second);
    munmap(saved, 2 * sizeof *saved);
    ck_assert_int_eq(load(), TH_OK);
    ck_assert_int_le(count_files(), 4);
}
END_TEST

/* -- memory -- */

START_TEST(saving_and_loading_hold_no_tensor_twice)
{
    model = pair_new(600);
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.1});
    step();
    const size_t bytes = (size_t)th_module_count(model) * sizeof(float), live = th_memory(ctx).live;
    const bool counted = counts_malloc();
    th_memory_reset_peak(ctx);
    asked = 0;
    watching = true;
    save();
    const th_status status = load();
    watching = false;
    ck_assert_int_eq(status, TH_OK);
    ck_assert_uint_lt(th_memory(ctx).peak, live + bytes / 20);
    ck_assert_uint_lt(asked, bytes / 10);
    ck_assert(asked > 0 || !counted);
    ck_assert_uint_eq(th_memory(ctx).live, live);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    step();
    save();
    step();
    const uint32_t before = state_of_all();
    for (int64_t after = 1, done = 0; !done; after++) {
        memory.fail_at = memory.calls + after;
        const th_status status = load();
        memory.fail_at = 0;
        if ((done = status == TH_OK) == 0) {
            expect_error(TH_ERROR_MEMORY, "out of memory");
            ck_assert_uint_eq(state_of_all(), before);
        }
    }
    const th_checkpoint c = run();
    for (int64_t after = 1, done = 0; !done; after++) {
        memory.fail_at = memory.calls + after;
        const th_status status = th_checkpoint_save(path, &c);
        memory.fail_at = 0;
        if ((done = status == TH_OK) == 0)
            expect_error(TH_ERROR_MEMORY, "out of memory");
    }
}
END_TEST

/* A few bytes of options can describe a model of many gigabytes. It is compared with the file before it takes
 * memory. */
START_TEST(a_language_model_is_compared_before_it_takes_memory)
{
    const th_language_model_options small = {.vocabulary = 8, .length = 4, .width = 4, .heads = 2, .layers = 1};
    th_module *lm = th_language_model_new(ctx, &small);
    const th_checkpoint c = {.model = lm};
    ck_assert_int_eq(th_checkpoint_save(path, &c), TH_OK);
    const size_t before = memory.bytes;
    ck_assert_int_eq(th_language_model_check_weights(ctx, &small, path), TH_OK);
    const struct {
        th_language_model_options options;
        const char *sentence;
    } cases[] = {
        {{.vocabulary = 1 << 30, .length = 4, .width = 4, .heads = 2, .layers = 1}, "embedding.weight is (8, 4)"},
        {{.vocabulary = 8, .length = 4, .width = 1 << 20, .heads = 2, .layers = 1}, "in the model"},
        {{.vocabulary = 8, .length = 4, .width = 4, .heads = 2, .layers = 2}, "missing: layers.1."},
        {{.vocabulary = 8, .length = 4, .width = 4, .heads = 2, .layers = 65536},
         "too few for a model of 65536 layers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_status(th_language_model_check_weights(ctx, &cases[i].options, path), TH_ERROR_FILE, cases[i].sentence);
    ck_assert_uint_le(memory.bytes, before + 4096);
    expect_status(th_language_model_check_weights(ctx, &small, in_folder("nothing")), TH_ERROR_FILE, "No such file");
    expect_status(th_language_model_check_weights(ctx, &small, NULL), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_language_model_check_weights(ctx, NULL, path), TH_ERROR_ARGUMENT, "the options are NULL");
    ck_assert_int_eq(th_weights_load(lm, path, NULL), TH_OK);
}
END_TEST

START_TEST(a_shapes_only_context_cannot_be_saved)
{
    th_context *forecast = th_context_new(&(th_context_options){.shapes_only = true});
    th_module *dense = th_dense_new(forecast, 2, 2, NULL);
    ck_assert_int_eq(th_weights_save(dense, path), TH_ERROR_STATE);
    ck_assert_ptr_nonnull(strstr(th_error_message(forecast), "shapes-only context has no values"));
    th_context_free(forecast);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("files of checkpoints", setup, teardown);
    tcase_add_test(tests, a_killed_process_leaves_a_complete_file);
    tcase_add_test(tests, a_full_disk_leaves_the_old_file);
    tcase_add_test(tests, a_link_is_followed_and_the_mode_is_kept);
    tcase_add_test(tests, saving_and_loading_hold_no_tensor_twice);
    tcase_add_test(tests, every_allocation_may_fail);
    tcase_add_test(tests, a_language_model_is_compared_before_it_takes_memory);
    tcase_add_test(tests, a_shapes_only_context_cannot_be_saved);
    return run_suites();
}
