/*
 * Preloaded into the service: makes its disk fail and its clock step, controlled by test/support/failing-disk.ts.
 * With RECORD_FILE it also records all changes of the folder and of the files in it, in the order of the calls. A record is
 * the struct below, the path relative to the folder ("" is the folder) and the data. Files ending in -shm are left out: they
 * are mapped memory, which SQLite rebuilds from the other files.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The fields of failing-disk.ts, in the same order. An error is an errno, or 0 for none. */
struct control {
  volatile int64_t write_error;
  volatile int64_t sync_error;
  volatile int64_t read_error;
  volatile int64_t truncate_error;
  /* Number of calls that succeed before the first failure. */
  volatile int64_t passes;
  /* Number of calls that fail after that; -1 for all. */
  volatile int64_t failures;
  /* Whether writes succeed until a sync has failed. */
  volatile int64_t until_sync;
  volatile int64_t short_writes;
  /* Writes of at most so many bytes succeed. */
  volatile int64_t room;
  volatile int64_t clock_offset_seconds;
  /* Counted here, read by the test. */
  volatile int64_t failed_calls;
};

struct record {
  uint32_t kind; /* a letter: create, mkdir (d), write, truncate, sync, unlink, link (l), rename */
  uint32_t path_length;
  uint64_t data_length;
  int64_t offset; /* for a truncate: the new size */
  int64_t ended_at; /* CLOCK_MONOTONIC in nanoseconds */
};

enum { AT_POSITION = -1 };

static struct control nothing;
static struct control *control = &nothing;
static const char *folder;
static size_t folder_length;
static int record_file = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread sigset_t signals_before;

__attribute__((constructor)) static void prepare(void) {
  const char *path = getenv("FAIL_DISK_CONTROL");
  const char *below = getenv("FAIL_DISK_FOLDER");
  const char *records = getenv("RECORD_FILE");
  if (!below) return;
  /* A copy, because PostgreSQL writes the titles of its processes over the environment. */
  folder = strdup(below);
  folder_length = strlen(folder);
  int fd = path ? open(path, O_RDWR) : -1;
  if (fd >= 0) {
    void *page = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) control = page;
  }
  if (records) record_file = open(records, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* The part of an absolute path below the folder: "" for the folder, "/name" in it, NULL elsewhere. */
static const char *inside(const char *path) {
  if (!folder || strncmp(path, folder, folder_length)) return NULL;
  const char *rest = path + folder_length;
  return *rest == '/' || *rest == 0 ? rest : NULL;
}

static const char *path_of(int fd, char *path) {
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length < 0 ? 0 : length] = 0;
  return inside(path);
}

static int is_in_folder(int fd) {
  char buffer[PATH_MAX];
  const char *path = path_of(fd, buffer);
  return path && *path == '/';
}

static void record(char kind, const char *path, int64_t offset, const void *data, size_t length) {
  size_t end = strlen(path);
  if (end >= 4 && !strcmp(path + end - 4, "-shm")) return;
  if (*path == '/') path++;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  struct record head = {kind, strlen(path), length, offset, now.tv_sec * INT64_C(1000000000) + now.tv_nsec};
  struct iovec parts[] = {{&head, sizeof head}, {(void *)path, head.path_length}, {(void *)data, length}};
  if (writev(record_file, parts, 3) != (ssize_t)(sizeof head + head.path_length + length)) abort();
}

/*
 * Between these two a call is done, and recorded if it succeeds, before any other one is. Signals wait: the handler of libuv writes
 * to a pipe, and would wait for ever for the lock of the call that it interrupts.
 */
static void begin(void) {
  if (record_file < 0) return;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &signals_before);
  pthread_mutex_lock(&lock);
}

static ssize_t end(char kind, int fd, int64_t offset, const void *data, ssize_t result) {
  if (record_file < 0) return result;
  int saved = errno;
  char buffer[PATH_MAX];
  const char *path = kind && result >= 0 ? path_of(fd, buffer) : NULL;
  if (path && offset == AT_POSITION) offset = lseek(fd, 0, SEEK_CUR) - result;
  if (path) record(kind, path, offset, data, kind == 'w' ? result : 0);
  pthread_mutex_unlock(&lock);
  pthread_sigmask(SIG_SETMASK, &signals_before, NULL);
  errno = saved;
  return result;
}

/* Whether this call must fail; sets errno. */
static int fails(int fd, int64_t error) {
  int errno_before = errno;
  if (!error || !folder || !is_in_folder(fd)) {
    errno = errno_before;
    return 0;
  }
  if (control->passes > 0) {
    control->passes--;
    return 0;
  }
  if (!control->failures) return 0;
  if (control->failures > 0) control->failures--;
  control->failed_calls++;
  errno = (int)error;
  return 1;
}

static int64_t write_error(size_t length) {
  return control->until_sync || length <= (size_t)control->room ? 0 : control->write_error;
}

static size_t shortened(int fd, size_t length) {
  return control->short_writes && length > 1 && is_in_folder(fd) ? length / 2 : length;
}

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define WRITING(name, offset_type) \
  ssize_t name(int fd, const void *bytes, size_t length, offset_type offset) { \
    REAL(ssize_t, name, int, const void *, size_t, offset_type); \
    begin(); \
    ssize_t result = fails(fd, write_error(length)) ? -1 : real(fd, bytes, shortened(fd, length), offset); \
    return end('w', fd, offset, bytes, result); \
  }
