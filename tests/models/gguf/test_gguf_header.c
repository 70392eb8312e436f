/* The bytes of GGUF headers: where they may end, the limits of every length and count, the message of every refusal
 * with its numbers, and the conversion of values. The files are in memory, and have no elements. */
#include <math.h>
#include <string.h>

#include "models/gguf/file.h"
#include "tensor/error.h"

#include "folder.h"
#include "gguf_bytes.h"

/* -- the end of a header -- */

static void put_last_value(uint32_t kind)
{
    static const uint8_t sizes[TH_GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    static const char zeros[8];
    put_text("key");
    put32(kind);
    if (kind == TH_GGUF_STRING) {
        put_text("some text");
    } else if (kind == TH_GGUF_ARRAY) {
        put32(TH_GGUF_STRING);
        put64(2);
        put_text("a");
        put_text("bc");
    } else if (kind == TH_GGUF_KINDS) { /* an array of numbers */
        memset(made + bytes - 4, 0, 4);
        made[bytes - 4] = TH_GGUF_ARRAY;
        put32(TH_GGUF_INT16);
        put64(3);
        put("abcdef", 6);
    } else {
        put(zeros, sizes[kind]);
    }
}

/* Checks that the whole file opens, and that no beginning of it does. from: of the last entry. */
static void expect_no_beginning(size_t from)
{
    char sentence[160];
    for (size_t end = 0; end < bytes; end++) {
        ck_assert_msg(!opens(end), "%zu of %zu bytes are a file", end, bytes);
        ck_assert_ptr_null(file.header);
        ck_assert(file.n_values == 0 && file.n_tensors == 0);
        if (end >= from) {
            const char *at = strstr(th_error_text(ctx), "the header continues at byte ");
            snprintf(sentence, sizeof sentence, "m.gguf: the file is truncated: it has %zu bytes, and the header", end);
            ck_assert_msg(at && strstr(th_error_text(ctx), sentence), "%s", th_error_text(ctx));
            const unsigned long place = strtoul(at + 29, NULL, 10);
            ck_assert_msg(place >= from && place <= end, "%s", th_error_text(ctx));
        }
        expect_error(TH_ERROR_FILE, "m.gguf: ");
    }
    expect_opens("the whole file");
}

START_TEST(no_beginning_is_a_header)
{
    for (uint32_t kind = 0; kind <= TH_GGUF_KINDS; kind++) {
        begin_packed(0, 1);
        const size_t from = bytes;
        put_last_value(kind);
        expect_no_beginning(from);
    }
    for (int tensors = 1; tensors <= 2; tensors++) {
        size_t from = 0;
        begin_packed((uint64_t)tensors, 0);
        for (int i = 0; i < tensors; i++) {
            from = bytes;
            put_tensor(i ? "an empty tensor" : "another empty tensor", 0, 0);
        }
        expect_no_beginning(from);
    }
}
END_TEST

START_TEST(headers_without_the_form)
{
    char sentence[200];
    for (uint32_t version = 0; version < 6; version++) {
        begin(version, 0, 0);
        snprintf(sentence, sizeof sentence, "it has version %u of GGUF; 2 and 3 are supported", version);
        if (version == 2 || version == 3)
            expect_opens("a file without entries");
        else
            expect_refused(sentence);
    }
    begin(3, 0, 0);
    bytes = 23;
    expect_refused("it is not a GGUF file: it has 23 bytes");
    begin(3, 0, 0);
    made[0] = 'g';
    expect_refused("it is not a GGUF file: it does not begin with \"GGUF\"");
    begin(3 << 24, 0, 0);
    expect_refused("its numbers are big-endian, which is not supported");
    begin(1 << 16, 0, 0);
    expect_refused("its numbers are big-endian, which is not supported");
    begin((1 << 16) + 1, 0, 0);
    expect_refused("it has version 65537 of GGUF; 2 and 3 are supported");
}
END_TEST

/* A file has at least 33 bytes for each tensor, and 14 for each value. */
START_TEST(numbers_of_entries)
{
    begin(3, 65537, 7);
    expect_refused("it has 65537 tensors and 7 values; at most 65536 and 65536 are allowed");
    begin(3, 7, 65537);
    expect_refused("it has 7 tensors and 65537 values; at most 65536 and 65536 are allowed");
    begin(3, 65536, 7);
    expect_refused("the file is truncated: it has 24 bytes, too few for 65536 tensors and 7 values");
    begin(3, 0, 65536);
    expect_refused("the file is truncated: it has 24 bytes, too few for 0 tensors and 65536 values");
    begin(3, 0, 1);
    put("123", 3);
    expect_refused("the file is truncated: it has 27 bytes, and the header continues at byte 24");
    begin(3, 0, 2);
    put("123", 3);
    expect_refused("the file is truncated: it has 27 bytes, too few for 0 tensors and 2 values");
    put("4", 1);
    expect_refused("the file is truncated: it has 28 bytes, and the header continues at byte 24");
    begin(3, 1, 0);
    put("12345678", 8);
    expect_refused("the file is truncated: it has 32 bytes, too few for 1 tensors and 0 values");
    put("9", 1);
    expect_refused("a name of a tensor has 4050765991979987505 bytes; 1 to 256 are allowed");
}
END_TEST

/* -- names -- */

/* Names and keys have 1 to 256 bytes. */
START_TEST(lengths_of_names)
{
    static const int lengths[] = {0, 1, 2, 255, 256, 257, 300};
    char name[301], sentence[160];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int tensor = 0; tensor < 2; tensor++) {
            memset(name, 'n', sizeof name);
            name[lengths[i]] = 0;
            begin_packed((uint64_t)tensor, (uint64_t)!tensor);
            if (tensor)
                put_tensor(name, 0, 0);
            else
                put_value(name, TH_GGUF_UINT8, "\7", 1);
            snprintf(sentence, sizeof sentence, "a %s has %d bytes; 1 to 256 are allowed",
                     tensor ? "name of a tensor" : "key", lengths[i]);
            if (lengths[i] < 1 || lengths[i] > 256) {
                expect_refused(sentence);
                continue;
            }
            ck_assert_msg(opens(bytes), "%s", th_error_message(ctx));
            ck_assert_int_eq(th_gguf_find_tensor(&file, name) != NULL, tensor);
            ck_assert_int_eq(th_gguf_find(&file, name) != NULL, !tensor);
            th_gguf_close(&file);
        }
    begin_packed(0, 1);
    put_value("a?b", TH_GGUF_UINT8, "\7", 1);
    *(char *)memchr(made, '?', bytes) = 0;
    expect_refused("a key has a NUL character");
    begin_packed(1, 0);
    put_tensor("a?b", 0, 0);
    *(char *)memchr(made, '?', bytes) = 0;
    expect_refused("a name of a tensor has a NUL character");
}
END_TEST

