/* The memory that nodes save for backward. Memory that several nodes save belongs to the first of them. */
#include "autograd/tape.h"

/* Returns whether an operand is counted: with held, if the node holds it; otherwise, if the node's backward reads
 * it. */
static bool is_counted(const th_operand_record *operand, bool held)
{
    return held ? operand->saved == TH_SAVED_HELD : operand->tensor && operand->read;
}

/* Returns whether one of a node's first `count` operands is counted and has this storage. */
static bool saves_storage(const th_node *node, int count, const th_storage *storage, bool held)
{
    for (int k = 0; k < count; k++)
        if (is_counted(&node->operand[k], held) && node->operand[k].tensor->storage == storage)
            return true;
    return false;
}

size_t th_node_saved_bytes(const th_tape *tape, int64_t index, bool held)
{
    const th_node *node = th_node_at(tape, index);
    size_t bytes = 0;
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
        if (!is_counted(&node->operand[i], held) || node->operand[i].tensor->storage->owned)
            continue;
        const th_storage *storage = node->operand[i].tensor->storage;
        bool saved_earlier = saves_storage(node, i, storage, held);
        for (int64_t j = 0; j < index && !saved_earlier; j++) {
            const th_node *earlier = th_node_at(tape, j);
            saved_earlier = saves_storage(earlier, earlier->n_inputs + earlier->n_outputs, storage, held);
        }
        bytes += saved_earlier ? 0 : storage->bytes;
    }
    return bytes;
}
