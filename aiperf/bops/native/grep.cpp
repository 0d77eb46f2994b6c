// Grep: lines of a text that match an expression of . * + ? [] ^ $ |, by a set of states in one word, without backtracking.
// Arguments: expression, input, output (the number of matching lines) and passes.
#include "tool.h"

static const int most_items = 62;
static Array<Unsigned, 256> accepts;   // items that accept a byte
static Unsigned repeats = 0, optional = 0, starts = 0, line_starts = 0, finals = 0, line_finals = 0;

[[noreturn]] static void refuse(const char *rule, const char *expression) {
    std::fprintf(stderr, "%s; found '%s': correct the expression\n", rule, expression);
    std::exit(2);
}

static void accept(Integer low, Integer high, Unsigned item) {
    for (Integer byte = low; byte <= high; byte++) if (byte != '\n') accepts[byte] |= item;
}

static Integer read_set(Pointer<const Byte> p, Integer i, Unsigned item, const char *expression) {
    Flag negated = p[i] == '^';
    Array<Flag, 256> members = {};
    if (negated) i++;
    Integer first = i;
    while (true) {
        if (p[i] == 0) refuse("a set ends with ]", expression);
        if (p[i] == ']') if (i > first) break;
        Integer low = p[i], high = low;
        if (p[i + 1] == '-')
            if (p[i + 2] != ']') {
                high = p[i + 2];
                i += 2;
            }
        if (high < low) refuse("a range in a set begins with its smaller character", expression);
        for (Integer byte = low; byte <= high; byte++) members[byte] = true;
        i++;
    }
    for (Integer byte = 1; byte < 256; byte++) if (members[byte] != negated) accept(byte, byte, item);
    return i;
}

static void compile(const char *expression) {
    Pointer<const Byte> p = reinterpret_cast<const Byte *>(expression);
    Unsigned item = 1;
    Flag begins = true, anchored = false, has_item = false;
    Integer items = 0;
    for (Integer i = 0;; i++) {
        Integer byte = p[i];
        if (begins) {
            anchored = byte == '^';
            begins = has_item = false;
            if (anchored) {
                line_starts |= item;
                continue;
            }
            starts |= item;
        }
        Flag ends = byte == 0;
        if (byte == '|') ends = true;
        if (byte == '$') {
            Flag last = p[i + 1] == 0;
            if (p[i + 1] == '|') last = true;
            if (!last) refuse("$ is the last character of an alternative", expression);
            line_finals |= item;
            byte = p[++i];
            ends = true;
        } else if (ends) {
            finals |= item;
        }
        if (ends) {
            if (byte == 0) return;
            item <<= 1;
            begins = true;
            if (++items == most_items) refuse("an expression has at most 60 characters", expression);
            continue;
        }
        switch (plain(byte)) {
        case '*': case '+': case '?':
            if (!has_item) refuse("* + ? follow a character or a set", expression);
            if (byte != '?') repeats |= item >> 1;
            if (byte != '+') optional |= item >> 1;
            has_item = false;
            continue;
        case '(': case ')': case '{': case '}': case '\\': case '^':
            refuse("an expression has . * + ? [] ^ $ | and no ( ) { } \\, and ^ is the first character of an alternative", expression);
        case '.':
            accept(1, 255, item);
            break;
        case '[':
            i = read_set(p, i + 1, item, expression);
            break;
        default:
            accept(byte, byte, item);
        }
        has_item = true;
        item <<= 1;
        if (++items == most_items) refuse("an expression has at most 60 characters", expression);
    }
}

static Unsigned skip(Unsigned states) {
    while (true) {
        Unsigned further = states | ((states & optional) << 1);
        if (further == states) return states;
        states = further;
    }
}

static Integer count_lines(Lines &lines) {
    const Unsigned begin = skip(starts | line_starts), inside = skip(starts);
    Unsigned states = begin;
    Integer found = 0;
    Flag matches = false, in_line = false;
    while (true) {
        Integer byte = lines.next();
        Flag ends = byte < 0;
        if (byte == '\n') ends = true;
        if (ends) {
            if (byte == '\n') in_line = true;
            if (in_line) {
                if ((states & (finals | line_finals)) != 0) matches = true;
                if (matches) found++;
            }
            if (byte < 0) return found;
            states = begin;
            matches = in_line = false;
        } else {
            in_line = true;
            if ((states & finals) != 0) matches = true;
            if (!matches) {
                Unsigned met = states & accepts[byte];
                states = skip((met << 1) | (met & repeats)) | inside;
            }
        }
    }
}

int main(int words, char **word) {
    start_ranks(words, word);
    Pointer<char *> argument = word;
    compile(argument[1]);
    Integer found = 0;
    for (Integer pass = std::atol(argument[4]); pass > 0; pass--) {
        Lines lines(argument[2]);
        found = count_lines(lines);
#ifdef WITH_MPI
        long own = found, all = 0;
        MPI_Reduce(&own, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        found = all;
#endif
        meet();
    }
    std::FILE *output = open_output(argument[3]);
    std::fprintf(output, "%ld\n", plain(found));
    return end_ranks(output, argument[3]);
}
