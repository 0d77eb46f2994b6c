// Sort: binary whole numbers of 8 bytes, by quicksort in each rank and a merge of the ranks. Arguments: input, output and passes.
#include "tool.h"

static void quicksort(Pointer<Integer> a, Integer low, Integer high) {
    while (low < high) {
        Integer i = low, j = high, pivot = a[low + (high - low) / 2];
        while (i <= j) {
            while (a[i] < pivot) i++;
            while (a[j] > pivot) j--;
            if (i <= j) {
                Integer kept = a[i];
                a[i] = a[j];
                a[j] = kept;
                i++; j--;
            }
        }
        // the shorter part first, so that the depth is at most log2 of the length
        if (j - low < high - i) {
            quicksort(a, low, j);
            low = i;
        } else {
            quicksort(a, i, high);
            high = j;
        }
    }
}

static Pointer<Integer> merge(Pointer<Integer> a, Integer n, Pointer<Integer> b, Integer m) {
    Pointer<Integer> c = allocate<Integer>(n + m + 1);
    Integer i = 0, j = 0;
    for (Integer k = 0; k < n + m; k++) {
        Flag first = j == m;
        if (!first) if (i < n) first = a[i] <= b[j];
        if (first) c[k] = a[i++];
        else c[k] = b[j++];
    }
    return c;
}

// Return the numbers of this rank.
static Pointer<Integer> read(const char *name, Integer &count) {
    Mapped file = mapped(name);
    Pointer<const Integer> numbers = reinterpret_cast<const Integer *>(raw(file.bytes));
    Integer all = file.size / Integer(sizeof(Integer)), begin = all / ranks * rank;
    count = all / ranks;
    if (rank == ranks - 1) count = all - begin;
    Pointer<Integer> a = allocate<Integer>(count + 1);
    for (Integer i = 0; i < count; i++) a[i] = numbers[begin + i];
    unmap(file);
    return a;
}

static Pointer<Integer> sorted(const char *name, Integer &count) {
    Pointer<Integer> a = read(name, count);
    quicksort(a, 0, count - 1);
    for (Integer step = 1; step < ranks; step *= 2) {
        if (rank % (step * 2) == step) {
            Array<Integer, 1> size = {count};
            transfer<Integer>(&size[0], 1, rank, rank - step);
            transfer<Integer>(a, count, rank, rank - step);
            break;
        }
        if (rank + step < ranks) {
            Array<Integer, 1> size = {0};
            transfer<Integer>(&size[0], 1, rank + step, rank);
            Pointer<Integer> other = allocate<Integer>(size[0] + 1);
            transfer<Integer>(other, size[0], rank + step, rank);
            Pointer<Integer> both = merge(a, count, other, size[0]);
            std::free(raw(a));
            std::free(raw(other));
            a = both;
            count += size[0];
        }
    }
    return a;
}

int main(int words, char **word) {
    start_ranks(words, word);
    Pointer<char *> argument = word;
    Integer count = 0;
    Pointer<Integer> a = nullptr;
    for (Integer pass = std::atol(argument[3]); pass > 0; pass--) {
        std::free(raw(a));
        a = sorted(argument[1], count);
        meet();
    }
    std::FILE *output = open_output(argument[2]);
    if (rank == 0) {
        Integer written = std::fwrite(raw(a), sizeof(Integer), plain(count), output);
        if (written != count) fail("cannot write", argument[2]);
    }
    return end_ranks(output, argument[2]);
}
