/* A file system whose flock(2) fails with the error named in AIPERF_FLOCK_ERRNO, as mounts without locks do. */
#include <errno.h>
#include <stdlib.h>

int flock(int descriptor, int operation) {
    (void)descriptor;
    (void)operation;
    errno = atoi(getenv("AIPERF_FLOCK_ERRNO"));
    return -1;
}
