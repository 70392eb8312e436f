/* CRC-32C: the check value of its definition, continued checksums, and equal results with and without the
 * instruction. */
#include "kernels/machine/crc32c.h"

#include "suite.h"

START_TEST(check_values)
{
    /* "123456789" has the check value in catalogs of CRCs; the others are those of RFC 3720, B.4. */
    unsigned char zeros[32] = {0}, ones[32], up[32];
    for (int i = 0; i < 32; i++) {
        ones[i] = 0xff;
        up[i] = (unsigned char)i;
    }
    const struct {
        const void *bytes;
        size_t n;
        uint32_t crc;
    } known[] = {{"", 0, 0},
                 {"123456789", 9, 0xe3069283},
                 {zeros, 32, 0x8a9136aa},
                 {ones, 32, 0x62a8ab43},
                 {up, 32, 0x46dd794e}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ck_assert_uint_eq(th_crc32c(0, known[i].bytes, known[i].n), known[i].crc);
        ck_assert_uint_eq(th_crc32c_plain(0, known[i].bytes, known[i].n), known[i].crc);
    }
}
END_TEST

START_TEST(checksums_continue)
{
    unsigned char bytes[100];
    for (int i = 0; i < 100; i++)
        bytes[i] = (unsigned char)(i * i + 7);
    for (size_t n = 0; n <= 100; n++) {
        const uint32_t whole = th_crc32c_plain(0, bytes, n);
        for (size_t cut = 0; cut <= n; cut++)
            ck_assert_uint_eq(th_crc32c(th_crc32c(0, bytes, cut), bytes + cut, n - cut), whole);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("crc32c", NULL, NULL);
    tcase_add_test(tests, check_values);
    tcase_add_test(tests, checksums_continue);
    return run_suites();
}
