/*
 * The control file: words of 64 bits that the laboratory writes and this process maps. `Control` in
 * src/preload/control.rs has the same numbers. One fault is armed at a time; its state is written last.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x31306c6f72746e6fULL /* "ontrol01" */
/* A sync is the system call itself. */
#define REAL_SYNC UINT64_MAX

struct control {
  _Atomic uint64_t magic;
  _Atomic uint64_t armed;
  _Atomic uint64_t kind;
  _Atomic uint64_t call;
  _Atomic uint64_t first; /* the number of the first call that is hit, from 1 */
  _Atomic uint64_t times; /* calls that are hit, from the first on */
  _Atomic uint64_t action;
  _Atomic uint64_t value;        /* an errno, or microseconds of a delay */
  _Atomic uint64_t sync_micros;  /* the length of a sync, or REAL_SYNC */
  _Atomic uint64_t record;       /* 1: the journal is kept; read once, at the start */
  _Atomic uint64_t seen;         /* calls since the fault was armed */
  _Atomic uint64_t fired;        /* calls that were hit */
  _Atomic uint64_t fired_offset; /* of the first of them */
  _Atomic uint64_t fired_size;
  _Atomic uint64_t unused[2];
  _Atomic uint64_t counts[KINDS][CALLS];
  char pad[4096 - 8 * (16 + KINDS * CALLS)];
  char fired_path[PATH_BYTES];
};

_Static_assert(sizeof(struct control) == 8192, "the laboratory's offsets");

static struct control *control;
static bool records;

bool control_is_there(void) { return control != NULL; }
bool recording(void) { return records; }

static void stop(const char *why) {
  fprintf(stderr, "tidelab preload: %s\n", why);
  _exit(99);
}

__attribute__((constructor)) static void begin(void) {
  const char *side = getenv("TIDELAB_PRELOAD");
  if (!side) return;
  files_begin(getenv("TIDELAB_PRELOAD_STORE"), getenv("TIDELAB_PRELOAD_DATA"));
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/control", side);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) stop("the control file cannot be opened");
  void *at = (void *)syscall(SYS_mmap, NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                             (off_t)0);
  syscall(SYS_close, fd);
  if (at == MAP_FAILED) stop("the control file cannot be mapped");
  struct control *mapped = at;
  if (mapped->magic != MAGIC) stop("the control file is not this library's");
  if (mapped->record == 1) {
    if (!journal_begin(side)) stop("the journal cannot be opened");
    records = true;
  }
  control = mapped;
}

static void pause_for(uint64_t micros) {
  struct timespec wait = {(time_t)(micros / 1000000), (long)(micros % 1000000 * 1000)};
  while (nanosleep(&wait, &wait) == -1 && errno == EINTR) {
  }
}

static void note(int fd, const char *path, off_t offset, size_t size) {
  char found[PATH_BYTES];
  if (!path && path_of_fd(fd, found)) path = found;
  snprintf(control->fired_path, PATH_BYTES, "%s", path ? path : "");
  control->fired_offset = (uint64_t)offset;
  control->fired_size = size;
}

struct verdict decide(enum kind kind, enum call call, int fd, const char *path, off_t offset, size_t size) {
  struct verdict verdict = {ACTION_NONE, 0};
  if (!control || kind == KIND_NONE) return verdict;
  atomic_fetch_add(&control->counts[kind][call], 1);
  if (!control->armed || control->kind != kind || control->call != call) return verdict;
  uint64_t number = atomic_fetch_add(&control->seen, 1) + 1;
  if (number < control->first || number - control->first >= control->times) return verdict;
  if (number == control->first) note(fd, path, offset, size);
  atomic_fetch_add(&control->fired, 1);
  verdict.action = (enum action)control->action;
  if (verdict.action == ACTION_DELAY) {
    pause_for(control->value);
    verdict.action = ACTION_NONE;
  } else {
    verdict.error = (int)control->value;
  }
  return verdict;
}

int sync_now(int fd, bool data_only) {
  if (control && control->sync_micros != REAL_SYNC) {
    pause_for(control->sync_micros);
    return 0;
  }
  return (int)syscall(data_only ? SYS_fdatasync : SYS_fsync, fd);
}
