/* Opens files, folders and streams as documents: see texts.h. It maps a single regular file directly. It copies
 * everything else into a temporary file without a name, and maps that. A compressed file is decompressed there. */
#include "shared/texts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <tapehead/models.h>

#include "options.h"
#include "shared/run_folder.h"
#include "shared/system.h"

static const char standard_input[] = "-";

static _Noreturn void refuse_text(const char *path, const char *reason)
{
    char problem[400];
    snprintf(problem, sizeof problem, "the text %.300s cannot be used: %s",
             strcmp(path, standard_input) == 0 ? "from standard input" : path, reason);
    give_up(program_name, problem);
    abort(); /* not reached */
}

static void *map_file(const char *path, int file, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory == MAP_FAILED)
        refuse_text(path, strerror(errno));
    return memory;
}

/* Opens the file that a word of the command line names, and gets its status. A pipe without a writer waits for one. */
static int open_word(const char *path, struct stat *status)
{
    const int file =
        strcmp(path, standard_input) == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, status) != 0)
        refuse_text(path, strerror(errno));
    if ((S_ISCHR(status->st_mode) && !isatty(file)) || S_ISBLK(status->st_mode))
        refuse_text(path, "it is a device; a file, a folder or a pipe can be read");
    return file;
}

/* -- copying -- */

typedef struct text_copy {
    int file;
    texts result;
    size_t capacity; /* of all.end */
} text_copy;

/* Creates a file without a name in the temporary directory. The system removes it when the program ends. */
static int open_unnamed(void)
{
    const char *folder = temporary_parent();
    char path[4096], problem[400];
    const bool fits = snprintf(path, sizeof path, "%s/tapehead_XXXXXX", folder) < (int)sizeof path;
    const int file = fits ? open_unnamed_file(path) : -1;
    if (file < 0) {
        snprintf(problem, sizeof problem, "a temporary file cannot be created in %.300s (TMPDIR): %s", folder,
                 strerror(fits ? errno : ENAMETOOLONG));
        give_up(program_name, problem);
    }
    return file;
}

static void write_all(int file, const char *bytes, size_t count)
{
    char problem[200];
    for (ssize_t n; count > 0; bytes += n, count -= (size_t)n) {
        n = write(file, bytes, count);
        if (n < 0 && errno == EINTR)
            n = 0;
        if (n < 0) {
            snprintf(problem, sizeof problem, "the text cannot be copied to the temporary directory (TMPDIR): %s",
                     strerror(errno));
            give_up(program_name, problem);
        }
    }
}

/* Reads bytes until the buffer is full or the file ends. Returns their number. */
static size_t read_bytes(const char *path, int from, char *buffer, size_t size)
{
    size_t count = 0;
    for (ssize_t n = 1; n != 0 && count < size;) {
        n = read(from, buffer + count, size - count);
        if (n < 0 && errno != EINTR)
            refuse_text(path, strerror(errno));
        count += n > 0 ? (size_t)n : 0;
    }
    return count;
}

/* Writes to a file whatever was read of another one, and the rest of that. Returns the number of bytes. */
static size_t copy_bytes(int to, const char *path, int from, char *buffer, size_t size, size_t count)
{
    size_t bytes = 0;
    for (; count > 0; count = read_bytes(path, from, buffer, size)) {
        write_all(to, buffer, count);
        bytes += count;
    }
    return bytes;
}

static bool write_piece(void *file, const void *bytes, size_t count)
{
    write_all(*(int *)file, bytes, count);
    return true;
}

/* Decompresses a file, and appends the result to another one. */
static void decompress(int to, const char *path, int from, size_t bytes)
{
    th_context *ctx = th_context_new(NULL);
    void *memory = map_file(path, from, bytes);
    if (th_decompress(ctx, path, memory, bytes, write_piece, &to) != TH_OK)
        give_up(program_name, th_error_text(ctx));
    munmap(memory, bytes);
    th_context_free(ctx);
}

static off_t size_of(int file)
{
    struct stat status;
    return fstat(file, &status) == 0 ? status.st_size : 0;
}

