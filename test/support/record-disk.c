/*
 * Preloaded into a process: records its changes of one folder and of the files in it, in the order of the calls.
 * RECORD_FOLDER is an absolute path without links; RECORD_FILE, outside of it, gets the records.
 *
 * A record is the struct below in the byte order of the machine, the path relative to the folder ("" is the folder)
 * and the data. It is written after the call has succeeded, under the same lock.
 * Files ending in -shm are left out: they are mapped memory, which SQLite rebuilds from the other files.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FILES = 4096 };

struct record {
  uint32_t kind; /* a letter: create, mkdir (d), write, truncate, sync, unlink */
  uint32_t path_length;
  uint64_t data_length;
  int64_t offset; /* for a truncate: the new size */
  int64_t ended_at; /* CLOCK_MONOTONIC in nanoseconds */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *opened[MAX_FILES]; /* paths relative to the folder, by descriptor */
static int record_file = -1;

#define NEXT(name) ((__typeof__(&name))next(#name))

static void *next(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

/* The part of an absolute path that is relative to the folder, or NULL for a path that is not recorded. */
static const char *inside(const char *path) {
  const char *folder = getenv("RECORD_FOLDER");
  size_t length = folder == NULL ? 0 : strlen(folder);
  size_t end = strlen(path);
  if (length == 0 || strncmp(path, folder, length) != 0) return NULL;
  if (end >= 4 && strcmp(path + end - 4, "-shm") == 0) return NULL;
  if (path[length] == '\0') return path + length;
  return path[length] == '/' ? path + length + 1 : NULL;
}

static const char *path_of(int file) {
  return file >= 0 && file < MAX_FILES ? opened[file] : NULL;
}

static void record(char kind, const char *path, int64_t offset, const void *data, size_t length) {
  int saved = errno;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  struct record head = {
      kind, strlen(path), length, offset, now.tv_sec * INT64_C(1000000000) + now.tv_nsec};
  struct iovec parts[] = {
      {&head, sizeof head}, {(void *)path, head.path_length}, {(void *)data, length}};
  if (record_file < 0) {
    record_file =
        NEXT(open64)(getenv("RECORD_FILE"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  if (writev(record_file, parts, 3) != (ssize_t)(sizeof head + head.path_length + length)) abort();
  errno = saved;
}

static int record_open(int file, int is_created) {
  char link[64], path[PATH_MAX];
  if (file < 0 || file >= MAX_FILES) return file;
  int saved = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = '\0';
  free(opened[file]);
  const char *relative = inside(path);
  opened[file] = relative == NULL ? NULL : strdup(relative);
  if (relative != NULL && is_created) record('c', relative, 0, NULL, 0);
  errno = saved;
  return file;
}

static int open_recorded(int folder, const char *path, int flags, mode_t mode) {
  pthread_mutex_lock(&lock);
  int saved = errno;
  int is_created = (flags & O_CREAT) != 0 && faccessat(folder, path, F_OK, 0) != 0;
  errno = saved;
  int file = record_open(NEXT(openat64)(folder, path, flags, mode), is_created);
  pthread_mutex_unlock(&lock);
  return file;
}

#define MODE(flags)                      \
  mode_t mode = 0;                       \
  if ((flags) & (O_CREAT | __O_TMPFILE)) { \
    va_list list;                        \
    va_start(list, flags);               \
    mode = va_arg(list, mode_t);         \
    va_end(list);                        \
  }

int open(const char *path, int flags, ...) {
  MODE(flags)
  return open_recorded(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  MODE(flags)
  return open_recorded(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
  MODE(flags)
  return open_recorded(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
  MODE(flags)
  return open_recorded(folder, path, flags, mode);
}

int close(int file) {
  pthread_mutex_lock(&lock);
  if (path_of(file) != NULL) {
    free(opened[file]);
    opened[file] = NULL;
  }
  int result = NEXT(close)(file);
  pthread_mutex_unlock(&lock);
  return result;
}

/* Runs CALL, under the lock if the descriptor is of a recorded file, and WHEN_DONE if the call succeeds. */
#define RECORDED(type, file, call, when_done)      \
  const char *path = path_of(file);                \
  if (path == NULL) return call;                   \
  pthread_mutex_lock(&lock);                       \
  type result = call;                              \
  if (result >= 0) when_done;                      \
  pthread_mutex_unlock(&lock);                     \
  return result;

ssize_t pwrite(int file, const void *data, size_t length, off_t offset) {
  RECORDED(ssize_t, file, NEXT(pwrite)(file, data, length, offset),
           record('w', path, offset, data, result))
}

ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) {
  RECORDED(ssize_t, file, NEXT(pwrite64)(file, data, length, offset),
           record('w', path, offset, data, result))
}

ssize_t write(int file, const void *data, size_t length) {
  RECORDED(ssize_t, file, NEXT(write)(file, data, length),
           record('w', path, lseek64(file, 0, SEEK_CUR) - result, data, result))
}

int ftruncate(int file, off_t size) {
  RECORDED(int, file, NEXT(ftruncate)(file, size), record('t', path, size, NULL, 0))
}

int ftruncate64(int file, off64_t size) {
  RECORDED(int, file, NEXT(ftruncate64)(file, size), record('t', path, size, NULL, 0))
}

int fsync(int file) {
  RECORDED(int, file, NEXT(fsync)(file), record('s', path, 0, NULL, 0))
}

int fdatasync(int file) {
  RECORDED(int, file, NEXT(fdatasync)(file), record('s', path, 0, NULL, 0))
}

int unlink(const char *path) {
  char real[PATH_MAX];
  const char *relative = realpath(path, real) == NULL ? NULL : inside(real);
  pthread_mutex_lock(&lock);
  int result = NEXT(unlink)(path);
  if (result == 0 && relative != NULL) record('u', relative, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}

int mkdir(const char *path, mode_t mode) {
  char real[PATH_MAX];
  pthread_mutex_lock(&lock);
  int result = NEXT(mkdir)(path, mode);
  const char *relative = result != 0 || realpath(path, real) == NULL ? NULL : inside(real);
  if (relative != NULL) record('d', relative, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}
