/* The table of merges, and merging the tokens of a word, compared with the definition of byte-pair encoding: search all
 * pairs, apply the earliest merge to the leftmost of them, and begin again. Words are shorter and longer than those
 * that are merged by search. */
#include <stdlib.h>
#include <string.h>

#include "models/text/merges.h"
#include "models/text/pair_queue.h"
#include "suite.h"

enum { LONGEST = 400 };

static th_merges merges;
static th_word_memory word;

static void setup(void)
{
    merges = (th_merges){0};
    word = (th_word_memory){.token = malloc(LONGEST * sizeof(int32_t)), .capacity = LONGEST};
}

static void teardown(void)
{
    th_merges_release(&merges);
    th_word_memory_release(&word);
}

static int32_t draw(int32_t below)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((state >> 33) % (uint64_t)below);
}

static void add(int32_t left, int32_t right, int32_t result)
{
    ck_assert(th_merges_add(&merges, (th_merge){left, right, result}));
}

/* Applies the merge of rank `rank` to the first pair of its kind. Returns whether there is one. */
static bool apply_first(const th_merge *merge, int32_t *token, size_t *count)
{
    for (size_t i = 0; i + 1 < *count; i++)
        if (token[i] == merge->left && token[i + 1] == merge->right) {
            token[i] = merge->result;
            memmove(token + i + 1, token + i + 2, (*count - i - 2) * sizeof *token);
            --*count;
            return true;
        }
    return false;
}

/* The definition. */
static size_t merge_simply(int32_t *token, size_t count)
{
    size_t rank = 0;
    while (rank < merges.count) {
        if (th_merges_is_valid(&merges, rank) && apply_first(&merges.merge[rank], token, &count))
            rank = 0;
        else
            rank++;
    }
    return count;
}

static void expect_the_definition(const int32_t *token, size_t count)
{
    static int32_t expected[LONGEST];
    memcpy(expected, token, count * sizeof *token);
    memcpy(word.token, token, count * sizeof *token);
    const size_t wanted = merge_simply(expected, count);
    size_t left;
    ck_assert(th_merges_apply(&merges, &word, count, &left));
    ck_assert_msg(left == wanted, "%zu tokens become %zu, not %zu", count, left, wanted);
    for (size_t i = 0; i < left; i++)
        ck_assert_msg(word.token[i] == expected[i], "token %zu of %zu is %d, not %d", i, left, (int)word.token[i],
                      (int)expected[i]);
}

/* -- the table -- */

/* Pairs keep their ranks and results while the table grows, and at most half of its slots are in use. */
START_TEST(a_table_grows)
{
    enum { PAIRS = 3000 };
    size_t left;
    word.token[0] = word.token[1] = 0;
    ck_assert(th_merges_apply(&merges, &word, 2, &left) && left == 2);
    for (int i = 0; i < PAIRS; i++) {
        add(i, 2 * i, 10000 + i);
        ck_assert_uint_eq(merges.pairs, (size_t)i + 1);
        ck_assert_msg(2 * merges.pairs <= merges.slots, "%zu pairs in %zu slots", merges.pairs, merges.slots);
        ck_assert_uint_le(merges.slots, merges.pairs <= 512 ? 1024 : 4 * merges.pairs);
    }
    for (int i = 0; i < PAIRS; i++) {
        ck_assert(th_merges_is_valid(&merges, (size_t)i));
        word.token[0] = i;
        word.token[1] = 2 * i;
        ck_assert(th_merges_apply(&merges, &word, 2, &left) && left == 1 && word.token[0] == 10000 + i);
        word.token[0] = i;
        word.token[1] = 2 * i + 1;
        ck_assert(th_merges_apply(&merges, &word, 2, &left) && left == 2);
    }
}
END_TEST

/* Replaced merges are removed when the array is full and they are more than half of it, and only then: so each removal
 * costs less than the additions before it. */
START_TEST(replaced_merges_are_removed)
{
    for (int i = 0; i < 16; i++)
        add(i < 15 ? 1 : 2, 3, 4 + i);
    ck_assert(merges.count == 16 && merges.capacity == 16 && merges.pairs == 2);
    add(5, 6, 40);
    ck_assert(merges.count == 3 && merges.capacity == 16 && merges.pairs == 3);
    static const th_merge kept[] = {{1, 3, 18}, {2, 3, 19}, {5, 6, 40}};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_mem_eq(&merges.merge[i], &kept[i], sizeof kept[i]);
        ck_assert(th_merges_is_valid(&merges, i));
    }
    th_merges_release(&merges);
    for (int i = 0; i < 16; i++)
        add(i % 8, 9, 10);
    add(9, 9, 10);
    ck_assert(merges.count == 17 && merges.capacity > 16);
    for (size_t i = 0; i < 17; i++)
        ck_assert_int_eq(th_merges_is_valid(&merges, i), i >= 8);
}
END_TEST

/* -- training -- */

static void add_word(th_pair_queue *q, const char *letters, int64_t times)
{
    ck_assert(th_pair_queue_add_word(q, times));
    for (const char *letter = letters; *letter; letter++)
        ck_assert(th_pair_queue_add_token(q, *letter));
}

