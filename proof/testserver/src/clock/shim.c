/* Loaded into a server, makes its wall clock show what a file says.
 *
 * The file named by SEMEL_CLOCK has two numbers of 8 bytes each, in microseconds. If the first is not
 * zero, the clock stands still at that moment; else it is ahead of the machine's by the second. Clocks
 * that only measure how time passes are left alone. A server that would measure it by the processor, and look
 * at the wall clock now and then, does not find out that it could.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shown;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SEMEL_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *page = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        shown = page;
    close(file);
}

int clock_gettime(clockid_t which, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, which, now);
    if (failed || !shown || (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE))
        return failed;
    int64_t moment = shown[0];
    if (!moment)
        moment = now->tv_sec * INT64_C(1000000) + now->tv_nsec / 1000 + shown[1];
    now->tv_sec = moment / 1000000;
    now->tv_nsec = moment % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    if (failed)
        return failed;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact = {0};
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}

static FILE *open_other_than_cpuinfo(const char *how, const char *path, const char *mode) {
    FILE *(*open_file)(const char *, const char *) = NULL;
    *(void **)&open_file = dlsym(RTLD_NEXT, how);
    return open_file(strcmp(path, "/proc/cpuinfo") ? path : "/dev/null", mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
    return open_other_than_cpuinfo("fopen", path, mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode) {
    return open_other_than_cpuinfo("fopen64", path, mode);
}
