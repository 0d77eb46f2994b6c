/* Integer adds, fused multiply-adds and the clock of one core, in bursts of about 100 microseconds. The best burst counts, so that
   other programs on the machine do not change the result. Prints one line per kind: name, operations per burst, seconds. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#ifndef BURSTS
#define BURSTS 1500
#endif
#define ROUNDS 4000
#define VECTOR_ROUNDS 8000

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

#define TEN(x) x x x x x x x x x x
#define EIGHT(f, ...) f(0, __VA_ARGS__) f(1, __VA_ARGS__) f(2, __VA_ARGS__) f(3, __VA_ARGS__) \
    f(4, __VA_ARGS__) f(5, __VA_ARGS__) f(6, __VA_ARGS__) f(7, __VA_ARGS__)
#define DECLARE(n, type, from) type a##n = from;
#define KEEP(n, constraint) __asm__ volatile("" : : constraint(a##n));

#if defined __x86_64__
#include <immintrin.h>
#define CHAIN "add %1, %0\n\t"
#define SCALARS "add %8,%0\n\tadd %8,%1\n\tadd %8,%2\n\tadd %8,%3\n\tadd %8,%4\n\tadd %8,%5\n\tadd %8,%6\n\tadd %8,%7"
#elif defined __aarch64__
#include <arm_neon.h>
#define ADD(n) "add %" #n ",%" #n ",%8\n\t"
#define CHAIN "add %0, %0, %1\n\t"
#define SCALARS ADD(0) ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7)
#else
#error "bops peak has the instructions of x86-64 and AArch64 only"
#endif

/* 400,000 dependent adds: one per cycle. */
static void chain(void) {
    uint64_t a = 1, one = 1;
    for (int i = 0; i < ROUNDS; i++) __asm__ volatile(TEN(TEN(CHAIN)) : "+r"(a) : "r"(one));
}

static void scalar(void) {
    uint64_t a0 = 0, a1 = 1, a2 = 2, a3 = 3, a4 = 4, a5 = 5, a6 = 6, a7 = 7, one = 1;
    for (int i = 0; i < ROUNDS; i++) {
#define SPREAD __asm__ volatile(SCALARS : "+r"(a0), "+r"(a1), "+r"(a2), "+r"(a3), "+r"(a4), "+r"(a5), "+r"(a6), "+r"(a7) : "r"(one));
        TEN(SPREAD)
    }
}

/* 8 independent chains of one instruction: enough for a latency of 4 cycles in 2 ports, and 9 of 16 registers. */
#define BURST(name, feature, type, zero, instruction)                                                                    \
    feature static void name(void)                                                                                       \
    {                                                                                                                    \
        type c = zero;                                                                                                   \
        EIGHT(DECLARE, type, zero)                                                                                       \
        for (int i = 0; i < VECTOR_ROUNDS; i++) {                                                                        \
            EIGHT(STEP, instruction) EIGHT(STEP, instruction) EIGHT(STEP, instruction) EIGHT(STEP, instruction)          \
        }                                                                                                                \
        EIGHT(KEEP, VECTOR)                                                                                              \
    }
#ifdef __x86_64__
#define VECTOR "v"
#define FOR(feature) __attribute__((target(feature)))
#define STEP(n, instruction)                                                                                             \
    __asm__ volatile(instruction " %1, %0, %0" : "+v"(a##n) : "v"(c));
BURST(add128, FOR("avx"), __m128i, _mm_setzero_si128(), "vpaddq")
BURST(add256, FOR("avx2"), __m256i, _mm256_setzero_si256(), "vpaddq")
BURST(add512, FOR("avx512f"), __m512i, _mm512_setzero_si512(), "vpaddq")
BURST(fma32_256, FOR("avx2,fma"), __m256, _mm256_setzero_ps(), "vfmadd213ps")
BURST(fma64_256, FOR("avx2,fma"), __m256d, _mm256_setzero_pd(), "vfmadd213pd")
BURST(fma32_512, FOR("avx512f"), __m512, _mm512_setzero_ps(), "vfmadd213ps")
BURST(fma64_512, FOR("avx512f"), __m512d, _mm512_setzero_pd(), "vfmadd213pd")
BURST(dot_bf16, FOR("avx512f"), __m512, _mm512_setzero_ps(), "vdpbf16ps")
#else
#define VECTOR "w"
#define STEP(n, instruction) __asm__ volatile(instruction : "+w"(a##n) : "w"(c));
BURST(add128, , int64x2_t, vdupq_n_s64(0), "add %0.2d, %0.2d, %1.2d")
BURST(fma32_128, , float32x4_t, vdupq_n_f32(0), "fmla %0.4s, %1.4s, %1.4s")
BURST(fma64_128, , float64x2_t, vdupq_n_f64(0), "fmla %0.2d, %1.2d, %1.2d")
#endif

static struct {
    const char *name;
    double operations;
    void (*burst)(void);
    double best;
} kinds[12];
static int count;

static void add(const char *name, double operations, void (*burst)(void)) {
    kinds[count].name = name;
    kinds[count].operations = operations;
    kinds[count].burst = burst;
    kinds[count++].best = 1e9;
}

int main(void) {
    const double steps = 32.0 * VECTOR_ROUNDS;
    add("clock", 100.0 * ROUNDS, chain);
    add("add_64", 80.0 * ROUNDS, scalar);
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx")) add("add_128", 2 * steps, add128);
    if (__builtin_cpu_supports("avx2")) add("add_256", 4 * steps, add256);
    if (__builtin_cpu_supports("avx512f")) {
        add("add_512", 8 * steps, add512);
        add("fma_fp32", 32 * steps, fma32_512);
        add("fma_fp64", 16 * steps, fma64_512);
    } else if (__builtin_cpu_supports("fma")) {
        add("fma_fp32", 16 * steps, fma32_256);
        add("fma_fp64", 8 * steps, fma64_256);
    }
    if (__builtin_cpu_supports("avx512bf16")) add("fma_bf16", 64 * steps, dot_bf16);
#else
    add("add_128", 2 * steps, add128);
    add("fma_fp32", 8 * steps, fma32_128);
    add("fma_fp64", 4 * steps, fma64_128);
#endif
    /* in turn, so that all kinds see the same clocks */
    for (int i = 0; i < BURSTS; i++)
        for (int kind = 0; kind < count; kind++) {
            double start = now();
            kinds[kind].burst();
            double seconds = now() - start;
            if (seconds < kinds[kind].best) kinds[kind].best = seconds;
        }
    for (int kind = 0; kind < count; kind++)
        printf("%s %.0f %.9g\n", kinds[kind].name, kinds[kind].operations, kinds[kind].best);
    return 0;
}
