// Sort: whole numbers, one per line, by quicksort in each rank and a merge of the ranks. Argument: the file.
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

static Pointer<Integer> read(Lines &lines, Integer &count) {
    Integer room = 1024, value = 0, sign = 1;
    Pointer<Integer> a = allocate<Integer>(room);
    Flag in_number = false;
    count = 0;
    while (true) {
        Integer byte = lines.next();
        Flag ends = byte < 0;
        if (byte == '\n') ends = true;
        if (ends) {
            if (in_number) {
                a = with_room(a, count, room);
                a[count++] = sign * value;
            }
            value = 0; sign = 1; in_number = false;
            if (byte < 0) return a;
        } else if (byte == '-') {
            sign = -1;
        } else {
            value = value * 10 + (byte - '0');
            in_number = true;
        }
    }
}

int main(int words, char **word) {
    start_ranks(words, word);
    Pointer<char *> argument = word;
    Lines lines(argument[1]);
    Integer count = 0;
    Pointer<Integer> a = read(lines, count);
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
            a = merge(a, count, other, size[0]);
            count += size[0];
        }
    }
    if (rank == 0) for (Integer i = 0; i < count; i++) std::printf("%ld\n", plain(a[i]));
    return end_ranks(lines.seconds);
}
