/* Calls of the system that fail on request: loaded before the C library, so that Python, SQLite and Arrow all meet it.

   fault_arm(kind, n, mode, error): the n-th call of a kind from now on fails with an error number (mode 0), it and all
   later calls of any kind fail (1, a disk that is full), the process is killed there (2), or gets SIGTERM there (3).
   Only regular files other than stdin, stdout and stderr count. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE, FSYNC, RENAME, MKDIR, LINK, CREATE, KINDS };
enum { ONCE, FROM_THEN_ON, KILL, TERMINATE };

static long counts[KINDS];
static int armed = 0, armed_kind = -1, armed_mode = 0, armed_error = 0, fired = 0;
static long armed_n = 0;

void fault_arm(int kind, long n, int mode, int error) {
    for (int each = 0; each < KINDS; each++) counts[each] = 0;
    armed_kind = kind; armed_n = n; armed_mode = mode; armed_error = error; fired = 0; armed = 1;
}
void fault_disarm(void) { armed = 0; }
long fault_count(int kind) { return counts[kind]; }
int fault_fired(void) { return fired; }

static int fails(int kind) {
    if (!armed) return 0;
    long number = __atomic_add_fetch(&counts[kind], 1, __ATOMIC_SEQ_CST);
    if (armed_mode == FROM_THEN_ON && fired) { errno = armed_error; return 1; }
    if (kind != armed_kind || number != armed_n) return 0;
    fired = 1;
    if (armed_mode == KILL) { kill(getpid(), SIGKILL); pause(); }
    if (armed_mode == TERMINATE) { raise(SIGTERM); return 0; }
    errno = armed_error;
    return 1;
}

static int regular(int fd) {
    struct stat about;
    int before = errno;
    int found = fd > 2 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    errno = before;
    return found;
}

#define NEXT(result, name, ...) \
    static result (*next)(__VA_ARGS__) = NULL; \
    if (!next) next = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name);

ssize_t write(int fd, const void *data, size_t size) {
    NEXT(ssize_t, "write", int, const void *, size_t)
    return armed && regular(fd) && fails(WRITE) ? -1 : next(fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    NEXT(ssize_t, "pwrite", int, const void *, size_t, off_t)
    return armed && regular(fd) && fails(WRITE) ? -1 : next(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    NEXT(ssize_t, "pwrite64", int, const void *, size_t, off64_t)
    return armed && regular(fd) && fails(WRITE) ? -1 : next(fd, data, size, at);
}
ssize_t writev(int fd, const struct iovec *parts, int number) {
    NEXT(ssize_t, "writev", int, const struct iovec *, int)
    return armed && regular(fd) && fails(WRITE) ? -1 : next(fd, parts, number);
}
ssize_t sendfile(int to, int from, off_t *at, size_t size) {
    NEXT(ssize_t, "sendfile", int, int, off_t *, size_t)
    return armed && regular(to) && fails(WRITE) ? -1 : next(to, from, at, size);
}
int fsync(int fd) {
    NEXT(int, "fsync", int)
    return fails(FSYNC) ? -1 : next(fd);
}
int fdatasync(int fd) {
    NEXT(int, "fdatasync", int)
    return fails(FSYNC) ? -1 : next(fd);
}
int rename(const char *from, const char *to) {
    NEXT(int, "rename", const char *, const char *)
    return fails(RENAME) ? -1 : next(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    NEXT(int, "renameat", int, const char *, int, const char *)
    return fails(RENAME) ? -1 : next(a, from, b, to);
}
int renameat2(int a, const char *from, int b, const char *to, unsigned int flags) {
    NEXT(int, "renameat2", int, const char *, int, const char *, unsigned int)
    return fails(RENAME) ? -1 : next(a, from, b, to, flags);
}
int mkdir(const char *path, mode_t mode) {
    NEXT(int, "mkdir", const char *, mode_t)
    return fails(MKDIR) ? -1 : next(path, mode);
}
int mkdirat(int at, const char *path, mode_t mode) {
    NEXT(int, "mkdirat", int, const char *, mode_t)
    return fails(MKDIR) ? -1 : next(at, path, mode);
}
int link(const char *from, const char *to) {
    NEXT(int, "link", const char *, const char *)
    return fails(LINK) ? -1 : next(from, to);
}
int linkat(int a, const char *from, int b, const char *to, int flags) {
    NEXT(int, "linkat", int, const char *, int, const char *, int)
    return fails(LINK) ? -1 : next(a, from, b, to, flags);
}

#define OPENED(name, ...) \
    mode_t mode = 0; \
    if (flags & O_CREAT) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); } \
    if ((flags & O_CREAT) && fails(CREATE)) return -1;

int open(const char *path, int flags, ...) {
    NEXT(int, "open", const char *, int, ...)
    OPENED("open")
    return next(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    NEXT(int, "open64", const char *, int, ...)
    OPENED("open64")
    return next(path, flags, mode);
}
int openat(int at, const char *path, int flags, ...) {
    NEXT(int, "openat", int, const char *, int, ...)
    OPENED("openat")
    return next(at, path, flags, mode);
}
int openat64(int at, const char *path, int flags, ...) {
    NEXT(int, "openat64", int, const char *, int, ...)
    OPENED("openat64")
    return next(at, path, flags, mode);
}
