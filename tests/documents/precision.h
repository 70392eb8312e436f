/* The declarations that the pieces of C in precision.md use. */
#include <stdio.h>
#include <tapehead/tapehead.h>

int report(const char *sentence);
