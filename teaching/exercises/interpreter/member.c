/* Parses the members of th_array and th_call (language.h). */
#include "language.h"

static const struct {
    const char *name;
    base owner;
    member member;
    type type;
} members[] = {
    {"input", BASE_CALL, MEMBER_INPUT, {BASE_ARRAY, 1, false, false, true}},
    {"output", BASE_CALL, MEMBER_OUTPUT, {BASE_ARRAY, 1, false, false, true}},
    {"input_gradient", BASE_CALL, MEMBER_INPUT_GRADIENT, {BASE_ARRAY, 1, false, false, true}},
    {"output_gradient", BASE_CALL, MEMBER_OUTPUT_GRADIENT, {BASE_ARRAY, 1, false, false, true}},
    {"add", BASE_CALL, MEMBER_ADD, {BASE_BOOL, 1, false, false, true}},
    {"n_inputs", BASE_CALL, MEMBER_N_INPUTS, {BASE_INT, 0, false, false, false}},
    {"n_outputs", BASE_CALL, MEMBER_N_OUTPUTS, {BASE_INT, 0, false, false, false}},
    {"training", BASE_CALL, MEMBER_TRAINING, {BASE_BOOL, 0, false, false, false}},
    {"given", BASE_ARRAY, MEMBER_GIVEN, {BASE_BOOL, 0, false, false, false}},
    {"ndim", BASE_ARRAY, MEMBER_NDIM, {BASE_INT, 0, false, false, false}},
    {"size", BASE_ARRAY, MEMBER_SIZE, {BASE_LONG, 1, false, false, true}},
    {"stride", BASE_ARRAY, MEMBER_STRIDE, {BASE_LONG, 1, false, false, true}},
    {"data", BASE_ARRAY, MEMBER_DATA, {BASE_VOID, 1, false, false, false}},
};

node *read_member(interpreter *in, node *owner, bool arrow)
{
    const token *name = peek(in);
    const base b = owner->type.base;
    advance(in);
    if ((b != BASE_ARRAY && b != BASE_CALL) || owner->type.level > 1) {
        fail_at(in, name->line, "%s has no members", owner->text ? owner->text : "this");
        return owner;
    }
    if (arrow != (owner->type.level == 1))
        fail_at(in, name->line,
                arrow ? "write . instead of -> after a th_array that is not a pointer"
                      : "write -> instead of . after a pointer");
    for (int i = 0; i < (int)(sizeof members / sizeof *members); i++)
        if (members[i].owner == b && is_text(name, members[i].name)) {
            if (!arrow)
                owner = new_node(in, NODE_ADDRESS, (type){.base = b, .level = 1}, owner, NULL);
            node *n = new_node(in, NODE_MEMBER, members[i].type, owner, NULL);
            n->line = name->line;
            n->member = members[i].member;
            return n;
        }
    fail_at(in, name->line, "%s has no member %.*s here%s", b == BASE_ARRAY ? "th_array" : "th_call", name->length,
            name->text,
            b == BASE_ARRAY ? ": it has given, ndim, size, stride and data"
                            : ": it has input, output, input_gradient, output_gradient and add");
    return owner;
}
