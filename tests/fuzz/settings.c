/* Fuzz target: the settings of programs/language_model in a checkpoint, JSON. They are accepted and stay the same when
 * they are written and read again, or they are refused with a message of visible characters. */
#include <setjmp.h>
#include <stdlib.h>

#include "fuzz.h"
#include "tapehead/models.h"

/* Settings that are refused end the program; here they end the input, and the message goes to memory. */
static jmp_buf refused;
static FILE *said;
static _Noreturn void end_input(int status)
{
    longjmp(refused, status ? status : 1);
}
#define exit end_input
#undef stderr
#define stderr said
#include "language_model/schedules.c"
#include "language_model/settings.c"
#include "language_model/settings_json.c"
#undef exit
#undef stderr
#define stderr stderr

/* Checks the message of a refusal: one line of visible characters. */
static void check_message(const char *message, size_t count)
{
    FUZZ_CHECK(count > 20 && message[count - 1] == '\n', "the refusal is not a sentence");
    for (size_t i = 0; i + 1 < count; i++)
        FUZZ_CHECK((unsigned char)message[i] >= ' ' && message[i] != 127, "the message has a character %d", message[i]);
}

/* Whether the settings describe a model, with or without an error. */
static void make_model(void)
{
    th_context *shapes =
        th_context_new(&(th_context_options){.threads = 1, .memory_limit = 1 << 20, .shapes_only = true});
    FUZZ_CHECK(shapes != NULL, "there is no context");
    const bool made = th_language_model_new(shapes, &chosen.model) != NULL;
    (void)fuzz_failed(shapes, !made);
    th_context_free(shapes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *message, *text, *first, *second;
    static size_t count;
    message = text = first = second = NULL;
    said = open_memstream(&message, &count);
    text = fuzz_copy((fuzz_part){(const char *)data, size});
    FUZZ_CHECK(said != NULL, "out of memory");
    if (setjmp(refused) == 0) {
        settings_from_json(text, "the run");
        make_model();
        first = settings_to_json();
        settings_from_json(first, "the same run");
        second = settings_to_json();
        FUZZ_CHECK(strcmp(first, second) == 0, "the settings differ after writing");
        fclose(said);
    } else {
        fclose(said);
        FUZZ_CHECK(first == NULL, "settings that were written are refused: %s", message);
        check_message(message, count);
    }
    free(message);
    free(text);
    free(first);
    free(second);
    return 0;
}
