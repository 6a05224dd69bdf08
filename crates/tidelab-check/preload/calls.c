/*
 * The functions of the C library that a server uses on files, each once for every name under which programs
 * call it. A function asks control.c, then records, then makes the system call.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

/* The C library's headers call the names with 64 by macros where a program asks for it; this one does not. */
#ifdef _FILE_OFFSET_BITS
#error "both names of each function are defined here"
#endif

#define PUBLIC __attribute__((visibility("default")))
#define ALIAS(name) __attribute__((visibility("default"), alias(name)))

/* -1 with the errno of an injected failure. */
static int refuse(struct verdict verdict) {
  errno = verdict.error;
  return -1;
}

/* ---- opening and closing ---- */

static int open_file(int dir, const char *path, int flags, mode_t mode) {
  char full[PATH_BYTES];
  enum kind kind = KIND_NONE;
  if (control_is_there() && absolute(dir, path, full)) kind = kind_of_path(full);
  if (kind == KIND_NONE) {
    int fd = (int)syscall(SYS_openat, dir, path, flags, mode);
    /* Asked for by the descriptor when it is used: a link may lead to a file of a kind. */
    fd_is_gone(fd);
    return fd;
  }
  struct verdict verdict = decide(kind, flags & O_CREAT ? CALL_CREATE : CALL_OPEN, -1, full, 0, 0);
  if (verdict.action == ACTION_FAIL) return refuse(verdict);
  bool changes = recording() && kind != KIND_DIRECTORY && flags & (O_CREAT | O_TRUNC);
  struct stat stat;
  bool was_there = true;
  if (changes) {
    journal_lock();
    was_there = fstatat(dir, path, &stat, 0) == 0;
    if (was_there && flags & O_TRUNC && stat.st_size > 0) {
      int old = (int)syscall(SYS_openat, dir, path, O_RDONLY | O_CLOEXEC, 0);
      journal_length(old, kind, 0);
      syscall(SYS_close, old);
    }
  }
  int fd = (int)syscall(SYS_openat, dir, path, flags, mode);
  int error = errno;
  if (changes) {
    if (fd >= 0 && !was_there) journal_created(full, kind, fd);
    journal_unlock();
  }
  fd_is(fd, kind);
  errno = error;
  return fd;
}

static mode_t mode_of(int flags, va_list list) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

#define OPEN_BODY(dir)                \
  va_list list;                       \
  va_start(list, flags);              \
  mode_t mode = mode_of(flags, list); \
  va_end(list);                       \
  return open_file(dir, path, flags, mode)

PUBLIC int open(const char *path, int flags, ...) { OPEN_BODY(AT_FDCWD); }
PUBLIC int open64(const char *path, int flags, ...) { OPEN_BODY(AT_FDCWD); }
PUBLIC int openat(int dir, const char *path, int flags, ...) { OPEN_BODY(dir); }
PUBLIC int openat64(int dir, const char *path, int flags, ...) { OPEN_BODY(dir); }
PUBLIC int __open_2(const char *path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }
PUBLIC int __open64_2(const char *path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }
PUBLIC int __openat_2(int dir, const char *path, int flags) { return open_file(dir, path, flags, 0); }
PUBLIC int __openat64_2(int dir, const char *path, int flags) { return open_file(dir, path, flags, 0); }