/* -- values -- */

START_TEST(values_without_a_type)
{
    const uint64_t most = TH_GGUF_MAX_HEADER;
    begin_packed(0, 1);
    put_value("a.key", TH_GGUF_KINDS, "", 0);
    expect_refused("\"a.key\" has an unknown type 13");
    begin_packed(0, 1);
    put_value("a.key", TH_GGUF_ARRAY, "\x0d\0\0\0", 4);
    expect_refused("\"a.key\" has an unknown type 13");
    begin_packed(0, 1);
    put_value("a.key", TH_GGUF_ARRAY, "\x09\0\0\0\0\0\0\0\0\0\0\0", 12);
    expect_refused("\"a.key\" is an array of arrays");
    for (uint64_t more = 0; more < 2; more++) {
        char sentence[160];
        begin_packed(0, 1);
        put_value("a.key", TH_GGUF_ARRAY, "\0\0\0\0", 4);
        put64(most + more);
        snprintf(sentence, sizeof sentence,
                 "the file is truncated: it has %zu bytes, and the header continues at byte %zu", bytes, bytes);
        expect_refused(more ? "an array has 268435457 elements, too many" : sentence);
    }
    begin_packed(0, 1);
    put_value("a.key", TH_GGUF_STRING, &most, sizeof most);
    ck_assert(!opens(bytes));
    expect_error(TH_ERROR_FILE, "the file is truncated");
}
END_TEST

/* Opens a file with one value, with the key "k". */
static void open_value(uint32_t kind, const void *data, size_t count)
{
    begin_packed(0, 1);
    put_value("k", kind, data, count);
    ck_assert_msg(opens(bytes), "%s", th_error_message(ctx));
}

