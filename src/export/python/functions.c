/* The functions of the script, from the embedded Python files. A function begins with "def" in the first column and
 * ends before the next one. The script gets the operations of its nodes, and what these call. */
#include <stdio.h>
#include <string.h>

#include "export/python/script.h"

#include "python_check.inc"
#include "python_numpy.inc"
#include "python_torch.inc"

enum { MAX_FUNCTIONS = 256 };

typedef struct function {
    const char *text, *name; /* not terminated */
    size_t length, name_length;
    bool needed;
} function;

typedef struct function_list {
    function function[MAX_FUNCTIONS];
    int count;
} function_list;

static bool is_name(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void split_functions(const char *text, function_list *list)
{
    static const char keyword[] = "def ";
    list->count = 0;
    const char *start = strstr(text, keyword);
    while (start && list->count < MAX_FUNCTIONS) {
        const char *next_start = strstr(start + 1, "\ndef "), *name = start + sizeof keyword - 1;
        size_t length = next_start ? (size_t)(next_start - start) : strlen(start);
        while (length > 0 && start[length - 1] == '\n')
            length--;
        list->function[list->count++] =
            (function){.text = start, .name = name, .length = length, .name_length = strcspn(name, "(")};
        start = next_start ? next_start + 1 : NULL;
    }
}

/* Returns whether a function's text calls another one. */
static bool calls_function(const function *caller, const function *callee)
{
    const char *end = caller->text + caller->length - callee->name_length;
    for (const char *place = caller->text + 4; place < end; place++)
        if (memcmp(place, callee->name, callee->name_length) == 0 && place[callee->name_length] == '(' &&
            !is_name(place[-1]) && place != caller->name)
            return true;
    return false;
}

/* Marks a function and all that it calls, directly or not. */
static void mark_needed(function_list *list, function *wanted)
{
    if (wanted->needed)
        return;
    wanted->needed = true;
    for (int i = 0; i < list->count; i++)
        if (calls_function(wanted, &list->function[i]))
            mark_needed(list, &list->function[i]);
}

static void mark_needed_name(function_list *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (list->function[i].name_length == strlen(name) &&
            memcmp(list->function[i].name, name, list->function[i].name_length) == 0)
            mark_needed(list, &list->function[i]);
}

static void mark_operations(const th_script *script, function_list *list)
{
    for (int64_t n = 0; n < script->listing.nodes; n++) {
        char name[128];
        const char *operation = th_listing_node(&script->listing, n)->op->name;
        snprintf(name, sizeof name, "th_%.100s", operation);
        mark_needed_name(list, name);
        snprintf(name, sizeof name, "th_%.100s_gradient", operation);
        if (script->numpy && th_script_is_reached(script, n))
            mark_needed_name(list, name);
    }
}

static void put_needed(const th_script *script, const function_list *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->function[i].needed)
            fprintf(script->file, "\n\n%.*s\n", (int)list->function[i].length, list->function[i].text);
}

void th_script_put_functions(const th_script *script)
{
    function_list list;
    split_functions((const char *)(script->numpy ? numpy_functions : torch_functions), &list);
    mark_operations(script, &list);
    mark_needed_name(&list, "given");
    mark_needed_name(&list, "leaf");
    mark_needed_name(&list, "perturbed");
    fputs("\n\n# -- the operations --", script->file);
    put_needed(script, &list);
    fputs("\n\n# -- the comparison --", script->file);
    split_functions((const char *)check_functions, &list);
    for (int i = 0; i < list.count; i++)
        list.function[i].needed = true;
    put_needed(script, &list);
}
