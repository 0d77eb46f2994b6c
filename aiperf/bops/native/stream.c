/* STREAM's triad (McCalpin 1995) on all cores: a = b + s * c over three arrays of doubles, best pass after the first.
   Argument: elements of one array. Prints bytes per pass, seconds of the best pass, and threads. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PASSES 20

int main(int count, char **words) {
    long n = count > 1 ? atol(words[1]) : 1 << 24;
    double *arrays[3], best = INFINITY;
    for (int i = 0; i < 3; i++) {
        arrays[i] = mmap(NULL, n * sizeof(double), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (arrays[i] == MAP_FAILED) {
            fprintf(stderr, "%ld bytes of memory cannot be reserved\n", 3 * n * (long)sizeof(double));
            return 1;
        }
        madvise(arrays[i], n * sizeof(double), MADV_HUGEPAGE);
    }
    double *restrict a = arrays[0], *restrict b = arrays[1], *restrict c = arrays[2];
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        a[i] = 0;
        b[i] = 1;
        c[i] = 2;
    }
    for (int pass = 0; pass < PASSES; pass++) {
        double start = omp_get_wtime(), scalar = 3 + pass;
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) a[i] = b[i] + scalar * c[i];
        double seconds = omp_get_wtime() - start;
        if (pass && seconds < best) best = seconds;
        for (long i = 0; i < n; i += n / 97 + 1)
            if (a[i] != 1 + 2 * scalar) {
                fprintf(stderr, "element %ld is %g instead of %g\n", i, a[i], 1 + 2 * scalar);
                return 1;
            }
    }
    printf("%ld %.9g %d\n", 3 * n * (long)sizeof(double), best, omp_get_max_threads());
    return 0;
}
