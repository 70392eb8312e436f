/* Waiting for a word on systems that have no call for it, with a table of condition variables. All threads that sleep
 * for words of one entry wake together, and those whose word has not changed sleep again: th_wait_while may return
 * early. */
#include "platform/threads.h"

#ifndef __linux__

enum { ENTRIES = 16 };

typedef struct entry {
    th_mutex mutex;
    th_condition changed;
} entry;

#define ENTRY                                                                                                          \
    {                                                                                                                  \
        TH_MUTEX_INITIALIZER, TH_CONDITION_INITIALIZER                                                                 \
    }
#define FOUR_ENTRIES ENTRY, ENTRY, ENTRY, ENTRY
static entry table[ENTRIES] = {FOUR_ENTRIES, FOUR_ENTRIES, FOUR_ENTRIES, FOUR_ENTRIES};

static entry *entry_of(const _Atomic uint32_t *word)
{
    return &table[(uintptr_t)word / 64 % ENTRIES];
}

void th_wait_while(_Atomic uint32_t *word, uint32_t value, int64_t time)
{
    entry *const e = entry_of(word);
    th_mutex_lock(&e->mutex);
    if (atomic_load(word) == value)
        th_condition_wait(&e->changed, &e->mutex, time);
    th_mutex_unlock(&e->mutex);
}

/* The lock makes this thread wait until a sleeper that has read the old value waits for the condition. */
void th_wake_one(_Atomic uint32_t *word)
{
    entry *const e = entry_of(word);
    th_mutex_lock(&e->mutex);
    th_mutex_unlock(&e->mutex);
    th_condition_wake_all(&e->changed);
}

#endif