START_TEST(integers_at_the_ends_of_their_range)
{
    static const int64_t numbers[] = {-3, -2, -1, 4, 5, 6};
    char sentence[100];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t found = 77;
        open_value(TH_GGUF_INT64, &numbers[i], sizeof numbers[i]);
        ck_assert_int_eq(th_gguf_integer(&file, "k", -2, 5, &found), numbers[i] >= -2 && numbers[i] <= 5);
        if (th_failed(ctx)) {
            ck_assert_int_eq(found, 77);
            snprintf(sentence, sizeof sentence, "\"k\" is %d; it must be in [-2, 5]", (int)numbers[i]);
            expect_sentence(sentence);
        } else {
            ck_assert_int_eq(found, numbers[i]);
        }
        found = 77;
        ck_assert(th_gguf_integer(&file, "other", 0, 1, &found) && found == 77);
        th_gguf_close(&file);
    }
    static const uint64_t large[] = {INT64_MAX, UINT64_C(1) << 63};
    for (int i = 0; i < 2; i++) {
        int64_t found = 77;
        open_value(TH_GGUF_UINT64, &large[i], sizeof large[i]);
        ck_assert_int_eq(th_gguf_integer(&file, "k", INT64_MIN, INT64_MAX, &found), i == 0);
        ck_assert_int_eq(found, i == 0 ? INT64_MAX : 77);
        if (i == 1)
            expect_sentence("\"k\" is not an integer");
        th_gguf_close(&file);
    }
}
END_TEST

/* Zero is in every range of reals. */
START_TEST(reals_at_the_ends_of_their_range)
{
    static const double numbers[] = {-1, 0, 0.25, 0.5, 0.75, 63, 64, 65};
    char sentence[100];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const bool right = numbers[i] == 0 || (numbers[i] >= 0.5 && numbers[i] <= 64);
        double found = 77;
        open_value(TH_GGUF_FLOAT64, &numbers[i], sizeof numbers[i]);
        ck_assert_int_eq(th_gguf_real(&file, "k", (th_range){0.5, 64}, &found), right);
        ck_assert_double_eq(found, right ? numbers[i] : 77);
        snprintf(sentence, sizeof sentence, "\"k\" is %g; it must be in [0.5, 64]", numbers[i]);
        if (!right)
            expect_sentence(sentence);
        th_gguf_close(&file);
    }
}
END_TEST

/* A float32 is the shortest decimal number of at most nine digits, from 1e-20 to 1e20; outside it is exact. */
START_TEST(single_reals)
{
    static const struct {
        float single;
        double wanted;
    } reals[] = {
        {1e-5F, 1e-5},
        {-1e-5F, -1e-5},
        {1.1e-19F, 1.1e-19},
        {9.5e19F, 9.5e19},
        {0.1F, 0.1},
        {123456.79F, 123456.79},
        {1.00000012F, 1.0000001},
        {16777216, 16777216},
        {3.4e10F, 3.4e10},
        {9.999999F, 9.999999},
        {9.9e-21F, (double)9.9e-21F},
        {1.1e20F, (double)1.1e20F},
        {0, 0},
        {123456784, 123456780},
    };
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        double found = 77;
        open_value(TH_GGUF_FLOAT32, &reals[i].single, sizeof reals[i].single);
        ck_assert(th_gguf_real(&file, "k", (th_range){-INFINITY, INFINITY}, &found));
        ck_assert_msg(found == reals[i].wanted, "%.9g: %.17g, not %.17g", (double)reals[i].single, found,
                      reals[i].wanted);
        th_gguf_close(&file);
    }
}
END_TEST

