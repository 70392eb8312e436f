/* The header of a token file. tapehead/token_file.h describes its layout. */
#include <string.h>

#include "models/core/files.h"
#include "models/data/token_file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files store numbers in this memory format");

enum { AT_VERSION = 8, AT_WIDTH = 12, AT_COUNT = 16, AT_VOCABULARY = 24, AT_ZEROS = 32, AT_CHECKSUM = 60 };
enum { PLAIN = 1, MARKED = 2 }; /* versions */
static const char magic[] = "TAPETOKS";

int64_t th_token_width(int64_t vocabulary, bool marked)
{
    return vocabulary <= 1 << 16 && !marked ? 2 : 4;
}

int64_t th_token_max_vocabulary(bool marked)
{
    return (int64_t)1 << (marked ? TH_TOKEN_MARKS_AT : 31);
}

void th_token_header_write(const th_token_header *header, unsigned char bytes[TH_TOKEN_HEADER])
{
    const uint32_t version = header->marked ? MARKED : PLAIN, width = (uint32_t)header->width;
    memset(bytes, 0, TH_TOKEN_HEADER);
    memcpy(bytes, magic, AT_VERSION);
    memcpy(bytes + AT_VERSION, &version, sizeof version);
    memcpy(bytes + AT_WIDTH, &width, sizeof width);
    memcpy(bytes + AT_COUNT, &header->count, sizeof header->count);
    memcpy(bytes + AT_VOCABULARY, &header->vocabulary, sizeof header->vocabulary);
    const uint32_t crc = th_crc32c(0, bytes, AT_CHECKSUM);
    memcpy(bytes + AT_CHECKSUM, &crc, sizeof crc);
}

const char *th_token_header_read(const unsigned char bytes[TH_TOKEN_HEADER], th_token_header *header)
{
    uint32_t version, width, crc;
    if (memcmp(bytes, magic, AT_VERSION) != 0)
        return "it is not a token file";
    memcpy(&crc, bytes + AT_CHECKSUM, sizeof crc);
    if (crc != th_crc32c(0, bytes, AT_CHECKSUM))
        return "its header is damaged: its checksum is wrong";
    memcpy(&version, bytes + AT_VERSION, sizeof version);
    memcpy(&width, bytes + AT_WIDTH, sizeof width);
    memcpy(&header->count, bytes + AT_COUNT, sizeof header->count);
    memcpy(&header->vocabulary, bytes + AT_VOCABULARY, sizeof header->vocabulary);
    header->width = width;
    header->marked = version == MARKED;
    if (version != PLAIN && version != MARKED)
        return "its format version is neither 1 nor 2";
    for (int i = AT_ZEROS; i < AT_CHECKSUM; i++)
        if (bytes[i] != 0)
            return "its header has fields that versions 1 and 2 of the format lack";
    if (header->vocabulary < 1 || header->vocabulary > th_token_max_vocabulary(header->marked) ||
        header->width != th_token_width(header->vocabulary, header->marked))
        return "the vocabulary and the token width in its header do not match";
    if (header->count < 0 || header->count > INT64_MAX / 8)
        return "the number of tokens in its header is impossible";
    return NULL;
}

int64_t th_token_blocks(const th_token_header *header)
{
    const int64_t bytes = header->count * header->width;
    return bytes / TH_TOKEN_BLOCK + (bytes % TH_TOKEN_BLOCK != 0);
}