PUBLIC int creat(const char *path, mode_t mode) {
  return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
ALIAS("creat") int creat64(const char *path, mode_t mode);

PUBLIC int close(int fd) {
  struct verdict verdict = decide(kind_of_fd(fd), CALL_CLOSE, fd, NULL, 0, 0);
  fd_is_gone(fd);
  int result = (int)syscall(SYS_close, fd);
  /* As the kernel does: the descriptor is gone all the same. */
  return verdict.action == ACTION_FAIL ? refuse(verdict) : result;
}

PUBLIC int dup2(int from, int to) {
  if (from == to) return (int)syscall(SYS_fcntl, from, F_GETFD, 0) < 0 ? -1 : to;
  fd_is_gone(to);
  return (int)syscall(SYS_dup3, from, to, 0);
}

PUBLIC int dup3(int from, int to, int flags) {
  fd_is_gone(to);
  return (int)syscall(SYS_dup3, from, to, flags);
}

/* ---- reading and writing ---- */

/* A call of any of the eight forms. */
struct transfer {
  int fd;
  const struct iovec *parts;
  int count;
  off_t offset; /* -1: at the descriptor's position */
};

/* At most so many parts can be cut short; nobody here uses more. */
#define PARTS 64

static size_t size_of(const struct transfer *transfer) {
  size_t size = 0;
  for (int part = 0; part < transfer->count; part++) size += transfer->parts[part].iov_len;
  return size;
}

/* The first `size` bytes of the transfer. */
static struct transfer cut(const struct transfer *whole, size_t size, struct iovec parts[PARTS]) {
  struct transfer half = *whole;
  half.parts = parts;
  half.count = 0;
  while (size > 0) {
    struct iovec part = whole->parts[half.count];
    if (part.iov_len > size) part.iov_len = size;
    size -= part.iov_len;
    parts[half.count++] = part;
  }
  return half;
}

static ssize_t read_now(const struct transfer *t) {
  if (t->count == 1 && t->offset < 0) return syscall(SYS_read, t->fd, t->parts->iov_base, t->parts->iov_len);
  if (t->count == 1) return syscall(SYS_pread64, t->fd, t->parts->iov_base, t->parts->iov_len, t->offset);
  if (t->offset < 0) return syscall(SYS_readv, t->fd, t->parts, t->count);
  return syscall(SYS_preadv, t->fd, t->parts, t->count, t->offset, 0);
}

static ssize_t write_now(const struct transfer *t) {
  if (t->count == 1 && t->offset < 0) return syscall(SYS_write, t->fd, t->parts->iov_base, t->parts->iov_len);
  if (t->count == 1) return syscall(SYS_pwrite64, t->fd, t->parts->iov_base, t->parts->iov_len, t->offset);
  if (t->offset < 0) return syscall(SYS_writev, t->fd, t->parts, t->count);
  return syscall(SYS_pwritev, t->fd, t->parts, t->count, t->offset, 0);
}

static off_t position_of(int fd) {
  struct stat stat;
  if ((int)syscall(SYS_fcntl, fd, F_GETFL, 0) & O_APPEND && fstat(fd, &stat) == 0) return stat.st_size;
  return (off_t)syscall(SYS_lseek, fd, (off_t)0, SEEK_CUR);
}

static ssize_t write_recorded(const struct transfer *transfer, enum kind kind) {
  if (!recording() || kind == KIND_NONE) return write_now(transfer);
  journal_lock();
  off_t offset = transfer->offset < 0 ? position_of(transfer->fd) : transfer->offset;
  journal_write(transfer->fd, kind, offset, size_of(transfer));
  ssize_t done = write_now(transfer);
  int error = errno;
  journal_unlock();
  errno = error;
  return done;
}

static ssize_t move_bytes(struct transfer whole, enum call call) {
  enum kind kind = kind_of_fd(whole.fd);
  ssize_t (*now)(const struct transfer *, enum kind) = write_recorded;
  if (kind == KIND_NONE) return call == CALL_READ ? read_now(&whole) : write_now(&whole);
  size_t size = size_of(&whole);
  off_t offset = whole.offset < 0 ? position_of(whole.fd) : whole.offset;
  struct verdict verdict = decide(kind, call, whole.fd, NULL, offset, size);
  if (verdict.action == ACTION_FAIL) return refuse(verdict);
  bool half =
      (verdict.action == ACTION_TEAR || verdict.action == ACTION_SHORT) && size > 1 && whole.count <= PARTS;
  struct iovec parts[PARTS];
  struct transfer asked = half ? cut(&whole, size / 2, parts) : whole;
  ssize_t done = call == CALL_READ ? read_now(&asked) : now(&asked, kind);
  return verdict.action == ACTION_TEAR ? refuse(verdict) : done;
}

#define ONE(fd, bytes, size, offset, call)                \
  struct iovec part = {(void *)(uintptr_t)(bytes), size}; \
  return move_bytes((struct transfer){fd, &part, 1, offset}, call)

PUBLIC ssize_t read(int fd, void *bytes, size_t size) { ONE(fd, bytes, size, -1, CALL_READ); }
PUBLIC ssize_t __read_chk(int fd, void *bytes, size_t size, size_t room) {
  (void)room;
  ONE(fd, bytes, size, -1, CALL_READ);
}
PUBLIC ssize_t pread(int fd, void *bytes, size_t size, off_t offset) {
  ONE(fd, bytes, size, offset, CALL_READ);
}
ALIAS("pread") ssize_t pread64(int fd, void *bytes, size_t size, off_t offset);
PUBLIC ssize_t __pread_chk(int fd, void *bytes, size_t size, off_t offset, size_t room) {
  (void)room;
  ONE(fd, bytes, size, offset, CALL_READ);
}
ALIAS("__pread_chk") ssize_t __pread64_chk(int fd, void *bytes, size_t size, off_t offset, size_t room);
PUBLIC ssize_t readv(int fd, const struct iovec *parts, int count) {
  return move_bytes((struct transfer){fd, parts, count, -1}, CALL_READ);
}
PUBLIC ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset) {
  return move_bytes((struct transfer){fd, parts, count, offset}, CALL_READ);
}
ALIAS("preadv") ssize_t preadv64(int fd, const struct iovec *parts, int count, off_t offset);

