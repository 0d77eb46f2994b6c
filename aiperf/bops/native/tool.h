// Parts of the three measuring tools: number types, the part of a file that a rank reads, and messages between ranks.
// The tests replace the number types by types that count their operators (-DNUMBERS=FILE). Hence no plain && and ||.
#ifndef AIPERF_BOPS_TOOL_H
#define AIPERF_BOPS_TOOL_H
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
using Real = double;
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

// Bytes of whole lines of one file: those that begin in the part of this rank.
class Lines {
  public:
    explicit Lines(const char *name) : file(opened(name)), buffer(allocate<Byte>(capacity))
    {
        std::fseek(file, 0, SEEK_END);
        Integer size = std::ftell(file), begin = size / ranks * rank;
        end = size / ranks * (rank + 1);
        if (rank == ranks - 1) end = size;
        if (begin > 0) {
            position = begin - 1;
            last = 0;
        }
        std::fseek(file, plain(position), SEEK_SET);
        while (last != '\n') {
            if (next() < 0) break;
        }
    }

    // Return the next byte, -1 at the end of the part.
    Integer next()
    {
        if (position >= end) {
            if (last == '\n') return -1;
        }
        if (at == filled) {
            auto start = std::chrono::steady_clock::now();
            filled = std::fread(raw(buffer), 1, capacity, file);
            seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
            at = 0;
            if (filled == 0) return -1;
        }
        ++position;
        last = buffer[at++];
        return last;
    }

    Real seconds = 0; // spent in reading

  private:
    static std::FILE *opened(const char *name)
    {
        if (std::FILE *file = std::fopen(name, "rb")) return file;
        fail("cannot read", name);
    }
    static constexpr int capacity = 1 << 20;
    std::FILE *file;
    Pointer<Byte> buffer;
    Integer at = 0, filled = 0, position = 0, end = 0, last = '\n';
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

static void start_ranks([[maybe_unused]] int &count, [[maybe_unused]] char **&words) {
#ifdef WITH_MPI
    int own, all;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    rank = own;
    ranks = all;
#endif
}

// Report the seconds of reading of this rank, end the ranks, and check that all output was written.
static int end_ranks(Real read_seconds) {
    if (std::fflush(stdout)) fail("cannot write", "the output");
    std::fprintf(stderr, "read_seconds %.6f\n", plain(read_seconds));
#ifdef NUMBERS
    std::fprintf(stderr, "operations %llu\n", counted_in_all());
#endif
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    return 0;
}
#endif
