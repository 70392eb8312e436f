/* graph_seeds [--seed N] [--count M] [--keep-going] [--print]: checks M random programs, of seeds N, N + 1, ... It
 * prints the smallest description of a program that fails, and exits with 1. --keep-going checks the other ones too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "kinds.h"

enum { BYTES = 700 };

static size_t random_bytes(uint64_t seed, uint8_t *bytes)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < BYTES; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        bytes[i] = (uint8_t)(state * 0x2545f4914f6cdd1du >> 56);
    }
    return BYTES;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, count = 100;
    bool keep_going = false, print = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc)
            count = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--keep-going") == 0)
            keep_going = true;
        else if (strcmp(argv[i], "--print") == 0)
            print = true;
        else {
            fprintf(stderr, "usage: %s [--seed N] [--count M] [--keep-going] [--print]\n", argv[0]);
            return 2;
        }
    }
    static program p;
    static uint8_t bytes[BYTES];
    uint64_t findings = 0, lines = 0, refused = 0;
    const clock_t start = clock();
    for (uint64_t i = 0; i < count; i++) {
        finding f;
        program_decode(&p, bytes, random_bytes(seed + i, bytes));
        if (print)
            program_print(&p, stdout), fflush(stdout);
        const bool ok = check_program(&p, &f);
        lines += (uint64_t)p.lines;
        for (int k = 0; k < p.lines; k++)
            refused += p.line[k].dropped;
        if (ok)
            continue;
        minimize(&p, &f);
        printf("seed %llu, after %llu programs and %.1f s\n", (unsigned long long)(seed + i),
               (unsigned long long)(i + 1), (double)(clock() - start) / CLOCKS_PER_SEC);
        program_print(&p, stdout);
        printf("%s: %s\n\n", f.check, f.text);
        fflush(stdout);
        findings++;
        if (!keep_going)
            return 1;
    }
    printf("%llu programs, %llu lines, of which %llu were refused; %llu findings, %.1f s\n", (unsigned long long)count,
           (unsigned long long)lines, (unsigned long long)refused, (unsigned long long)findings,
           (double)(clock() - start) / CLOCKS_PER_SEC);
    return findings > 0;
}
