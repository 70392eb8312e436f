/* The C locale for the calling thread, in which numbers have a decimal point. The locale "C" is static memory in glibc and
 * musl, so newlocale allocates nothing. The macro TH_NO_POSIX leaves out locales. */
#ifndef TH_PLATFORM_LOCALE_H
#define TH_PLATFORM_LOCALE_H

#include <locale.h>
#include <string.h>

#ifdef __APPLE__
#include <xlocale.h>
#endif

/* What th_locale_begin_c has replaced. */
typedef struct th_locale {
#if defined TH_NO_POSIX
    char unused;
#elif defined _WIN32
    int per_thread;
    char numbers[64]; /* the name of the locale of numbers; "" if it stays */
#else
    locale_t c, before; /* c: 0 if it could not be made */
#endif
} th_locale;

/* Sets the C locale for this thread, until th_locale_end_c. */
static inline th_locale th_locale_begin_c(void)
{
    th_locale l;
    memset(&l, 0, sizeof l);
#if defined TH_NO_POSIX
#elif defined _WIN32
    l.per_thread = _configthreadlocale(_ENABLE_PER_THREAD_LOCALE);
    const char *const name = setlocale(LC_NUMERIC, NULL);
    if (name && strcmp(name, "C") != 0 && strlen(name) < sizeof l.numbers) {
        strcpy(l.numbers, name);
        setlocale(LC_NUMERIC, "C");
    }
#else
    l.c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    l.before = l.c ? uselocale(l.c) : (locale_t)0;
#endif
    return l;
}

static inline void th_locale_end_c(const th_locale *l)
{
#if defined TH_NO_POSIX
    (void)l;
#elif defined _WIN32
    if (l->numbers[0])
        setlocale(LC_NUMERIC, l->numbers);
    _configthreadlocale(l->per_thread);
#else
    if (l->c) {
        uselocale(l->before);
        freelocale(l->c);
    }
#endif
}

#endif
