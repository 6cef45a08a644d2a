// A library for LD_PRELOAD that lets one call of a program fail, as a full disk, a broken one or a
// machine without memory would: tools/crash goes through all of them.
//
//   NANO_FAIL=CALL:N:ERROR     the N-th CALL fails, e.g. fsync:3:EIO; N+ is the N-th and all later
//                              ones. CALL: write, pwrite, fsync, rename, open, close, ftruncate,
//                              mkdir, malloc. ERROR: ENOSPC, EIO or ENOMEM
//   NANO_FAIL_FROM=K:TEXT      counts from the K-th making of a directory whose path holds TEXT on,
//                              that one included; else from the start
//   NANO_FAIL_REPORT=FILE      takes a line, "CALL N of WHAT", when the first call fails
//
// Counted are the calls that the program and its libraries make, not those that the C library makes
// for itself: what goes to the standard output and error arrives. Those of a descriptor count where
// it is a file's.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

enum Call { Write, Pwrite, Fsync, Rename, Open, Close, Ftruncate, Mkdir, Malloc, calls };
static const char *const names[calls] = {"write", "pwrite",    "fsync", "rename", "open",
                                         "close", "ftruncate", "mkdir", "malloc"};

static enum Call failing = calls; ///< of these
static long first, last;          ///< counted from 1
static int error;
static const char *from, *report;
static long fromLeft;       ///< directories still to come
static atomic_bool counts;  ///< whether it has begun
static atomic_long counted; ///< of `failing`
static atomic_int told;     ///< the report: 1 while it is written, 2 then

__attribute__((constructor)) static void start(void) {
  const char *wanted = getenv("NANO_FAIL");
  if (!wanted)
    return;
  char name[16] = "", mark[16] = "", rest[2] = "";
  const char *number = strchr(wanted, ':');
  if (number && sscanf(wanted, "%15[a-z]:", name) == 1) {
    char *end = NULL;
    first = strtol(number + 1, &end, 10);
    last = *end == '+' ? __LONG_MAX__ : first;
    end += *end == '+';
    if (sscanf(end, ":%15[A-Z]%1s", mark, rest) == 1)
      error = !strcmp(mark, "ENOSPC")   ? ENOSPC
              : !strcmp(mark, "EIO")    ? EIO
              : !strcmp(mark, "ENOMEM") ? ENOMEM
                                        : 0;
  }
  for (int i = 0; i < calls; ++i)
    if (error && first > 0 && !strcmp(name, names[i]))
      failing = (enum Call)i;
  from = getenv("NANO_FAIL_FROM");
  char *text = NULL;
  fromLeft = from ? strtol(from, &text, 10) : 0;
  if (failing == calls || (from && (fromLeft < 1 || *text != ':'))) {
    fprintf(stderr, "NANO_FAIL=%s, NANO_FAIL_FROM=%s: not understood\n", wanted, from ? from : "");
    _exit(2);
  }
  from = from ? text + 1 : NULL;
  report = getenv("NANO_FAIL_REPORT");
  atomic_store(&counts, from == NULL);
}

/// Writes what has failed, by calls that nobody counts.
static void tell(const char *what) {
  char line[512];
  const int size = snprintf(line, sizeof line, "%s %ld of %s\n", names[failing], first, what);
  const long file = syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file < 0)
    return;
  syscall(SYS_write, file, line, size < (int)sizeof line ? size : (int)sizeof line - 1);
  syscall(SYS_close, file);
}

/// Whether this call of `call` is to fail; errno is set then.
static bool fails(enum Call call, const char *what) {
  if (call != failing || !atomic_load_explicit(&counts, memory_order_relaxed))
    return false;
  const long number = atomic_fetch_add(&counted, 1) + 1;
  if (number < first || number > last)
    return false;
  // Once, and before any thread sees a failure, which may end the process.
  if (report) {
    int untold = 0;
    if (atomic_compare_exchange_strong(&told, &untold, 1)) {
      tell(what);
      atomic_store(&told, 2);
    }
    while (atomic_load(&told) != 2)
      sched_yield();
  }
  errno = error;
  return true;
}

