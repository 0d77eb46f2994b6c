/* Probes of HPL's building blocks, launched like HPL: FP64 kernels of the BLAS in every rank, and messages between ranks.
 * The BLAS and the FMA loop use OMP_NUM_THREADS threads.
 *
 *     probe NB SECONDS
 *
 * SECONDS is the time of one series of bursts. Each burst is shorter than a scheduler's slice. Output of rank 0:
 *     fact NAME TEXT
 *     series NAME PHASE RANK SIZE WORK SECONDS…      WORK in operations, bytes or accesses per burst
 * PHASE is "alone" (one rank of each host at a time) or "together" (all ranks at once). Of messages it is "message" (rank 0 and
 * its partner) or "pairs" (all pairs at once).
 */
#define _GNU_SOURCE
#include <cblas.h>
#include <dlfcn.h>
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BURSTS = 200, LINE = 64, LONGEST = 64 << 20 };
typedef double vector __attribute__((vector_size(64), may_alias));

extern void dgetrf_(const int *, const int *, double *, const int *, int *, int *);
extern void dlaswp_(const int *, double *, const int *, const int *, const int *, const int *, const int *);

static int nb, rank, ranks;
static double series_seconds;
static double *matrix; /* ROWS x COLUMNS, as large as a process' part of a small HPL run */
static const int ROWS = 6144, COLUMNS = 2048;
static double *left, *top, *panel;
static int *pivots;
static volatile double sink;

static double *allocate(size_t words) {
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, words * sizeof(double))) {
        fprintf(stderr, "probe: rank %d has no memory for %zu words\n", rank, words);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    double *filled = memory;
    for (size_t i = 0; i < words; i++) filled[i] = 0.5 - (double)((i * 2654435761u) % 1000003) / 1000003;
    return filled;
}

/* --- one burst of each probe: prepares outside the measured time, and returns the measured seconds --- */

static double *place(int rows, int columns, int burst) {
    int row = (burst * 769) % (ROWS - rows + 1), column = (burst * 467) % (COLUMNS - columns + 1);
    return matrix + (size_t)column * ROWS + row;
}

static double update(int size, int burst) { /* C -= A B of rank NB */
    double *c = place(size, size, burst), begin = MPI_Wtime();
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, size, size, nb, -1.0, left, size, top, nb, 1.0, c, ROWS);
    return MPI_Wtime() - begin;
}

static double factorise(int rows, int burst) { /* dgetrf of rows x NB */
    int status;
    (void)burst;
    for (int j = 0; j < nb; j++) memcpy(panel + (size_t)j * rows, matrix + (size_t)j * ROWS, rows * sizeof(double));
    for (int j = 0; j < nb; j++) panel[(size_t)j * rows + j] += 4.0; /* far from singular */
    double begin = MPI_Wtime();
    dgetrf_(&rows, &nb, panel, &rows, pivots, &status);
    return MPI_Wtime() - begin;
}

static double swap_rows(int columns, int burst) { /* dlaswp of NB rows */
    int first = 1, stride = 1, lead = ROWS;
    for (int i = 0; i < nb; i++) pivots[i] = i + 1 + (int)((unsigned)(i * 7919 + burst * 104729) % (unsigned)(ROWS - i));
    double *at = place(ROWS, columns, burst), begin = MPI_Wtime();
    dlaswp_(&columns, at, &lead, &first, &nb, pivots, &stride);
    return MPI_Wtime() - begin;
}

static double triad(int words, int burst) { /* a = b + s c, at another place for each burst */
    size_t third = (size_t)ROWS * COLUMNS / 3, start = ((size_t)burst * words) % (third - words);
    double *a = matrix + start, *b = a + third, *c = b + third, begin = MPI_Wtime();
    for (int i = 0; i < words; i++) a[i] = b[i] + 0.5 * c[i];
    return MPI_Wtime() - begin;
}

static double multiply_add(int steps, int burst) { /* 16 independent chains of 8 words in each thread */
    double seconds = 0, total = 0;
    (void)burst;
#pragma omp parallel reduction(max : seconds) reduction(+ : total)
    {
        vector sums[16], factor, term;
        for (int j = 0; j < 8; j++) factor[j] = 0.999999, term[j] = 1e-6;
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++) sums[k][j] = 0.1 * (k + j);
#pragma omp barrier
        double begin = MPI_Wtime();
        for (int i = 0; i < steps; i++) {
#pragma GCC unroll 16
            for (int k = 0; k < 16; k++) sums[k] = sums[k] * factor + term;
        }
        seconds = MPI_Wtime() - begin;
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++) total += sums[k][j];
    }
    sink = total;
    return seconds;
}