WRITING(pwrite, off_t)
WRITING(pwrite64, off64_t)

#define WRITING_PARTS(name, offset_type) \
  ssize_t name(int fd, const struct iovec *parts, int count, offset_type offset) { \
    REAL(ssize_t, name, int, const struct iovec *, int, offset_type); \
    return fails(fd, write_error(SIZE_MAX)) ? -1 : real(fd, parts, count, offset); \
  }
WRITING_PARTS(pwritev, off_t)
WRITING_PARTS(pwritev64, off64_t)

ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL(ssize_t, writev, int, const struct iovec *, int);
  return fails(fd, write_error(SIZE_MAX)) ? -1 : real(fd, parts, count);
}

ssize_t write(int fd, const void *bytes, size_t length) {
  REAL(ssize_t, write, int, const void *, size_t);
  begin();
  ssize_t result = fails(fd, write_error(length)) ? -1 : real(fd, bytes, shortened(fd, length));
  return end('w', fd, AT_POSITION, bytes, result);
}

#define READING(name, offset_type) \
  ssize_t name(int fd, void *bytes, size_t length, offset_type offset) { \
    REAL(ssize_t, name, int, void *, size_t, offset_type); \
    return fails(fd, control->read_error) ? -1 : real(fd, bytes, length, offset); \
  }
READING(pread, off_t)
READING(pread64, off64_t)

ssize_t read(int fd, void *bytes, size_t length) {
  REAL(ssize_t, read, int, void *, size_t);
  return fails(fd, control->read_error) ? -1 : real(fd, bytes, length);
}

#define SYNCING(name) \
  int name(int fd) { \
    REAL(int, name, int); \
    begin(); \
    if (!fails(fd, control->sync_error)) return end('s', fd, 0, NULL, real(fd)); \
    end(0, fd, 0, NULL, -1); \
    control->until_sync = 0; \
    return -1; \
  }
SYNCING(fsync)
SYNCING(fdatasync)

#define TRUNCATING(name, length_type) \
  int name(int fd, length_type length) { \
    REAL(int, name, int, length_type); \
    begin(); \
    return end('t', fd, length, NULL, fails(fd, control->truncate_error) ? -1 : real(fd, length)); \
  }
TRUNCATING(ftruncate, off_t)
TRUNCATING(ftruncate64, off64_t)

int clock_gettime(clockid_t clock, struct timespec *time) {
  REAL(int, clock_gettime, clockid_t, struct timespec *);
  int result = real(clock, time);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += control->clock_offset_seconds;
  return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  REAL(int, gettimeofday, struct timeval *, void *);
  int result = real(time, zone);
  time->tv_sec += control->clock_offset_seconds;
  return result;
}

time_t time(time_t *where) {
  REAL(time_t, time, time_t *);
  time_t now = real(NULL) + control->clock_offset_seconds;
  if (where) *where = now;
  return now;
}

static int open_file(int from, const char *path, int flags, mode_t mode) {
  REAL(int, openat64, int, const char *, int, ...);
  begin();
  int saved = errno;
  int is_new = record_file >= 0 && (flags & O_CREAT) && faccessat(from, path, F_OK, 0);
  errno = saved;
  int fd = real(from, path, flags, mode);
  return end(is_new ? 'c' : 0, fd, 0, NULL, fd);
}

#define OPENING(name, from, ...) \
  int name(__VA_ARGS__, int flags, ...) { \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
      va_list list; \
      va_start(list, flags); \
      mode = va_arg(list, mode_t); \
      va_end(list); \
    } \
    return open_file(from, path, flags, mode); \
  }
OPENING(open, AT_FDCWD, const char *path)
OPENING(open64, AT_FDCWD, const char *path)
OPENING(openat, from, int from, const char *path)
OPENING(openat64, from, int from, const char *path)

/* A change of a name, which has a real path only before or after it. */
#define NAMING(name, kind, is_before, parameters, ...) \
  int name parameters { \
    int (*real) parameters = (int(*) parameters)dlsym(RTLD_NEXT, #name); \
    char buffer[PATH_MAX]; \
    const char *found = NULL; \
    begin(); \
    if (is_before && record_file >= 0 && realpath(path, buffer)) found = inside(buffer); \
    int result = real(__VA_ARGS__); \
    if (!is_before && record_file >= 0 && realpath(path, buffer)) found = inside(buffer); \
    if (!result && found) record(kind, found, 0, NULL, 0); \
    return end(0, -1, 0, NULL, result); \
  }
NAMING(unlink, 'u', 1, (const char *path), path)
NAMING(mkdir, 'd', 0, (const char *path, mode_t mode), path, mode)

/* A second name, whose data is the new path relative to the folder. */
#define MOVING(name, kind) \
  int name(const char *from, const char *to) { \
    REAL(int, name, const char *, const char *); \
    begin(); \
    char buffer[PATH_MAX]; \
    char target[PATH_MAX]; \
    const char *found = NULL; \
    if (record_file >= 0 && realpath(from, buffer)) found = inside(buffer); \
    int result = real(from, to); \
    if (!result && found && realpath(to, target) && inside(target)) { \
      record(kind, found, 0, inside(target) + 1, strlen(inside(target) + 1)); \
    } \
    return end(0, -1, 0, NULL, result); \
  }
MOVING(link, 'l')
MOVING(rename, 'r')
