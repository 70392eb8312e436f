/* AMX's instructions on processors that have none, for tests: where one would end the program (SIGILL), a handler reads
 * the instruction, does what Intel's manual says it does, on tiles of the thread's own, and lets the program go on
 * behind it.
 *
 * What a processor would refuse (tiles that are not configured, shapes that do not match, a bit that must be 0) ends
 * the program with a sentence. Understood are ldtilecfg, sttilecfg, tilerelease, tilezero, tileloadd, tileloaddt1,
 * tilestored and tdpbf16ps, in every encoding but those with a prefix for a segment or for addresses of 32 bits. The
 * handler calls nothing that allocates or locks, and its state is the thread's; AddressSanitizer sees what a tile is
 * loaded from. A processor's own instructions are never interpreted. An interpreted one takes microseconds (less in a
 * row of them): speed is not to be tested. */
#ifndef TESTS_TILE_INTERPRETER_H
#define TESTS_TILE_INTERPRETER_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the instructions usable in this process, its threads and its children: asks for permission where the processor
 * has them, otherwise installs the interpreter. False, after printing a sentence, where neither is possible. */
bool tiles_start(void);

/* Whether they are interpreted, after tiles_start. */
bool tiles_interpreted(void);

/* Whether tiles are configured: interpreted, in any thread; in a processor, in the calling thread. */
bool tiles_configured(void);

/* How many instructions were interpreted, in all threads. */
int64_t tiles_instructions(void);

#endif
