/* What precision.md's pieces of C leave to the reader. */
#include <stdio.h>
#include <tapehead/tapehead.h>

int report(const char *sentence);