static double chase(int accesses, int burst) { /* each address depends on the value before it */
    size_t words = (size_t)ROWS * COLUMNS, at = (size_t)burst * 7919 % words, step = 0;
    double begin = MPI_Wtime();
    for (int i = 0; i < accesses; i++) {
        step = (size_t)(matrix[at] > 2.0); /* 0, but the compiler does not know */
        at = (at * 6364136223846793005u + 1442695040888963407u + step) % words;
    }
    double seconds = MPI_Wtime() - begin;
    sink = (double)at;
    return seconds;
}

typedef struct {
    const char *name;
    double (*burst)(int, int);
    int size;
    double work;
} probe;

static void wait_for_all(void) { /* a barrier that leaves the processor to other ranks */
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int done = 0; !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE)) usleep(50);
}

static void run_series(const probe *of, const char *phase, int is_active) {
    double seconds[BURSTS], *all = NULL;
    int count = 0;
    if (is_active) {
        of->burst(of->size, 0); /* first use of code and memory */
        for (double begin = MPI_Wtime(); count < BURSTS && (count < 5 || MPI_Wtime() - begin < series_seconds); count++)
            seconds[count] = of->burst(of->size, count);
    }
    for (int i = count; i < BURSTS; i++) seconds[i] = -1.0;
    if (rank == 0) all = malloc(sizeof(double) * BURSTS * ranks);
    wait_for_all();
    MPI_Gather(seconds, BURSTS, MPI_DOUBLE, all, BURSTS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank) return;
    for (int r = 0; r < ranks; r++) {
        if (all[r * BURSTS] < 0) continue;
        printf("series %s %s %d %d %.17g", of->name, phase, r, of->size, of->work);
        for (int i = 0; i < BURSTS && all[r * BURSTS + i] >= 0; i++) printf(" %.4g", all[r * BURSTS + i]);
        printf("\n");
    }
    fflush(stdout);
    free(all);
}