/* Each kind of value is read as itself only, and its message names the key and what it should be. */
START_TEST(values_of_another_kind)
{
    static const char *const wanted[] = {
        "an integer",          "a number",          "neither true nor false", "a string",
        "an array of strings", "an array of int32", "an array of float32"};
    for (uint32_t kind = 0; kind < TH_GGUF_KINDS + 1; kind++) {
        begin_packed(0, 1);
        put_last_value(kind);
        ck_assert(opens(bytes));
        const bool integer = kind < TH_GGUF_FLOAT32 || kind == TH_GGUF_UINT64 || kind == TH_GGUF_INT64;
        const bool right[] = {integer,
                              integer || kind == TH_GGUF_FLOAT32 || kind == TH_GGUF_FLOAT64,
                              kind == TH_GGUF_BOOL,
                              kind == TH_GGUF_STRING,
                              kind == TH_GGUF_ARRAY,
                              false,
                              false};
        for (int as = 0; as < 7; as++) {
            static const th_gguf_kind items[] = {TH_GGUF_STRING, TH_GGUF_INT32, TH_GGUF_FLOAT32};
            int64_t integer_found;
            double real_found;
            bool flag_found, read;
            const char *text;
            size_t count;
            char sentence[100];
            switch (as) {
            case 0:
                read = th_gguf_integer(&file, "key", 0, 9, &integer_found);
                break;
            case 1:
                read = th_gguf_real(&file, "key", (th_range){1, 2}, &real_found);
                break;
            case 2:
                read = th_gguf_flag(&file, "key", &flag_found);
                break;
            case 3:
                read = th_gguf_text(&file, "key", &text, &count);
                break;
            default:
                read = th_gguf_array(&file, "key", items[as - 4]) != NULL;
            }
            ck_assert_msg(read == right[as], "%u as %s", kind, wanted[as]);
            snprintf(sentence, sizeof sentence, "\"key\" is %s%s", as == 2 ? "" : "not ", wanted[as]);
            if (!read)
                expect_sentence(sentence);
        }
        ck_assert_int_eq(th_gguf_has_text(&file, "key", "some text"), kind == TH_GGUF_STRING);
        ck_assert(!th_gguf_has_text(&file, "key", "some texts") && !th_gguf_has_text(&file, "key", "some tex"));
        ck_assert(!th_gguf_has_text(&file, "key", "some texT") && !th_gguf_has_text(&file, "keys", "some text"));
        th_gguf_close(&file);
    }
    for (int value = 0; value < 3; value++) {
        bool flag = value == 0;
        open_value(TH_GGUF_BOOL, &value, 1);
        ck_assert_int_eq(th_gguf_flag(&file, "k", &flag), value < 2);
        ck_assert_int_eq(flag, value == 1);
        if (value == 2)
            expect_sentence("\"k\" is neither true nor false");
        th_gguf_close(&file);
    }
}
END_TEST

START_TEST(strings_of_an_array)
{
    size_t count;
    begin_packed(0, 1);
    put_last_value(TH_GGUF_ARRAY);
    ck_assert(opens(bytes));
    const th_gguf_value *v = th_gguf_array(&file, "key", TH_GGUF_STRING);
    ck_assert(v && v->count == 2);
    const char *at = v->bytes, *text = th_gguf_next_string(&at, &count);
    ck_assert(count == 1 && text[0] == 'a');
    text = th_gguf_next_string(&at, &count);
    ck_assert(count == 2 && memcmp(text, "bc", 2) == 0 && at == text + 2);
    ck_assert_ptr_null(th_gguf_array(&file, "keys", TH_GGUF_STRING));
    no_error();
    th_gguf_close(&file);
}
END_TEST

/* -- tensors -- */

/* A file with one tensor: the axes, its sizes from the last axis on, its type and offset. */
static void make_tensor(uint32_t axes, const uint64_t *sizes, uint32_t type, uint64_t offset)
{
    begin_packed(1, 0);
    put_text("t");
    put32(axes);
    put(sizes, axes * sizeof *sizes);
    put32(type);
    put64(offset);
}

START_TEST(shapes_of_tensors)
{
    static const uint64_t sizes[5] = {3, 0, 2, 5, 7};
    char sentence[160];
    for (uint32_t axes = 0; axes <= 5; axes++) {
        make_tensor(axes, sizes, 0, 0);
        snprintf(sentence, sizeof sentence, "t has %u axes; 1 to 4 are allowed", axes);
        if (axes < 1 || axes > 4) {
            expect_refused(sentence);
        } else if (axes > 1) {
            ck_assert(opens(bytes));
            ck_assert_int_eq(file.tensor[0].shape.ndim, (int)axes);
            for (uint32_t i = 0; i < axes; i++)
                ck_assert_int_eq(file.tensor[0].shape.size[axes - 1 - i], (int64_t)sizes[i]);
            th_gguf_close(&file);
        }
    }
    /* the largest size of an axis, one more, and too many numbers */
    const uint64_t large[3][4] = {{0, INT64_MAX / 8}, {0, INT64_MAX / 8 + 1}, {1 << 30, 1 << 30, 1 << 30, 1}};
    make_tensor(2, large[0], 0, 0);
    expect_opens("the largest size");
    make_tensor(2, large[1], 0, 0);
    expect_refused("t is too large");
    make_tensor(4, large[2], 0, 0);
    expect_refused("t is too large: (1, 1073741824, 1073741824, 1073741824)");
    const uint64_t row[2] = {33, 2};
    make_tensor(2, row, 8, 0);
    expect_refused("t is (2, 33), but rows of Q8_0 are multiples of 32 numbers");
    make_tensor(2, row, 4, 0);
    expect_refused("t has the type 4, which is not known");
}
END_TEST

