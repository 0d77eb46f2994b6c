/* A copy of known traffic, for the check of memory-controller counters: each pass reads and writes 64 MiB without a cache.
   Argument: passes. */
#include <emmintrin.h>
#include <stdlib.h>

#define BYTES (64L << 20)

int main(int count, char **words) {
    static __m128i from[BYTES / 16], to[BYTES / 16];
    for (long i = 0; i < BYTES / 16; i++) from[i] = to[i] = _mm_set1_epi32((int)i);
    for (long pass = count > 1 ? atol(words[1]) : 0; pass; pass--)
        for (long i = 0; i < BYTES / 16; i++) _mm_stream_si128(&to[i], from[i]);
    return 0;
}
