#include "transport_checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double seconds = 300;
static char problem[200];

/* Returns the next number of a sequence that all processes share (Vigna's SplitMix64). */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static unsigned char byte_of(uint64_t message, size_t i)
{
    return (unsigned char)(message * 37 + i * 101 + (i >> 8));
}

/* -- lists of messages -- */

enum { MAX_MESSAGES = 256 };

typedef struct list {
    th_message message[MAX_MESSAGES];
    uint64_t number[MAX_MESSAGES]; /* all processes number all messages in the same way */
    int n;
} list;

/* Adds a message, with its bytes if it is to be sent. Returns false if memory is exhausted. */
static bool add(list *l, int peer, uint64_t number, size_t bytes, bool sent)
{
    unsigned char *data = malloc(bytes);
    if (data == NULL || l->n == MAX_MESSAGES) {
        free(data);
        return false;
    }
    for (size_t i = 0; i < bytes; i++)
        data[i] = sent ? byte_of(number, i) : 0;
    l->number[l->n] = number;
    l->message[l->n++] = (th_message){.peer = peer, .data = data, .bytes = bytes};
    return true;
}

static void empty(list *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->message[i].data);
    l->n = 0;
}

static const char *compare(const list *received)
{
    for (int i = 0; i < received->n; i++)
        for (size_t k = 0; k < received->message[i].bytes; k++)
            if (((unsigned char *)received->message[i].data)[k] != byte_of(received->number[i], k)) {
                snprintf(problem, sizeof problem, "byte %zu of %zu of message %llu from rank %d is wrong", k,
                         received->message[i].bytes, (unsigned long long)received->number[i],
                         received->message[i].peer);
                return problem;
            }
    return NULL;
}

/* Exchanges the messages, compares what arrives, and empties the lists. */
static const char *run(const th_transport *t, list *sent, list *received)
{
    const char *why = t->exchange(t->user, sent->message, sent->n, received->message, received->n, seconds);
    if (why == NULL)
        why = compare(received);
    empty(sent);
    empty(received);
    return why;
}

/* -- checks -- */

/* Lists this process's part of a mixture. */
static bool list_mixture(const th_transport *t, uint64_t *state, size_t largest, list *sent, list *received)
{
    const int count = t->size < 2 ? 0 : (int)(next(state) % (uint64_t)(4 * t->size));
    for (int i = 0; i < count; i++) {
        const uint64_t number = next(state);
        const int from = (int)(next(state) % (uint64_t)t->size);
        const int to = (from + 1 + (int)(next(state) % (uint64_t)(t->size - 1))) % t->size;
        const double power = (double)(next(state) >> 11) * 0x1p-53;
        const size_t bytes = (size_t)pow((double)largest, power);
        if (from == t->rank && !add(sent, to, number, bytes, true))
            return false;
        if (to == t->rank && !add(received, from, number, bytes, false))
            return false;
    }
    return true;
}

const char *check_mixtures(const th_transport *t, uint64_t seed, int rounds, size_t largest)
{
    list sent = {.n = 0}, received = {.n = 0};
    const char *why = NULL;
    for (int round = 0; round < rounds && why == NULL; round++)
        why = list_mixture(t, &seed, largest, &sent, &received) ? run(t, &sent, &received) : "memory is exhausted";
    empty(&sent);
    empty(&received);
    return why;
}

const char *check_all_pairs(const th_transport *t, int count, size_t bytes)
{
    list sent = {.n = 0}, received = {.n = 0};
    bool complete = true;
    for (int i = 0; i < count; i++)
        for (int peer = 0; peer < t->size; peer++) {
            const uint64_t out = (uint64_t)((t->rank * t->size + peer) * count + i),
                           in = (uint64_t)((peer * t->size + t->rank) * count + i);
            if (peer != t->rank)
                complete = complete && add(&sent, peer, out, bytes, true) && add(&received, peer, in, bytes, false);
        }
    const char *why = complete ? run(t, &sent, &received) : "memory is exhausted";
    empty(&sent);
    empty(&received);
    return why;
}

const char *check_turns(const th_transport *t, int rounds)
{
    const int before = (t->rank + t->size - 1) % t->size, after = (t->rank + 1) % t->size;
    uint64_t token = 0;
    for (int round = 0; round < rounds && t->size > 1; round++) {
        const th_message in = {.peer = before, .data = &token, .bytes = sizeof token},
                         out = {.peer = after, .data = &token, .bytes = sizeof token};
        const uint64_t expected = (uint64_t)round * (uint64_t)t->size + (uint64_t)t->rank;
        const char *why = NULL;
        if (t->rank > 0 || round > 0)
            why = t->exchange(t->user, NULL, 0, &in, 1, seconds);
        if (why == NULL && token != expected)
            why = "the number that went around is wrong";
        token++;
        if (why == NULL && !(t->rank == t->size - 1 && round == rounds - 1))
            why = t->exchange(t->user, &out, 1, NULL, 0, seconds);
        if (why)
            return why;
    }
    return NULL;
}