START_TEST(places_of_tensors)
{
    const uint64_t one[1] = {1};
    char sentence[160];
    make_tensor(1, one, 0, 0);
    snprintf(sentence, sizeof sentence, "the file is truncated: it has %zu bytes, and t needs 4 from byte %zu on",
             bytes, bytes);
    expect_refused(sentence);
    put("abc", 3);
    const size_t end = bytes - 3;
    snprintf(sentence, sizeof sentence, "the file is truncated: it has %zu bytes, and t needs 4 from byte %zu on",
             bytes, end);
    expect_refused(sentence);
    put("d", 1);
    expect_opens("4 bytes");
    make_tensor(1, one, 0, (uint64_t)bytes - 3);
    snprintf(sentence, sizeof sentence, "t begins at byte %zu of the elements, but the file has only %zu bytes",
             end + 1, end);
    expect_refused(sentence);
    make_tensor(1, one, 0, (uint64_t)end);
    snprintf(sentence, sizeof sentence, "the file is truncated: it has %zu bytes, and t needs 4 from byte %zu on", end,
             2 * end);
    expect_refused(sentence);
}
END_TEST

START_TEST(tensors_that_overlap)
{
    begin_packed(2, 0);
    put_tensor("first", 2, 0);
    put_tensor("second", 1, 7);
    put("12345678901", 11);
    expect_refused("second overlaps the tensor before it");
    made[bytes - 11 - 8] = 8;
    put("2", 1);
    expect_opens("two tensors");
    begin(3, 1, 0);
    put_tensor("t", 1, 4);
    put("12345678901234567890123456789012345678901234567890", 50);
    expect_refused("t begins at byte 4 of the elements, which is not a multiple of 32");
}
END_TEST

/* Tensors without elements may begin where others do, whatever their order. */
START_TEST(empty_tensors_beside_others)
{
    static const char *const names[3] = {"a", "b", "c"};
    for (int full = 0; full < 3; full++) {
        begin_packed(3, 0);
        for (int i = 0; i < 3; i++)
            put_tensor(names[i], i == full, 0);
        put("abcd", 4);
        expect_opens("empty tensors");
        for (int other = 0; other < 3; other++) { /* two of the same name */
            if (other == full)
                continue;
            begin_packed(3, 0);
            for (int i = 0; i < 3; i++)
                put_tensor(names[i == other ? full : i], 0, 0);
            char sentence[60];
            snprintf(sentence, sizeof sentence, "the tensor %s occurs twice", names[full]);
            expect_refused(sentence);
        }
    }
}
END_TEST