/* The words of a pair are listed once each, in order, and only while the pair occurs. */
START_TEST(a_pair_lists_its_words_once)
{
    th_pair_queue q = {0};
    int32_t left, right;
    add_word(&q, "ababab", 2);
    add_word(&q, "x", 9);
    add_word(&q, "abcb", 3);
    ck_assert(th_pair_queue_begin(&q));
    ck_assert_uint_eq(q.queued, 4); /* ab ba bc cb */
    ck_assert(th_pair_queue_next(&q, 9, &left, &right));
    ck_assert(left == 'a' && right == 'b' && q.current.times == 9 && q.current.words.count == 2);
    ck_assert(q.current.words.word[0] == 0 && q.current.words.word[1] == 2);
    ck_assert(th_pair_queue_merge(&q, 256, NULL, 0)); /* XXX Xcb */
    ck_assert(q.word[0].count == 3 && q.word[1].count == 1 && q.word[2].count == 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(q.token[i], 256);
    ck_assert(q.token[7] == 256 && q.token[8] == 'c' && q.token[9] == 'b');
    ck_assert(!th_pair_queue_next(&q, 5, &left, &right));
    th_pair_queue_release(&q);
    ck_assert(q.token == NULL && q.queued == 0);
}
END_TEST

/* -- runs of one letter -- */

/* "aaa" is "aa" and "a": of equal pairs that overlap, the left one is merged. Merges of "aa" with "aa" and "a". */
START_TEST(runs_are_merged_from_the_left)
{
    static int32_t token[LONGEST];
    add(0, 0, 1);
    for (int kind = 0; kind < 4; kind++) {
        if (kind == 1)
            add(1, 0, 2);
        if (kind == 2)
            add(1, 1, 3);
        if (kind == 3)
            add(0, 1, 4);
        for (size_t count = 0; count <= 130; count++)
            expect_the_definition(token, count);
    }
    word.token[0] = word.token[1] = word.token[2] = 0;
    th_merges_release(&merges);
    add(0, 0, 1);
    size_t left;
    ck_assert(th_merges_apply(&merges, &word, 3, &left));
    ck_assert(left == 2 && word.token[0] == 1 && word.token[1] == 0);
}
END_TEST

/* Runs within other letters, at the beginning, in the middle and at the end of a word. */
START_TEST(runs_within_a_word)
{
    static const size_t lengths[] = {8, 46, 47, 48, 49, 50, 90};
    add(0, 0, 10);
    add(10, 0, 11);
    add(5, 0, 12);
    add(0, 5, 13);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t run = 1; run < 8; run++)
            for (size_t at = 0; at + run <= lengths[l]; at += at < 3 || at + run + 4 > lengths[l] ? 1 : 5) {
                int32_t token[LONGEST];
                for (size_t i = 0; i < lengths[l]; i++)
                    token[i] = i >= at && i < at + run ? 0 : 5;
                expect_the_definition(token, lengths[l]);
            }
}
END_TEST

/* -- merges that take away a token of a pair that waits -- */

START_TEST(a_pair_whose_token_is_merged_is_not_merged)
{
    /* "abc": "bc" is merged first, and "ab" then does not exist; "a" and "bc" are merged next, "ab" and "c" are not */
    add(1, 2, 10);
    add(0, 1, 11);
    add(11, 2, 12);
    add(0, 10, 13);
    add(10, 0, 14);
    /* the result of a merge is the left token of a pair of the same rank as before */
    add(20, 20, 20);
    add(20, 21, 20);
    add(21, 22, 23);
    for (size_t count = 3; count <= 120; count++) {
        int32_t token[LONGEST];
        for (size_t i = 0; i < count; i++)
            token[i] = (int32_t)(i % 3);
        expect_the_definition(token, count);
        for (size_t i = 0; i < count; i++)
            token[i] = (int32_t)(20 + i * i % 3 % 3);
        expect_the_definition(token, count);
        for (size_t i = 0; i < count; i++)
            token[i] = (int32_t)(i / 3 % 2 ? 20 + i % 3 : i % 3);
        expect_the_definition(token, count);
    }
}
END_TEST

/* -- random merges -- */

/* Adds merges of random tokens, as training makes them: of letters and of results of earlier merges. Some results have
 * several pairs, some pairs occur twice, and some merges are listed before those that make their tokens. */
static void add_random_merges(int32_t letters, int count)
{
    for (int i = 0; i < count; i++) {
        const int32_t known = letters + (draw(4) ? i : count);
        add(draw(known), draw(draw(2) ? letters : known), letters + (draw(8) ? i : draw(count)));
    }
}

/* Words of few letters have many pairs of equal rank. */
START_TEST(random_merges_of_random_words)
{
    for (int round = 0; round < 40; round++) {
        const int32_t letters = 1 + draw(4);
        add_random_merges(letters, 1 + draw(30));
        for (int i = 0; i < 25; i++) {
            int32_t token[LONGEST];
            const size_t count = (size_t)(i < 10 ? draw(49) : i < 20 ? 40 + draw(20) : 60 + draw(200));
            for (size_t t = 0; t < count; t++)
                token[t] = draw(letters + (draw(20) == 0)); /* rarely one that no merge has at first */
            expect_the_definition(token, count);
        }
        th_merges_release(&merges);
    }
}
END_TEST

/* The memory of a word is used again for the next one, shorter or longer. */
START_TEST(words_do_not_depend_on_earlier_ones)
{
    static const size_t counts[] = {200, 60, 3, 300, 49, 48, 399, 50};
    add_random_merges(3, 25);
    for (int round = 0; round < 5; round++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            int32_t token[LONGEST];
            for (size_t t = 0; t < counts[c]; t++)
                token[t] = draw(3);
            expect_the_definition(token, counts[c]);
        }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("merges", setup, teardown);
    tcase_add_test(tests, a_table_grows);
    tcase_add_test(tests, replaced_merges_are_removed);
    tcase_add_test(tests, a_pair_lists_its_words_once);
    tcase_add_test(tests, runs_are_merged_from_the_left);
    tcase_add_test(tests, runs_within_a_word);
    tcase_add_test(tests, a_pair_whose_token_is_merged_is_not_merged);
    tcase_add_test(tests, random_merges_of_random_words);
    tcase_add_test(tests, words_do_not_depend_on_earlier_ones);
    return run_suites();
}
