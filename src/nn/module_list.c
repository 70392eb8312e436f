/* Lists of modules: the members are named by their indices, and the forward runs them in order. */
#include "nn/module.h"
#include "tensor/context.h"

static th_tensor *list_forward(th_module *list, th_tensor *x)
{
    for (th_module *member = list->first; member; member = member->next)
        x = th_module_forward(member, x);
    return x;
}

static const th_module_type list_type = {.name = "module_list", .bytes = sizeof(th_module), .forward = list_forward};

th_module *th_module_list_new(th_context *ctx)
{
    return th_module_new_of_type(ctx, &list_type);
}

static bool check_list(const th_module *list, const char *operation)
{
    if (!th_module_usable(list, operation))
        return false;
    if (!th_module_is(list, &list_type)) {
        th_fail(list->ctx, TH_ERROR_ARGUMENT, operation, "%s is not a list of modules", list->type);
        return false;
    }
    return true;
}

th_module *th_module_list_add(th_module *list, th_module *member)
{
    if (!check_list(list, "module_list_add"))
        return NULL;
    char name[TH_NAME_SIZE];
    snprintf(name, sizeof name, "%lld", (long long)th_module_list_length(list));
    return th_module_add(list, name, member);
}

int64_t th_module_list_length(const th_module *list)
{
    int64_t length = 0;
    for (const th_module *member = list ? list->first : NULL; member; member = member->next)
        length++;
    return length;
}

th_module *th_module_list_at(th_module *list, int64_t index)
{
    if (!check_list(list, "module_list_at"))
        return NULL;
    th_module *member = list->first;
    for (int64_t i = 0; member && i < index; i++)
        member = member->next;
    if (index < 0 || member == NULL) {
        th_fail(list->ctx, TH_ERROR_INDEX, "module_list_at", "index %lld is outside a list of %lld modules",
                (long long)index, (long long)th_module_list_length(list));
        return NULL;
    }
    return member;
}