/* The alignment is a power of two up to 2^20, and an integer. */
START_TEST(alignments)
{
    static const struct {
        uint32_t alignment, kind;
        const char *sentence; /* NULL: none */
    } cases[] = {
        {1, TH_GGUF_UINT32, NULL},
        {16, TH_GGUF_INT32, NULL},
        {1 << 20, TH_GGUF_UINT32, NULL},
        {0, TH_GGUF_UINT32, "\"general.alignment\" is 0; it must be in [1, 1048576]"},
        {(1 << 20) + 1, TH_GGUF_UINT32, "\"general.alignment\" is 1048577; it must be in [1, 1048576]"},
        {3, TH_GGUF_UINT32, "general.alignment is 3, which is not a power of two"},
        {8, TH_GGUF_FLOAT32, "\"general.alignment\" is not an integer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(3, 0, 1);
        put_value("general.alignment", cases[i].kind, &cases[i].alignment, 4);
        if (cases[i].sentence)
            expect_refused(cases[i].sentence);
        else
            expect_opens("an alignment");
    }
}
END_TEST

START_TEST(keys_that_occur_twice)
{
    static const char *const keys[3] = {"a", "b", "h"}; /* general.alignment is between b and h */
    for (int i = 0; i < 3; i++) {
        char sentence[60];
        begin_packed(0, 4);
        for (int j = 0; j < 4; j++)
            put_value(keys[j < 3 ? j : i], TH_GGUF_UINT8, "\7", 1);
        snprintf(sentence, sizeof sentence, "the key \"%s\" occurs twice", keys[i]);
        expect_refused(sentence);
    }
}
END_TEST

/* The descriptor 0 is as good as another, and closed again. */
START_TEST(a_file_as_standard_input)
{
    begin_packed(1, 0);
    put_tensor("t", 1, 0);
    put("abcd", 4);
    make_folder();
    write_bytes(in_folder("a.gguf"), made, bytes);
    close(STDIN_FILENO);
    char read[4];
    ck_assert_msg(th_gguf_open(&file, ctx, "test", in_folder("a.gguf")), "%s", th_error_message(ctx));
    ck_assert_int_eq(file.descriptor, 0);
    ck_assert_int_eq(th_gguf_read(&file, file.tensor, read), TH_OK);
    ck_assert_mem_eq(read, "abcd", 4);
    ck_assert_int_eq(truncate(in_folder("a.gguf"), (off_t)bytes - 2), 0);
    ck_assert_int_eq(th_gguf_read(&file, file.tensor, read), TH_ERROR_FILE);
    char words[80];
    snprintf(words, sizeof words, "a.gguf: the file ends at byte %zu, but something is missing there", bytes - 2);
    expect_error(TH_ERROR_FILE, words);
    th_gguf_close(&file);
    th_gguf_close(&file);
    ck_assert_int_eq(next_descriptor(), 0);
    remove_folder();
}
END_TEST

/* Without memory the error is TH_ERROR_MEMORY, and nothing stays open: with the bytes, or with a file of them. */
START_TEST(no_memory)
{
    begin_packed(1, 0);
    put_tensor("t", 0, 0);
    make_folder();
    write_bytes(in_folder("a.gguf"), made, bytes);
    const int descriptor = next_descriptor();
    for (int of_file = 0; of_file < 2; of_file++) {
        bool opened = false;
        for (int64_t n = 1; !opened; n++) {
            memory.calls = 0;
            memory.fail_at = n;
            opened = of_file ? th_gguf_open(&file, ctx, "test", in_folder("a.gguf")) : opens(bytes);
            ck_assert_int_eq(th_error_code(ctx), opened ? TH_OK : TH_ERROR_MEMORY);
            if (!opened) {
                ck_assert_ptr_null(file.value);
                ck_assert_ptr_null(file.tensor);
                expect_error(TH_ERROR_MEMORY, "test");
                ck_assert_int_eq(next_descriptor(), descriptor);
            }
            ck_assert_int_lt(n, 9);
        }
        memory.fail_at = 0;
        th_gguf_close(&file);
    }
    remove_folder();
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("gguf_header", setup, teardown);
    tcase_add_test(tests, no_beginning_is_a_header);
    tcase_add_test(tests, headers_without_the_form);
    tcase_add_test(tests, numbers_of_entries);
    tcase_add_test(tests, lengths_of_names);
    tcase_add_test(tests, values_without_a_type);
    tcase_add_test(tests, integers_at_the_ends_of_their_range);
    tcase_add_test(tests, reals_at_the_ends_of_their_range);
    tcase_add_test(tests, single_reals);
    tcase_add_test(tests, values_of_another_kind);
    tcase_add_test(tests, strings_of_an_array);
    tcase_add_test(tests, shapes_of_tensors);
    tcase_add_test(tests, places_of_tensors);
    tcase_add_test(tests, tensors_that_overlap);
    tcase_add_test(tests, empty_tensors_beside_others);
    tcase_add_test(tests, alignments);
    tcase_add_test(tests, keys_that_occur_twice);
    tcase_add_test(tests, a_file_as_standard_input);
    tcase_add_test(tests, no_memory);
    return run_suites();
}