PUBLIC ssize_t write(int fd, const void *bytes, size_t size) { ONE(fd, bytes, size, -1, CALL_WRITE); }
PUBLIC ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
  ONE(fd, bytes, size, offset, CALL_WRITE);
}
ALIAS("pwrite") ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t offset);
PUBLIC ssize_t writev(int fd, const struct iovec *parts, int count) {
  return move_bytes((struct transfer){fd, parts, count, -1}, CALL_WRITE);
}
PUBLIC ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
  return move_bytes((struct transfer){fd, parts, count, offset}, CALL_WRITE);
}
ALIAS("pwritev") ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset);

/* ---- durability ---- */

static int sync_file(int fd, bool data_only) {
  enum kind kind = kind_of_fd(fd);
  if (kind == KIND_NONE) return (int)syscall(data_only ? SYS_fdatasync : SYS_fsync, fd);
  struct verdict verdict = decide(kind, CALL_SYNC, fd, NULL, 0, 0);
  if (verdict.action == ACTION_LIE) return 0;
  uint64_t upto = recording() ? journal_position() : 0;
  int result = verdict.action == ACTION_FAIL ? refuse(verdict) : sync_now(fd, data_only);
  int error = errno;
  if (recording()) journal_synced(fd, kind, upto, result == 0);
  errno = error;
  return result;
}

PUBLIC int fsync(int fd) { return sync_file(fd, false); }
PUBLIC int fdatasync(int fd) { return sync_file(fd, true); }

/* Starts writing and promises nothing: a power cut takes its bytes back as any others. */
PUBLIC int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags) {
  struct verdict verdict = decide(kind_of_fd(fd), CALL_RANGE, fd, NULL, offset, (size_t)size);
  if (verdict.action == ACTION_FAIL) return refuse(verdict);
  return (int)syscall(SYS_sync_file_range, fd, offset, size, flags);
}

/* ---- lengths ---- */

/* Runs `change` after its new length is in the journal. */
#define RECORDED_LENGTH(result, fd, kind, length, change) \
  do {                                                    \
    bool kept = recording() && (kind) != KIND_NONE;       \
    if (kept) {                                           \
      journal_lock();                                     \
      journal_length(fd, kind, length);                   \
    }                                                     \
    (result) = (int)(change);                             \
    int error = errno;                                    \
    if (kept) journal_unlock();                           \
    errno = error;                                        \
  } while (0)

PUBLIC int fallocate(int fd, int mode, off_t offset, off_t size) {
  enum kind kind = kind_of_fd(fd);
  struct verdict verdict = decide(kind, CALL_ALLOCATE, fd, NULL, offset, (size_t)size);
  if (verdict.action == ACTION_FAIL) return refuse(verdict);
  struct stat stat;
  /* Other modes are not used on these files; growth by the plain mode alone changes a length. */
  bool grows = mode == 0 && fstat(fd, &stat) == 0 && offset + size > stat.st_size;
  int result;
  RECORDED_LENGTH(result, fd, grows ? kind : KIND_NONE, offset + size,
                  syscall(SYS_fallocate, fd, mode, offset, size));
  return result;
}
ALIAS("fallocate") int fallocate64(int fd, int mode, off_t offset, off_t size);

PUBLIC int posix_fallocate(int fd, off_t offset, off_t size) {
  int before = errno, result = fallocate(fd, 0, offset, size) == 0 ? 0 : errno;
  errno = before;
  return result;
}
ALIAS("posix_fallocate") int posix_fallocate64(int fd, off_t offset, off_t size);

PUBLIC int ftruncate(int fd, off_t length) {
  enum kind kind = kind_of_fd(fd);
  struct verdict verdict = decide(kind, CALL_TRUNCATE, fd, NULL, length, 0);
  if (verdict.action == ACTION_FAIL) return refuse(verdict);
  int result;
  RECORDED_LENGTH(result, fd, kind, length, syscall(SYS_ftruncate, fd, length));
  return result;
}
ALIAS("ftruncate") int ftruncate64(int fd, off_t length);