static void ping_pong(const char *name, const char *phase, int partner) { /* partner: -1 for a rank that waits */
    char *buffer = (char *)matrix;
    for (int bytes = 8; bytes <= LONGEST; bytes *= 2) {
        double seconds[BURSTS], *all = rank == 0 ? malloc(sizeof(double) * BURSTS * ranks) : NULL;
        int count = 0, goes_on = 1;
        for (int i = 0; i < BURSTS; i++) seconds[i] = -1.0;
        for (double begin = MPI_Wtime(); goes_on && partner >= 0; count++) {
            double sent = MPI_Wtime();
            if (rank < partner) {
                MPI_Send(buffer, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
                MPI_Recv(buffer, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                seconds[count] = (MPI_Wtime() - sent) / 2;
                goes_on = count + 1 < BURSTS && (count < 4 || MPI_Wtime() - begin < series_seconds);
                MPI_Send(&goes_on, 1, MPI_INT, partner, 2, MPI_COMM_WORLD);
            } else {
                MPI_Recv(buffer, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(buffer, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
                MPI_Recv(&goes_on, 1, MPI_INT, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
        }
        wait_for_all();
        MPI_Gather(seconds, BURSTS, MPI_DOUBLE, all, BURSTS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        for (int r = 0; rank == 0 && r < ranks; r++) {
            if (all[r * BURSTS] < 0) continue;
            printf("series %s %s %d %d %d", name, phase, r, bytes, bytes);
            for (int i = 1; i < BURSTS && all[r * BURSTS + i] >= 0; i++) printf(" %.4g", all[r * BURSTS + i]);
            printf("\n"); /* without the first, which sets the connection up */
        }
        fflush(stdout);
        free(all);
    }
}

static int partner_of(int place, int places) { /* the next even or odd place, -1 for the last of an odd number */
    int other = place ^ 1;
    return other < places ? other : -1;
}

static void *of_blas(const char *name) { /* a function of the library that has cblas_dgemm, or NULL */
    Dl_info blas, found;
    void *dgemm = dlsym(RTLD_DEFAULT, "cblas_dgemm"), *function = dlsym(RTLD_DEFAULT, name);
    int is_there = dgemm && function && dladdr(dgemm, &blas) && dladdr(function, &found);
    return is_there && !strcmp(blas.dli_fname, found.dli_fname) ? function : NULL;
}

static void print_facts(int local_ranks) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n")] = '\0';
    printf("fact mpi %s\n", text);
    MPI_Get_processor_name(text, &length);
    printf("fact host %s\n", text);
    printf("fact ranks %d\nfact ranks_per_host %d\nfact nb %d\n", ranks, local_ranks, nb);
    printf("fact threads %d\n", omp_get_max_threads());
    char *(*open)(void) = (char *(*)(void))of_blas("openblas_get_config");
    char *(*core)(void) = (char *(*)(void))of_blas("openblas_get_corename");
    char *(*blis)(void) = (char *(*)(void))of_blas("bli_info_get_version_str");
    int (*architecture)(void) = (int (*)(void))of_blas("bli_arch_query_id");
    char *(*kernels)(int) = (char *(*)(int))of_blas("bli_arch_string");
    void (*mkl)(char *, int) = (void (*)(char *, int))of_blas("MKL_Get_Version_String");
    if (mkl) mkl(text, sizeof text), text[strcspn(text, "\n")] = '\0';
    printf("fact blas %s%s\n", blis ? "BLIS " : "", open ? open() : blis ? blis() : mkl ? text : "not reported");
    printf("fact blas_kernels %s\n", core ? core() : architecture && kernels ? kernels(architecture()) : "not reported");
}

int main(int count, char **words) {
    MPI_Comm host;
    int local, local_ranks, most_local, least_local;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count != 3 || (nb = atoi(words[1])) < 1 || nb > 1024 || (series_seconds = atof(words[2])) <= 0) {
        if (rank == 0) fprintf(stderr, "usage: probe NB SECONDS, with NB from 1 to 1024\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &local);
    MPI_Comm_size(host, &local_ranks);
    MPI_Allreduce(&local_ranks, &most_local, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&local_ranks, &least_local, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0) {
        print_facts(local_ranks);
        printf("fact hosts_are_equal %d\n", most_local == least_local);
    }
    matrix = allocate((size_t)ROWS * COLUMNS);
    left = allocate((size_t)1024 * nb);
    top = allocate((size_t)nb * 1024);
    panel = allocate((size_t)4096 * nb);
    pivots = malloc(sizeof(int) * 4096);

    double b = nb;
    probe probes[] = {
        {"gemm", update, 128, 2 * b * 128 * 128},   {"gemm", update, 192, 2 * b * 192 * 192},
        {"gemm", update, 256, 2 * b * 256 * 256},   {"gemm", update, 384, 2 * b * 384 * 384},
        {"panel", factorise, 1024, b * b * (1024 - b / 3)}, {"panel", factorise, 1536, b * b * (1536 - b / 3)},
        {"panel", factorise, 2048, b * b * (2048 - b / 3)}, {"panel", factorise, 3072, b * b * (3072 - b / 3)},
        {"swap", swap_rows, 256, 3 * 8 * b * 256},  {"triad", triad, 1 << 17, 24.0 * (1 << 17)},
        {"fma", multiply_add, 20000, 2.0 * 16 * 8 * 20000 * omp_get_max_threads()}, {"chase", chase, 4096, 4096},
    };
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
        for (int turn = 0; turn < most_local; turn++) {
            run_series(&probes[i], "alone", local == turn);
        }
        MPI_Barrier(MPI_COMM_WORLD); /* all start together */
        run_series(&probes[i], "together", 1);
    }
    /* the partner within the host, and the first rank of another host, both as seen by rank 0 */
    int mine[2] = {rank, 0}, *hosts = malloc(2 * sizeof(int) * ranks), head = rank, near = -1, far = -1;
    MPI_Bcast(&head, 1, MPI_INT, 0, host);
    mine[1] = head;
    MPI_Allgather(mine, 2, MPI_INT, hosts, 2, MPI_INT, MPI_COMM_WORLD);
    for (int r = ranks - 1; r > 0; r--) *(hosts[2 * r + 1] == hosts[1] ? &near : &far) = r;
    /* all pairs: neighbours within each host, and equal places of two neighbouring hosts */
    int *near_ranks = malloc(sizeof(int) * ranks), *equals = malloc(sizeof(int) * ranks), places = 0, hosts_before = 0, own = 0;
    MPI_Comm equal;
    MPI_Comm_split(MPI_COMM_WORLD, local, rank, &equal);
    MPI_Allgather(&rank, 1, MPI_INT, near_ranks, 1, MPI_INT, host);
    MPI_Comm_size(equal, &places);
    MPI_Comm_rank(equal, &hosts_before);
    MPI_Allgather(&rank, 1, MPI_INT, equals, 1, MPI_INT, equal);
    if (near > 0) {
        ping_pong("node", "message", rank == 0 ? near : rank == near ? 0 : -1);
        own = partner_of(local, local_ranks);
        ping_pong("node", "pairs", own < 0 ? -1 : near_ranks[own]);
    }
    if (far > 0) {
        ping_pong("network", "message", rank == 0 ? far : rank == far ? 0 : -1);
        own = partner_of(hosts_before, places);
        ping_pong("network", "pairs", own < 0 ? -1 : equals[own]);
    }
    if (rank == 0) printf("end\n");
    MPI_Finalize();
    return 0;
}
