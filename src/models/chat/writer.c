/* Pieces of a conversation: appending to the text, tokens and the date, white space. */
#include <string.h>
#include <time.h>

#include "models/chat/writer.h"
#include "models/core/files.h"
#include "models/text/characters.h"
#include "models/text/grow.h"

bool th_chat_append(th_text *text, const char *bytes, size_t count)
{
    if (count > PTRDIFF_MAX - 1 - text->count || !TH_GROW(text->bytes, text->capacity, text->count + count + 1))
        return false;
    if (count > 0)
        memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    text->bytes[text->count] = 0;
    return true;
}

void th_chat_text_free(th_chat_text *text)
{
    th_text_free(&text->text);
    free(text->span);
    *text = (th_chat_text){0};
}

bool th_chat_has_rule(const th_chat_writer *w, th_chat_rule rule)
{
    return (w->kind->rules & (unsigned)rule) != 0;
}

/* -- pieces of text -- */

void th_chat_put_string(th_chat_writer *w, th_chat_string p)
{
    w->failed |= !th_chat_append(&w->to->text, p.at, p.count);
}

void th_chat_put_today(th_chat_writer *w, bool whole_month)
{
    static const char *const month[] = {"January", "February", "March",     "April",   "May",      "June",
                                        "July",    "August",   "September", "October", "November", "December"};
    char text[40] = "";
    const time_t now = time(NULL);
    struct tm day;
    if (localtime_r(&now, &day))
        snprintf(text, sizeof text, "%02d %.*s %04d", day.tm_mday, whole_month ? 9 : 3, month[day.tm_mon],
                 day.tm_year + 1900);
    th_chat_put_string(w, (th_chat_string){text, strlen(text)});
}

static void put_date(th_chat_writer *w)
{
    static const char usual[] = "26 Jul 2024"; /* the template's own date */
    if (th_chat_has_rule(w, TH_CHAT_TODAY))
        th_chat_put_today(w, false);
    else
        th_chat_put_string(w, (th_chat_string){usual, sizeof usual - 1});
}

void th_chat_put_template_text(th_chat_writer *w, const char *text)
{
    for (; text && *text; text++)
        if (*text == TH_BOS[0])
            th_chat_put_string(w, (th_chat_string){w->chat->bos, strlen(w->chat->bos)});
        else if (*text == TH_EOS[0])
            th_chat_put_string(w, (th_chat_string){w->chat->eos, strlen(w->chat->eos)});
        else if (*text == TH_DAY[0])
            put_date(w);
        else
            th_chat_put_string(w, (th_chat_string){text, 1});
}

/* -- white space -- */

th_chat_string th_chat_trim(th_chat_string p)
{
    for (size_t n; (n = th_white_space_length(p.at, p.count)) > 0; p.count -= n)
        p.at += n;
    for (bool again = true; again;) {
        again = false;
        for (size_t n = 1; n <= 3 && n <= p.count && !again; n++)
            if (th_white_space_length(p.at + p.count - n, n) == n) {
                p.count -= n;
                again = true;
            }
    }
    return p;
}

th_chat_string th_chat_content(const th_chat_writer *w, const th_chat_message *message)
{
    const th_chat_string all = {message->content, strlen(message->content)};
    const bool system = strcmp(message->role, "system") == 0, answer = strcmp(message->role, "assistant") == 0;
    const bool trims = th_chat_has_rule(w, TH_CHAT_TRIMS) && !(system && th_chat_has_rule(w, TH_CHAT_SYSTEM_AS_IS));
    return trims || (answer && th_chat_has_rule(w, TH_CHAT_TRIMS_ANSWER)) ? th_chat_trim(all) : all;
}
