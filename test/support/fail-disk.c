/* Preloaded into the service: makes its disk fail and its clock step, controlled by test/support/failing-disk.ts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
  volatile int64_t clock_offset_seconds;
  /* Counted here, read by the test. */
  volatile int64_t failed_calls;
};

static struct control nothing;
static struct control *control = &nothing;
static const char *folder;
static size_t folder_length;

__attribute__((constructor)) static void map_control(void) {
  const char *path = getenv("FAIL_DISK_CONTROL");
  const char *below = getenv("FAIL_DISK_FOLDER");
  if (!path || !below) return;
  /* A copy, because PostgreSQL writes the titles of its processes over the environment. */
  folder = strdup(below);
  folder_length = strlen(folder);
  int fd = open(path, O_RDWR);
  if (fd < 0) return;
  void *page = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (page != MAP_FAILED) control = page;
}

static int is_in_folder(int fd) {
  char link[32], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path);
  return length > (ssize_t)folder_length && !memcmp(path, folder, folder_length) && path[folder_length] == '/';
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

static int64_t write_error(void) { return control->until_sync ? 0 : control->write_error; }

static size_t shortened(int fd, size_t length) {
  return control->short_writes && length > 1 && is_in_folder(fd) ? length / 2 : length;
}

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define WRITING(name, offset_type) \
  ssize_t name(int fd, const void *bytes, size_t length, offset_type offset) { \
    REAL(ssize_t, name, int, const void *, size_t, offset_type); \
    return fails(fd, write_error()) ? -1 : real(fd, bytes, shortened(fd, length), offset); \
  }
WRITING(pwrite, off_t)
WRITING(pwrite64, off64_t)

#define WRITING_PARTS(name, offset_type) \
  ssize_t name(int fd, const struct iovec *parts, int count, offset_type offset) { \
    REAL(ssize_t, name, int, const struct iovec *, int, offset_type); \
    return fails(fd, write_error()) ? -1 : real(fd, parts, count, offset); \
  }
WRITING_PARTS(pwritev, off_t)
WRITING_PARTS(pwritev64, off64_t)

ssize_t write(int fd, const void *bytes, size_t length) {
  REAL(ssize_t, write, int, const void *, size_t);
  return fails(fd, write_error()) ? -1 : real(fd, bytes, shortened(fd, length));
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
    if (!fails(fd, control->sync_error)) return real(fd); \
    control->until_sync = 0; \
    return -1; \
  }
SYNCING(fsync)
SYNCING(fdatasync)

#define TRUNCATING(name, length_type) \
  int name(int fd, length_type length) { \
    REAL(int, name, int, length_type); \
    return fails(fd, control->truncate_error) ? -1 : real(fd, length); \
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
