/* Bodies of library functions, counted like the program's own code. The paper prints strcmp; the others are written alike.
   Included before every counted source (-include). The macros follow the library's headers, which would undefine them. */
#ifndef AIPERF_BOPS_LIBRARY_H
#define AIPERF_BOPS_LIBRARY_H
#ifdef __cplusplus
#include <cstring>
#else
#include <string.h>
#endif

__attribute__((unused)) static int bops_strcmp(const char *s, const char *t) {
    unsigned char c1, c2;
    while (1) {
        c1 = *s++;
        c2 = *t++;
        if (c1 != c2) return c1 < c2 ? -1 : 1;
        if (!c1) break;
    }
    return 0;
}

__attribute__((unused)) static int bops_strncmp(const char *s, const char *t, size_t n) {
    unsigned char c1, c2;
    while (n-- > 0) {
        c1 = *s++;
        c2 = *t++;
        if (c1 != c2) return c1 < c2 ? -1 : 1;
        if (!c1) break;
    }
    return 0;
}

__attribute__((unused)) static size_t bops_strlen(const char *s) {
    const char *end = s;
    while (*end) end++;
    return end - s;
}

__attribute__((unused)) static void *bops_memcpy(void *to, const void *from, size_t n) {
    for (size_t i = 0; i < n; i++) ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

__attribute__((unused)) static void *bops_memset(void *to, int value, size_t n) {
    for (size_t i = 0; i < n; i++) ((char *)to)[i] = (char)value;
    return to;
}

__attribute__((unused)) static int bops_memcmp(const void *s, const void *t, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((const unsigned char *)s)[i] != ((const unsigned char *)t)[i])
            return ((const unsigned char *)s)[i] < ((const unsigned char *)t)[i] ? -1 : 1;
    return 0;
}

#ifdef __cplusplus
namespace std {
using ::bops_memcmp;
using ::bops_memcpy;
using ::bops_memset;
using ::bops_strcmp;
using ::bops_strlen;
using ::bops_strncmp;
}
#endif
#define strcmp bops_strcmp
#define strncmp bops_strncmp
#define strlen bops_strlen
#define memcpy bops_memcpy
#define memset bops_memset
#define memcmp bops_memcmp
#endif
