/* Seeded data of any size in bounded memory. Arguments: records (binary, 8 bytes) or text, records or bytes, seed. Writes to the standard output. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint64_t next(void) /* splitmix64 */
{
    uint64_t z = state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

int main(int count, char **words) {
    if (count != 4) return 2;
    unsigned long long size = strtoull(words[2], NULL, 10), written = 0;
    state = strtoull(words[3], NULL, 10);
    int is_text = !strcmp(words[1], "text");
    for (unsigned long long i = 0; is_text ? written < size : i < size; i++) {
        if (!is_text) {
            int64_t number = (int64_t)(next() >> 24) - (1ll << 39);
            fwrite(&number, sizeof number, 1, stdout);
        } else { /* 50,000 words, frequent ones short: rank = 50000 · u³ */
            double u = (next() >> 11) * 0x1p-53;
            unsigned rank = 50000 * u * u * u;
            char word[8];
            int length = 0;
            do word[length++] = 'a' + rank % 26;
            while (rank /= 26);
            written += printf("%.*s%c", length, word, i % 12 == 11 || written + length + 1 >= size ? '\n' : ' ');
        }
        if (ferror(stdout)) break;
    }
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "the data cannot be written: %s\n", strerror(errno));
        return 1;
    }
    return 0;
}
