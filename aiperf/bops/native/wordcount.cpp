// WordCount: frequency of each word between blanks, in a hash table with open addresses. Arguments: input, output and passes.
#include "tool.h"

struct Entry {
    Pointer<Byte> word;
    Integer length, count;
};
static Integer room = 1 << 16, used = 0;
static Pointer<Entry> entries;

static Integer place(Pointer<Byte> word, Integer length) {
    Unsigned hash = 14695981039346656037ul;
    for (Integer i = 0; i < length; i++) hash = (hash ^ word[i]) * 1099511628211ul;
    Integer at = hash & (room - 1);
    while (entries[at].count != 0) {
        Flag equal = entries[at].length == length;
        if (equal)
            for (Integer i = 0; i < length; i++)
                if (entries[at].word[i] != word[i]) {
                    equal = false;
                    break;
                }
        if (equal) break;
        at = (at + 1) & (room - 1);
    }
    return at;
}

static void enlarge() {
    Pointer<Entry> former = entries;
    Integer former_room = room;
    room *= 2;
    entries = allocate<Entry>(room);
    for (Integer i = 0; i < former_room; i++)
        if (former[i].count != 0) entries[place(former[i].word, former[i].length)] = former[i];
    std::free(raw(former));
}

static void add(Pointer<Byte> word, Integer length, Integer count) {
    Integer at = place(word, length);
    if (entries[at].count == 0) {
        entries[at].word = allocate<Byte>(length);
        for (Integer i = 0; i < length; i++) entries[at].word[i] = word[i];
        entries[at].length = length;
        if (++used * 2 > room) {
            entries[at].count = count;
            enlarge();
            return;
        }
    }
    entries[at].count += count;
}

static Flag is_blank(Integer byte) {
    if (byte == ' ') return true;
    if (byte < '\t') return false;
    return byte <= '\r';
}

static void count_words(Lines &lines) {
    Integer length = 0, longest = 1024;
    Pointer<Byte> word = allocate<Byte>(longest);
    while (true) {
        Integer byte = lines.next();
        Flag ends = byte < 0;
        if (!ends) ends = is_blank(byte);
        if (!ends) {
            word = with_room(word, length, longest);
            word[length++] = byte;
        } else {
            if (length > 0) add(word, length, 1);
            length = 0;
        }
        if (byte < 0) return;
    }
}

// Add the words of the other ranks, one message per word, at rank 0.
static void collect() {
    for (Integer from = 1; from < ranks; from++) {
        Array<Integer, 2> head = {0, 0};
        if (rank == from) {
            for (Integer i = 0; i < room; i++)
                if (entries[i].count != 0) {
                    head[0] = entries[i].length;
                    head[1] = entries[i].count;
                    transfer<Integer>(&head[0], 2, from, 0);
                    transfer<Byte>(entries[i].word, head[0], from, 0);
                }
            head[0] = 0;
            transfer<Integer>(&head[0], 2, from, 0);
        } else if (rank == 0) {
            while (true) {
                transfer<Integer>(&head[0], 2, from, 0);
                if (head[0] == 0) break;
                Pointer<Byte> word = allocate<Byte>(head[0]);
                transfer<Byte>(word, head[0], from, 0);
                add(word, head[0], head[1]);
                std::free(raw(word));
            }
        }
    }
}

int main(int words, char **word) {
    start_ranks(words, word);
    Pointer<char *> argument = word;
    for (Integer pass = std::atol(argument[3]); pass > 0; pass--) {
        std::free(raw(entries));
        room = 1 << 16;
        used = 0;
        entries = allocate<Entry>(room);
        Lines lines(argument[1]);
        count_words(lines);
        collect();
        meet();
    }
    std::FILE *output = open_output(argument[2]);
    if (rank == 0)
        for (Integer i = 0; i < room; i++)
            if (entries[i].count != 0)
                std::fprintf(output, "%ld %.*s\n", plain(entries[i].count), int(plain(entries[i].length)), (const char *)raw(entries[i].word));
    return end_ranks(output, argument[2]);
}