PUBLIC int truncate(const char *path, off_t length) {
  int fd = open_file(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
  if (fd < 0) return -1;
  int result = ftruncate(fd, length), error = errno;
  fd_is_gone(fd);
  syscall(SYS_close, fd);
  errno = error;
  return result;
}
ALIAS("truncate") int truncate64(const char *path, off_t length);

/* ---- names ---- */

/* The kind of a name, and its absolute path. */
static enum kind kind_of_name(int dir, const char *path, char full[PATH_BYTES]) {
  return control_is_there() && absolute(dir, path, full) ? kind_of_path(full) : KIND_NONE;
}

static int rename_file(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
  char full_from[PATH_BYTES], full_to[PATH_BYTES];
  enum kind kind = kind_of_name(to_dir, to, full_to), other = kind_of_name(from_dir, from, full_from);
  if (kind == KIND_NONE) kind = other;
  struct verdict verdict = decide(kind, CALL_RENAME, -1, full_from, 0, 0);
  if (verdict.action == ACTION_FAIL) return refuse(verdict);
  bool kept = recording() && kind != KIND_NONE;
  if (kept) {
    journal_lock();
    journal_rename(full_from, full_to, kind);
  }
  int result = (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags), error = errno;
  if (kept) journal_unlock();
  errno = error;
  return result;
}

PUBLIC int rename(const char *from, const char *to) { return rename_file(AT_FDCWD, from, AT_FDCWD, to, 0); }
PUBLIC int renameat(int from_dir, const char *from, int to_dir, const char *to) {
  return rename_file(from_dir, from, to_dir, to, 0);
}
PUBLIC int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
  return rename_file(from_dir, from, to_dir, to, flags);
}

static int remove_name(int dir, const char *path, int flags) {
  char full[PATH_BYTES];
  enum kind kind = kind_of_name(dir, path, full);
  struct verdict verdict = decide(kind, CALL_UNLINK, -1, full, 0, 0);
  if (verdict.action == ACTION_FAIL) return refuse(verdict);
  bool kept = recording() && kind != KIND_NONE;
  if (kept) {
    journal_lock();
    if (flags & AT_REMOVEDIR) {
      journal_directory(full, kind, false);
    } else {
      journal_unlink(full, kind);
    }
  }
  int result = (int)syscall(SYS_unlinkat, dir, path, flags), error = errno;
  if (kept) journal_unlock();
  errno = error;
  return result;
}

PUBLIC int unlink(const char *path) { return remove_name(AT_FDCWD, path, 0); }
PUBLIC int unlinkat(int dir, const char *path, int flags) { return remove_name(dir, path, flags); }
PUBLIC int rmdir(const char *path) { return remove_name(AT_FDCWD, path, AT_REMOVEDIR); }

PUBLIC int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
  char full[PATH_BYTES], full_from[PATH_BYTES];
  enum kind kind = kind_of_name(to_dir, to, full), other = kind_of_name(from_dir, from, full_from);
  /* A name outside of the roots, as in a checkpoint, is counted by its file and not recorded. */
  struct verdict verdict = decide(kind == KIND_NONE ? other : kind, CALL_LINK, -1, full, 0, 0);
  if (verdict.action == ACTION_FAIL) return refuse(verdict);
  bool kept = recording() && kind != KIND_NONE;
  if (kept) journal_lock();
  int result = (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags), error = errno;
  if (kept) {
    if (result == 0) journal_linked(full, kind);
    journal_unlock();
  }
  errno = error;
  return result;
}

PUBLIC int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

PUBLIC int mkdirat(int dir, const char *path, mode_t mode) {
  char full[PATH_BYTES];
  enum kind kind = kind_of_name(dir, path, full);
  struct verdict verdict = decide(kind, CALL_MKDIR, -1, full, 0, 0);
  if (verdict.action == ACTION_FAIL) return refuse(verdict);
  bool kept = recording() && kind != KIND_NONE;
  if (kept) journal_lock();
  int result = (int)syscall(SYS_mkdirat, dir, path, mode), error = errno;
  if (kept) {
    if (result == 0) journal_directory(full, kind, true);
    journal_unlock();
  }
  errno = error;
  return result;
}
PUBLIC int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* ---- mapping ---- */

PUBLIC void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  void *mapped = (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
  /* Counted alone. A refused one writes nothing: InnoDB asks for persistent memory at each start. */
  if (fd >= 0 && mapped != MAP_FAILED && protection & PROT_WRITE && (flags & MAP_TYPE) != MAP_PRIVATE) {
    decide(kind_of_fd(fd), CALL_MAP, fd, NULL, offset, size);
  }
  return mapped;
}
ALIAS("mmap") void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
