// Parts of the three measuring tools: number types, the part of a file that a rank reads, messages between ranks, and times.
// The tests replace the number types by types that count their operators (-DNUMBERS=FILE). Hence no plain && and ||.
#ifndef AIPERF_BOPS_TOOL_H
#define AIPERF_BOPS_TOOL_H
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif
#ifdef NUMBERS
#include NUMBERS
#else
using Integer = long;
using Unsigned = unsigned long;
using Byte = unsigned char;
using Flag = bool;
template <class T> using Pointer = T *;
template <class T, int N> using Array = T[N];
template <class T> T plain(T number) { return number; }
template <class T> T *raw(T *pointer) { return pointer; }
#endif

static Integer rank = 0, ranks = 1;

[[noreturn]] static void fail(const char *what, const char *name) {
    std::fprintf(stderr, "%s '%s': %s\n", what, name, std::strerror(errno));
#ifdef WITH_MPI
    MPI_Abort(MPI_COMM_WORLD, 1);
#endif
    std::exit(1);
}

template <class T> Pointer<T> allocate(Integer count) {
    T *memory = static_cast<T *>(std::calloc(plain(count), sizeof(T)));
    if (memory) return memory;
    fail("memory for the data cannot be reserved by", "calloc");
}

// Return the array, or a copy with twice the room if it is full.
template <class T> Pointer<T> with_room(Pointer<T> array, Integer count, Integer &room) {
    if (count < room) return array;
    room *= 2;
    Pointer<T> larger = allocate<T>(room);
    for (Integer i = 0; i < count; i++) larger[i] = array[i];
    std::free(raw(array));
    return larger;
}

// A file in memory, so that its bytes are accesses of this program and no copy of the kernel's.
struct Mapped {
    Pointer<const Byte> bytes;
    Integer size;
};
static Mapped mapped(const char *name) {
    Integer file = open(name, O_RDONLY);
    if (file < 0) fail("cannot read", name);
    struct stat found;
    if (fstat(plain(file), &found)) fail("cannot read", name);
    Integer size = found.st_size;
    if (size == 0) return {nullptr, 0};
    Pointer<Byte> bytes = static_cast<Byte *>(mmap(nullptr, plain(size), PROT_READ, MAP_PRIVATE, plain(file), 0));
    if (bytes == Pointer<Byte>(static_cast<Byte *>(MAP_FAILED))) fail("cannot read", name);
    close(plain(file));
    return {raw(bytes), size};
}

static void unmap(Mapped file) {
    if (file.size > 0) munmap(const_cast<Byte *>(raw(file.bytes)), plain(file.size));
}

// Bytes of whole lines of one file: those that begin in the part of this rank.
class Lines {
  public:
    explicit Lines(const char *name) : file(mapped(name))
    {
        Integer begin = file.size / ranks * rank;
        end = file.size / ranks * (rank + 1);
        if (rank == ranks - 1) end = file.size;
        if (begin > 0) {
            position = begin - 1;
            last = 0;
        }
        while (last != '\n') {
            if (next() < 0) break;
        }
    }

    ~Lines() { unmap(file); }

    // Return the next byte, -1 at the end of the part.
    Integer next()
    {
        if (position >= end) {
            if (last == '\n') return -1;
        }
        if (position >= file.size) return -1;
        last = file.bytes[position++];
        return last;
    }

  private:
    Mapped file;
    Integer position = 0, end = 0, last = '\n';
};

// Send or receive an array of any length in messages that MPI's int can count.
template <class T> void transfer([[maybe_unused]] Pointer<T> array, [[maybe_unused]] Integer count, [[maybe_unused]] Integer from,
                                 [[maybe_unused]] Integer to) {
#ifdef WITH_MPI
    const Integer most = 1 << 20;
    for (Integer sent = 0; sent < count; sent += most) {
        Integer size = count - sent;
        if (size > most) size = most;
        T *part = raw(array + sent);
        if (rank == from) MPI_Send(part, int(plain(size) * sizeof(T)), MPI_BYTE, int(plain(to)), 0, MPI_COMM_WORLD);
        else MPI_Recv(part, int(plain(size) * sizeof(T)), MPI_BYTE, int(plain(from)), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
#endif
}

static double begun, calculated;

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Wait for all ranks.
static void meet() {
#ifdef WITH_MPI
    MPI_Barrier(MPI_COMM_WORLD);
#endif
}

static void start_ranks([[maybe_unused]] int &count, [[maybe_unused]] char **&words) {
#ifdef WITH_MPI
    int own, all;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    rank = own;
    ranks = all;
#endif
    meet();
    begun = now();
}

// End the measured part, which the output does not belong to, and open the output of rank 0.
static std::FILE *open_output(const char *name) {
    calculated = now();
    if (std::FILE *file = std::fopen(rank == 0 ? name : "/dev/null", "wb")) return file;
    fail("cannot write", name);
}

// Check that all output was written, print when the measured part began and ended and when the output ended, and end the ranks.
static int end_ranks(std::FILE *output, const char *name) {
    if (std::fclose(output)) fail("cannot write", name);
    if (rank == 0) std::printf("%.9f %.9f %.9f\n", begun, calculated, now());
    if (std::fflush(stdout)) fail("cannot write", "the times");
#ifdef NUMBERS
    std::fprintf(stderr, "operations %llu\n", counted_in_all());
#endif
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    return 0;
}
#endif
