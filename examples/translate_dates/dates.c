/* Dates in many formats. Four rules make each text unambiguous. With dots, the day comes first. With slashes, the month
 * comes first, unless a year of four digits does. Eight digits are year, month, day. A year of two digits is from 1969
 * to 2068. */
#include "dates.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* %d day, %D day in two digits, %o 3rd; %m and %M month, %b its name; %Y year, %y its last two digits; %a weekday.
 * Random choices: names are cut to three letters, with or without a full stop, and all letters are mixed, lower or
 * upper case. */
static const char *const formats[] = {
    "%d %b %Y",           /* 3 May 2001 */
    "%b %d, %Y",          /* May 3, 2001 */
    "%b %d, %y",          /* May 3, 01 */
    "%b %o, %Y",          /* May 3rd, 2001 */
    "%d %b '%y",          /* 3 May '01 */
    "%o of %b %Y",        /* 3rd of May 2001 */
    "the %o of %b, %Y",   /* the 3rd of May, 2001 */
    "%a %d %b %Y",        /* Thu 3 May 2001 */
    "%a, %b %o %Y",       /* Thursday, May 3rd 2001 */
    "%a the %o of %b %Y", /* Thursday the 3rd of May 2001 */
    "%Y %b %d",           /* 2001 May 3 */
    "%D-%b-%y",           /* 03-May-01 */
    "%D%b%Y",             /* 03MAY2001 */
    "%d.%m.%Y",           /* 3.5.2001 */
    "%D.%M.%y",           /* 03.05.01 */
    "%m/%d/%Y",           /* 5/3/2001 */
    "%M/%D/%y",           /* 05/03/01 */
    "%Y/%m/%d",           /* 2001/5/3 */
    "%Y%M%D",             /* 20010503 */
};
enum { FORMATS = sizeof formats / sizeof *formats, FIRST_YEAR = 1969, DAYS = 100 * 365 + 25 };

typedef struct {
    int year, month, day, weekday; /* month and day from 1, weekday from 0 on, a Sunday */
} date;

static date date_from_days(int number) /* days since 1 January 1969, a Wednesday */
{
    date d = {.year = FIRST_YEAR, .month = 1, .weekday = (number + 3) % 7};
    for (;;) {
        const bool short_month = d.month == 4 || d.month == 6 || d.month == 9 || d.month == 11;
        const int days = d.month == 2 ? 28 + (d.year % 4 == 0) : 31 - short_month; /* 2000 was a leap year, too */
        if (number < days)
            break;
        number -= days;
        d.year += d.month == 12;
        d.month = d.month % 12 + 1;
    }
    d.day = number + 1;
    return d;
}

static const char *ordinal_ending(int n)
{
    static const char *const endings[] = {"th", "st", "nd", "rd"};
    return endings[n / 10 != 1 && n % 10 < 4 ? n % 10 : 0];
}

/* The random choices besides the day and the format. */
typedef struct {
    bool cut, full_stop;
    int letters; /* 0 mixed, 1 lower case, 2 upper case */
} text_style;

/* Writes the part of a date that a letter of the format selects. Returns its length. */
static int write_field(char *text, size_t size, date d, char letter, text_style m)
{
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
    switch (letter) {
    case 'd':
        return snprintf(text, size, "%d", d.day);
    case 'D':
        return snprintf(text, size, "%02d", d.day);
    case 'o':
        return snprintf(text, size, "%d%s", d.day, ordinal_ending(d.day));
    case 'm':
        return snprintf(text, size, "%d", d.month);
    case 'M':
        return snprintf(text, size, "%02d", d.month);
    case 'Y':
        return snprintf(text, size, "%d", d.year);
    case 'y':
        return snprintf(text, size, "%02d", d.year % 100);
    default: {
        const char *name = letter == 'b' ? months[d.month - 1] : days[d.weekday];
        const bool cut = m.cut && strlen(name) > 3; /* May stays May */
        return snprintf(text, size, "%.*s%s", cut ? 3 : 9, name, cut && m.full_stop ? "." : "");
    }
    }
}

void draw_date(rng *r, bool held_out, char text[DATE_SIZE], char iso[ISO_SIZE])
{
    int number;
    do
        number = rng_below(r, DAYS);
    while ((number % 10 == 0) != held_out);
    const date d = date_from_days(number);
    snprintf(iso, ISO_SIZE, "%04u-%02u-%02u", (unsigned)d.year % 10000, (unsigned)d.month % 100, (unsigned)d.day % 100);

    const text_style m = {.cut = rng_below(r, 2), .full_stop = rng_below(r, 2), .letters = rng_below(r, 3)};
    int length = 0;
    for (const char *f = formats[rng_below(r, FORMATS)]; *f; f++) {
        const size_t size = (size_t)(DATE_SIZE - length);
        length += *f == '%' ? write_field(text + length, size, d, *++f, m) : snprintf(text + length, size, "%c", *f);
    }
    for (char *at = text; *at; at++)
        *at = (char)(m.letters == 1 ? tolower(*at) : m.letters == 2 ? toupper(*at) : *at);
}