static bool failsOn(enum Call call, int file) {
  if (call != failing)
    return false;
  char link[32], path[256];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const long size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  path[size > 0 ? size : 0] = '\0';
  return path[0] == '/' && fails(call, path);
}

#define REAL(function) ((__typeof__(&(function)))dlsym(RTLD_NEXT, #function))

ssize_t write(int file, const void *data, size_t count) {
  return failsOn(Write, file) ? -1 : REAL(write)(file, data, count);
}

ssize_t pwrite(int file, const void *data, size_t count, off_t offset) {
  return failsOn(Pwrite, file) ? -1 : REAL(pwrite)(file, data, count, offset);
}

ssize_t pwrite64(int file, const void *data, size_t count, off64_t offset) {
  return failsOn(Pwrite, file) ? -1 : REAL(pwrite64)(file, data, count, offset);
}

int fsync(int file) { return failsOn(Fsync, file) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return failsOn(Fsync, file) ? -1 : REAL(fdatasync)(file); }

int rename(const char *old, const char *new) {
  return fails(Rename, new) ? -1 : REAL(rename)(old, new);
}

int renameat(int oldFolder, const char *old, int newFolder, const char *new) {
  return fails(Rename, new) ? -1 : REAL(renameat)(oldFolder, old, newFolder, new);
}

int renameat2(int oldFolder, const char *old, int newFolder, const char *new, unsigned flags) {
  return fails(Rename, new) ? -1 : REAL(renameat2)(oldFolder, old, newFolder, new, flags);
}

/// The mode of files that are made comes last.
#define OPEN(name, parameters, ...)                                                                \
  int name parameters {                                                                            \
    mode_t mode = 0;                                                                               \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                                         \
      va_list list;                                                                                \
      va_start(list, flags);                                                                       \
      mode = va_arg(list, mode_t);                                                                 \
      va_end(list);                                                                                \
    }                                                                                              \
    return fails(Open, path) ? -1 : REAL(name)(__VA_ARGS__);                                       \
  }
OPEN(open, (const char *path, int flags, ...), path, flags, mode)
OPEN(open64, (const char *path, int flags, ...), path, flags, mode)
OPEN(openat, (int folder, const char *path, int flags, ...), folder, path, flags, mode)
OPEN(openat64, (int folder, const char *path, int flags, ...), folder, path, flags, mode)

DIR *opendir(const char *path) { return fails(Open, path) ? NULL : REAL(opendir)(path); }

/// What fails is closed all the same, as the system does it.
int close(int file) {
  const bool failed = failsOn(Close, file);
  const int status = REAL(close)(file);
  if (failed)
    errno = error;
  return failed ? -1 : status;
}

int ftruncate(int file, off_t size) {
  return failsOn(Ftruncate, file) ? -1 : REAL(ftruncate)(file, size);
}

int ftruncate64(int file, off64_t size) {
  return failsOn(Ftruncate, file) ? -1 : REAL(ftruncate64)(file, size);
}

int mkdir(const char *path, mode_t mode) {
  if (from && strstr(path, from) && fromLeft > 0) {
    --fromLeft;
    if (fromLeft == 0)
      atomic_store(&counts, true);
  }
  return fails(Mkdir, path) ? -1 : REAL(mkdir)(path, mode);
}

void *malloc(size_t size) { return fails(Malloc, "memory") ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
  return fails(Malloc, "memory") ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
  return fails(Malloc, "memory") ? NULL : __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
  return fails(Malloc, "memory") ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
  void *made = fails(Malloc, "memory") ? NULL : __libc_memalign(alignment, size);
  if (!made)
    return ENOMEM;
  *memory = made;
  return 0;
}
