/* A loop with known counts, for the check of hardware counters: per pass 1 load, 1 store and 1 branch. Argument: passes. */
#include <stdlib.h>

int main(int count, char **words) {
    static volatile long cell;
    for (long i = count > 1 ? atol(words[1]) : 0; i; i--)
        cell = cell;
    return 0;
}