/* Appends the content of a file. Returns the number of bytes. */
static size_t copy_stream(text_copy *c, const char *path, int from)
{
    static char buffer[1 << 16];
    const size_t count = read_bytes(path, from, buffer, sizeof buffer);
    if (th_compression_name(buffer, count) == NULL)
        return copy_bytes(c->file, path, from, buffer, sizeof buffer, count);
    const off_t before = size_of(c->file);
    const int compressed = open_unnamed();
    decompress(c->file, path, compressed, copy_bytes(compressed, path, from, buffer, sizeof buffer, count));
    close(compressed);
    return (size_t)(size_of(c->file) - before);
}

static void add_document(text_copy *c, const char *path, size_t bytes)
{
    texts *result = &c->result;
    if (result->documents == c->capacity) {
        c->capacity = 2 * c->capacity + 16;
        result->end = realloc(result->end, c->capacity * sizeof *result->end);
        result->paths = realloc(result->paths, c->capacity * sizeof *result->paths);
    }
    char *copy = strdup(strcmp(path, standard_input) == 0 ? "the text" : path);
    if (result->end == NULL || result->paths == NULL || copy == NULL)
        give_up(program_name, "out of memory");
    result->count += bytes;
    result->paths[result->documents] = copy;
    result->end[result->documents++] = result->count;
}

static int is_not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Appends the regular files of a folder that are not empty, in the order of their names. */
static void copy_folder(text_copy *c, const char *folder)
{
    struct dirent **entry;
    const size_t documents_before = c->result.documents;
    if (access(path_in(folder, NEWEST_CHECKPOINT), F_OK) == 0)
        refuse_text(folder, "it is the folder of a run, not of texts");
    const int count = scandir(folder, &entry, is_not_hidden, alphasort);
    if (count < 0)
        refuse_text(folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char path[4096];
        struct stat status;
        if (snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name) >= (int)sizeof path)
            refuse_text(folder, "the path of a file in it is too long");
        if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
            const int file = open_word(path, &status);
            const size_t bytes = copy_stream(c, path, file);
            if (bytes > 0)
                add_document(c, path, bytes);
            close(file);
        }
        free(entry[i]);
    }
    free(entry);
    if (c->result.documents == documents_before)
        refuse_text(folder, "the folder has no regular files with text");
}

static void copy_word(text_copy *c, const char *word)
{
    struct stat status;
    const int file = open_word(word, &status);
    if (S_ISDIR(status.st_mode)) {
        copy_folder(c, word);
    } else {
        const size_t bytes = copy_stream(c, word, file);
        if (bytes == 0)
            refuse_text(word, "it is empty");
        add_document(c, word, bytes);
    }
    close(file);
}

/* -- opening -- */

/* Maps the word if it is a regular file that is not compressed. */
static bool map_word(const char *word, texts *text)
{
    struct stat status;
    if (stat(word, &status) != 0 || !S_ISREG(status.st_mode) || strcmp(word, standard_input) == 0)
        return false;
    const int file = open_word(word, &status);
    if (status.st_size == 0)
        refuse_text(word, "it is empty");
    const size_t bytes = (size_t)status.st_size;
    void *memory = map_file(word, file, bytes);
    close(file);
    if (th_compression_name(memory, bytes)) {
        munmap(memory, bytes);
        return false;
    }
    *text = (texts){.name = word, .bytes = memory, .count = bytes};
    return true;
}

bool has_documents(const texts *text)
{
    return text->held_out > 1 || text->documents - text->held_out > 1;
}

texts open_texts(const char *const *words, int count, const char *validation)
{
    text_copy c = {.file = -1};
    if (count == 1 && validation == NULL && map_word(words[0], &c.result)) {
        const size_t bytes = c.result.count;
        c.result.count = 0;
        add_document(&c, words[0], bytes);
        return c.result;
    }
    c.file = open_unnamed();
    for (int i = 0; i < count; i++)
        copy_word(&c, words[i]);
    const size_t training = c.result.documents;
    if (validation)
        copy_word(&c, validation);
    c.result.held_out = c.result.documents - training;
    c.result.name = count == 1 && strcmp(words[0], standard_input) != 0 ? words[0] : "the text";
    c.result.bytes = map_file(c.result.name, c.file, c.result.count);
    close(c.file);
    return c.result;
}

void close_texts(texts *text)
{
    munmap((void *)(uintptr_t)text->bytes, text->count);
    for (size_t i = 0; i < text->documents; i++)
        free(text->paths[i]);
    free(text->paths);
    free(text->end);
}
