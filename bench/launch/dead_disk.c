/* A disk that dies: loaded with LD_PRELOAD, it fails every access to files below the directory DEAD_DISK_ROOT with EIO as
   soon as the first byte of the file DEAD_DISK_SWITCH is not 0. Both are read when the process starts. What is open stays open
   and can be closed, as on a file system that the kernel has shut down. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static const volatile char *is_dead;
static const char *root;
static size_t root_length;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("DEAD_DISK_SWITCH");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
    root = getenv("DEAD_DISK_ROOT");
    if (at == MAP_FAILED || !root) {
        fprintf(stderr, "dead_disk.c: DEAD_DISK_SWITCH must name a file, and DEAD_DISK_ROOT a directory\n");
        abort();
    }
    close(fd);
    root_length = strlen(root);
    is_dead = at;
}

static int is_below(const char *path) {
    return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == '\0');
}

static int fd_fails(int fd) {
    char link[64], path[4096];
    ssize_t length;
    if (!is_dead || !*is_dead)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = '\0';
    return is_below(path);
}

/* Paths are absolute here, or relative to a descriptor. */
static int path_fails(int directory, const char *path) {
    if (!is_dead || !*is_dead || !path)
        return 0;
    return path[0] == '/' ? is_below(path) : directory != AT_FDCWD && fd_fails(directory);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ON_FD(type, name, parameters, arguments)                                                                                \
    type name parameters {                                                                                                      \
        static __typeof__(&name) real;                                                                                          \
        if (!real)                                                                                                              \
            real = REAL(name);                                                                                                  \
        if (fd_fails(fd)) {                                                                                                     \
            errno = EIO;                                                                                                        \
            return -1;                                                                                                          \
        }                                                                                                                       \
        return real arguments;                                                                                                  \
    }
#define ON_PATH(type, name, directory, path, parameters, arguments)                                                             \
    type name parameters {                                                                                                      \
        static __typeof__(&name) real;                                                                                          \
        if (!real)                                                                                                              \
            real = REAL(name);                                                                                                  \
        if (path_fails(directory, path)) {                                                                                      \
            errno = EIO;                                                                                                        \
            return -1;                                                                                                          \
        }                                                                                                                       \
        return real arguments;                                                                                                  \
    }
#define OPENS(name)                                                                                                             \
    int name(const char *path, int flags, ...) {                                                                                \
        static __typeof__(&name) real;                                                                                          \
        va_list more;                                                                                                           \
        va_start(more, flags);                                                                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                                                 \
        va_end(more);                                                                                                           \
        if (!real)                                                                                                              \
            real = REAL(name);                                                                                                  \
        if (path_fails(AT_FDCWD, path)) {                                                                                       \
            errno = EIO;                                                                                                        \
            return -1;                                                                                                          \
        }                                                                                                                       \
        return real(path, flags, mode);                                                                                         \
    }
#define OPENS_AT(name)                                                                                                          \
    int name(int directory, const char *path, int flags, ...) {                                                                 \
        static __typeof__(&name) real;                                                                                          \
        va_list more;                                                                                                           \
        va_start(more, flags);                                                                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                                                 \
        va_end(more);                                                                                                           \
        if (!real)                                                                                                              \
            real = REAL(name);                                                                                                  \
        if (path_fails(directory, path)) {                                                                                      \
            errno = EIO;                                                                                                        \
            return -1;                                                                                                          \
        }                                                                                                                       \
        return real(directory, path, flags, mode);                                                                              \
    }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
ON_FD(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
ON_FD(ssize_t, pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
ON_FD(ssize_t, pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
ON_FD(ssize_t, preadv2, (int fd, const struct iovec *data, int count, off_t at, int flags), (fd, data, count, at, flags))
ON_FD(ssize_t, preadv64v2, (int fd, const struct iovec *data, int count, off64_t at, int flags), (fd, data, count, at, flags))
ON_FD(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
ON_FD(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_FD(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
ON_FD(ssize_t, pwritev, (int fd, const struct iovec *data, int count, off_t at), (fd, data, count, at))
ON_FD(ssize_t, pwritev64, (int fd, const struct iovec *data, int count, off64_t at), (fd, data, count, at))
ON_FD(int, fsync, (int fd), (fd))
ON_FD(int, fdatasync, (int fd), (fd))
ON_FD(int, syncfs, (int fd), (fd))
ON_FD(int, ftruncate, (int fd, off_t size), (fd, size))
ON_FD(int, ftruncate64, (int fd, off64_t size), (fd, size))
ON_PATH(int, truncate, AT_FDCWD, path, (const char *path, off_t size), (path, size))
ON_PATH(int, truncate64, AT_FDCWD, path, (const char *path, off64_t size), (path, size))
ON_PATH(int, unlink, AT_FDCWD, path, (const char *path), (path))
ON_PATH(int, unlinkat, directory, path, (int directory, const char *path, int flags), (directory, path, flags))
ON_PATH(int, rmdir, AT_FDCWD, path, (const char *path), (path))
ON_PATH(int, mkdir, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, mkdirat, directory, path, (int directory, const char *path, mode_t mode), (directory, path, mode))
ON_PATH(int, rename, AT_FDCWD, path, (const char *path, const char *to), (path, to))
ON_PATH(int, renameat, directory, path, (int directory, const char *path, int other, const char *to), (directory, path, other, to))

ssize_t sendfile(int out, int fd, off_t *at, size_t size) {
    static __typeof__(&sendfile) real;
    if (!real)
        real = REAL(sendfile);
    if (fd_fails(fd)) {
        errno = EIO;
        return -1;
    }
    return real(out, fd, at, size);
}

ssize_t sendfile64(int out, int fd, off64_t *at, size_t size) {
    static __typeof__(&sendfile64) real;
    if (!real)
        real = REAL(sendfile64);
    if (fd_fails(fd)) {
        errno = EIO;
        return -1;
    }
    return real(out, fd, at, size);
}
