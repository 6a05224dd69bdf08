/*
 * The journal of changes that a power cut may take back. Each record stands before its change is made, so
 * that a killed process leaves no change without one; only the creation of a file follows it, for its inode's
 * number. One lock orders records and changes: of two changes of a page, the later record is the later
 * change.
 *
 * A file that loses its last name keeps one in the folder `trash`, under the number of its inode, so that the
 * name can come back, and so that the number is not given away. src/preload/journal.rs reads all of this.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The numbers are those of `Entry::read`. */
enum record_type {
  RECORD_WRITE = 1,   /* at: offset, size, extra: length before; the old bytes */
  RECORD_LENGTH,      /* at: new length, extra: length before; the bytes that are cut off */
  RECORD_SYNC,        /* extra: what stands before this position is durable */
  RECORD_FAILED_SYNC, /* extra: what stands before this position is clean, and durable or not */
  RECORD_CREATE,      /* a path */
  RECORD_UNLINK,      /* a path */
  RECORD_RENAME,      /* extra: the inode that was replaced, or 0; two paths, a zero byte between */
  RECORD_LINK,        /* a path */
  RECORD_MKDIR,       /* a path */
  RECORD_RMDIR,       /* a path */
  RECORD_SYNC_DIR,    /* extra: as of RECORD_SYNC; a path */
};

struct header {
  uint32_t magic;
  uint16_t type;
  uint16_t kind;
  uint64_t inode;
  uint64_t at;
  uint64_t size;
  uint64_t extra;
  uint64_t payload; /* bytes after this header */
};

#define MAGIC 0x4c4e524aU
/* Old bytes are copied in parts of this size. */
#define PART (64 << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;
static uint64_t end;
static char trash[PATH_BYTES];

/* The process before was killed perhaps while it wrote a record, whose change was not made. */
static bool cut_off_half_a_record(void) {
  struct header header;
  uint64_t size = (uint64_t)syscall(SYS_lseek, journal, (off_t)0, SEEK_END);
  end = 0;
  while (end + sizeof header <= size) {
    if (syscall(SYS_pread64, journal, &header, sizeof header, (off_t)end) != (ssize_t)sizeof header)
      return false;
    if (header.magic != MAGIC) return false;
    uint64_t next = end + sizeof header + header.payload;
    if (next > size) break;
    end = next;
  }
  return syscall(SYS_ftruncate, journal, (off_t)end) == 0;
}

bool journal_begin(const char *side) {
  char path[PATH_BYTES];
  if ((size_t)snprintf(path, sizeof path, "%s/journal", side) >= sizeof path) return false;
  if ((size_t)snprintf(trash, sizeof trash, "%s/trash", side) >= sizeof trash) return false;
  journal = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (journal < 0) return false;
  return cut_off_half_a_record();
}

void journal_lock(void) { pthread_mutex_lock(&lock); }
void journal_unlock(void) { pthread_mutex_unlock(&lock); }

/* A journal that is not complete would make a wrong verdict: the process ends instead. */
static void stop(const char *why) {
  fprintf(stderr, "tidelab preload: %s\n", why);
  abort();
}

static void put(const void *bytes, size_t size) {
  while (size > 0) {
    ssize_t done = syscall(SYS_pwrite64, journal, bytes, size, (off_t)end);
    if (done <= 0) stop("the journal cannot be written");
    bytes = (const char *)bytes + done;
    size -= (size_t)done;
    end += (uint64_t)done;
  }
}

static void put_header(enum record_type type, enum kind kind, uint64_t inode, uint64_t at, uint64_t size,
                       uint64_t extra, uint64_t payload) {
  struct header header = {MAGIC, (uint16_t)type, (uint16_t)kind, inode, at, size, extra, payload};
  put(&header, sizeof header);
}

static void put_path(enum record_type type, enum kind kind, uint64_t inode, uint64_t extra,
                     const char *path) {
  put_header(type, kind, inode, 0, 0, extra, strlen(path));
  put(path, strlen(path));
}

static bool look(int dir, const char *path, int flags, struct stat *stat) {
  return fstatat(dir, path, stat, flags) == 0;
}

