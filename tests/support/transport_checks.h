/* Checks of a transport, over shared memory or MPI. All processes of the transport call the same function. Each returns
 * NULL, or a sentence about what is wrong. */
#ifndef TESTS_TRANSPORT_CHECKS_H
#define TESTS_TRANSPORT_CHECKS_H

#include "tapehead/group.h"

/* Exchanges random mixtures of messages of 1 byte to `largest` bytes: `rounds` exchanges without a barrier between them,
 * some of them without a message for this process. Every byte that arrives must be the one that was sent. */
const char *check_mixtures(const th_transport *transport, uint64_t seed, int rounds, size_t largest);
/* Each process sends `count` messages of `bytes` bytes to every other process, all in one exchange. */
const char *check_all_pairs(const th_transport *transport, int count, size_t bytes);
/* Sends a message to each process in turn, and back: each message must have arrived before the next one is sent. */
const char *check_turns(const th_transport *transport, int rounds);

#endif
