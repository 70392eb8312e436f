/* Runs AMX's instructions on processors without them, for tests. Such an instruction ends a program (SIGILL). A handler
 * decodes it, executes it according to Intel's manual on tiles of the thread, and the program continues after it.
 *
 * An instruction that a processor would refuse (tiles not configured, shapes that do not match, a reserved bit set)
 * ends the program with a message. Supported: ldtilecfg, sttilecfg, tilerelease, tilezero, tileloadd, tileloaddt1,
 * tilestored and tdpbf16ps, in every encoding except prefixes for a segment or for addresses of 32 bits. The handler
 * does not allocate or lock, and its state is thread-local. AddressSanitizer checks the memory that tiles are loaded
 * from. Instructions that the processor has are never interpreted. An interpreted instruction takes microseconds (less
 * in a row of them), so do not measure speed. */
#ifndef TESTS_TILE_INTERPRETER_H
#define TESTS_TILE_INTERPRETER_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the instructions usable in this process, its threads and its children. Requests permission if the processor has
 * them, otherwise installs the interpreter. Returns false, after printing a message, if neither is possible. */
bool tiles_start(void);

/* Whether the instructions are interpreted, after tiles_start. */
bool tiles_interpreted(void);

/* Whether tiles are configured: in any thread if they are interpreted, otherwise in the calling thread. */
bool tiles_configured(void);

/* The number of interpreted instructions, in all threads. */
int64_t tiles_instructions(void);

#endif