/* Copies bytes of a file into the journal. The descriptor may be one for writing only, or for direct I/O. */
static void put_old(int fd, off_t offset, size_t size) {
  int flags = (int)syscall(SYS_fcntl, fd, F_GETFL, 0), reader = fd;
  if ((flags & O_ACCMODE) == O_WRONLY || (flags & O_DIRECT)) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    reader = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);
    if (reader < 0) stop("the old bytes of a file cannot be read");
  }
  static char part[PART];
  while (size > 0) {
    size_t wanted = size < PART ? size : PART;
    ssize_t found = syscall(SYS_pread64, reader, part, wanted, offset);
    size_t have = found > 0 ? (size_t)found : 0;
    memset(part + have, 0, wanted - have);
    put(part, wanted);
    offset += (off_t)wanted;
    size -= wanted;
  }
  if (reader != fd && reader >= 0) syscall(SYS_close, reader);
}

void journal_write(int fd, enum kind kind, off_t offset, size_t size) {
  struct stat stat;
  if (size == 0 || fstat(fd, &stat) != 0) return;
  size_t old = offset >= stat.st_size                ? 0
               : (off_t)size > stat.st_size - offset ? (size_t)(stat.st_size - offset)
                                                     : size;
  put_header(RECORD_WRITE, kind, stat.st_ino, (uint64_t)offset, size, (uint64_t)stat.st_size, old);
  put_old(fd, offset, old);
}

void journal_length(int fd, enum kind kind, off_t length) {
  struct stat stat;
  if (fstat(fd, &stat) != 0 || stat.st_size == length) return;
  size_t cut = length < stat.st_size ? (size_t)(stat.st_size - length) : 0;
  put_header(RECORD_LENGTH, kind, stat.st_ino, (uint64_t)length, 0, (uint64_t)stat.st_size, cut);
  put_old(fd, length, cut);
}

void journal_created(const char *path, enum kind kind, int fd) {
  struct stat stat;
  if (fstat(fd, &stat) == 0) put_path(RECORD_CREATE, kind, stat.st_ino, 0, path);
}

void journal_linked(const char *path, enum kind kind) {
  struct stat stat;
  if (look(AT_FDCWD, path, 0, &stat)) put_path(RECORD_LINK, kind, stat.st_ino, 0, path);
}

/* The inode's number after its file has a name in the trash; 0 when there is no file. */
static uint64_t keep(const char *path) {
  struct stat stat;
  if (!look(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, &stat) || !S_ISREG(stat.st_mode)) return 0;
  char name[PATH_BYTES + 32];
  snprintf(name, sizeof name, "%s/%llu", trash, (unsigned long long)stat.st_ino);
  /* One that is there already is this file. */
  syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, name, 0);
  return stat.st_ino;
}

void journal_unlink(const char *path, enum kind kind) {
  uint64_t inode = keep(path);
  if (inode) put_path(RECORD_UNLINK, kind, inode, 0, path);
}

void journal_rename(const char *from, const char *to, enum kind kind) {
  struct stat stat;
  if (!look(AT_FDCWD, from, AT_SYMLINK_NOFOLLOW, &stat)) return;
  uint64_t replaced = keep(to);
  size_t first = strlen(from), second = strlen(to);
  put_header(RECORD_RENAME, kind, stat.st_ino, 0, 0, replaced, first + 1 + second);
  put(from, first + 1);
  put(to, second);
}

void journal_directory(const char *path, enum kind kind, bool made) {
  put_path(made ? RECORD_MKDIR : RECORD_RMDIR, kind, 0, 0, path);
}

uint64_t journal_position(void) {
  journal_lock();
  uint64_t position = end;
  journal_unlock();
  return position;
}

void journal_synced(int fd, enum kind kind, uint64_t upto, bool succeeded) {
  struct stat stat;
  char path[PATH_BYTES];
  if (fstat(fd, &stat) != 0) return;
  journal_lock();
  if (!S_ISDIR(stat.st_mode)) {
    put_header(succeeded ? RECORD_SYNC : RECORD_FAILED_SYNC, kind, stat.st_ino, 0, 0, upto, 0);
  } else if (succeeded && path_of_fd(fd, path)) {
    put_path(RECORD_SYNC_DIR, kind, stat.st_ino, upto, path);
  }
  journal_unlock();
}
