/* The kind of a file, by its path. The kind of a descriptor is asked for once and kept until it is closed. */
#define _GNU_SOURCE
#include "preload.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DESCRIPTORS 65536

static char store[PATH_BYTES], data[PATH_BYTES];
/* 0: not asked yet; else the kind plus one. */
static _Atomic unsigned char kinds[DESCRIPTORS];

static void set_root(char root[PATH_BYTES], const char *path) {
  snprintf(root, PATH_BYTES, "%s", path ? path : "");
  size_t end = strlen(root);
  while (end > 1 && root[end - 1] == '/') root[--end] = 0;
}

void files_begin(const char *store_path, const char *data_path) {
  set_root(store, store_path);
  set_root(data, data_path);
}

/* The rest of the path below a root, without a slash in front; NULL when it lies elsewhere. */
static const char *below(const char *root, const char *path) {
  size_t length = strlen(root);
  if (length == 0 || strncmp(path, root, length) != 0) return NULL;
  if (path[length] == 0) return path + length;
  return path[length] == '/' ? path + length + 1 : NULL;
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static bool ends(const char *text, const char *with) {
  size_t length = strlen(text), end = strlen(with);
  return length >= end && strcmp(text + length - end, with) == 0;
}

enum kind kind_of_path(const char *path) {
  const char *rest = below(store, path);
  if (rest) {
    if (*rest == 0 || strcmp(rest, "wal") == 0) return KIND_DIRECTORY;
    if (begins(rest, "wal/")) return KIND_LOG;
    if (begins(rest, "MANIFEST-") || begins(rest, "CURRENT")) return KIND_MANIFEST;
    return ends(rest, ".sst") ? KIND_TABLE : KIND_NONE;
  }
  rest = below(data, path);
  if (!rest) return KIND_NONE;
  if (begins(rest, "binlog.")) return KIND_BINLOG;
  if (begins(rest, "ib_logfile")) return KIND_REDO;
  if (begins(rest, "ibdata") || begins(rest, "undo0") || ends(rest, ".ibd")) return KIND_INNODB;
  return KIND_NONE;
}

bool path_of_fd(int fd, char out[PATH_BYTES]) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, name, out, PATH_BYTES - 1);
  if (length < 0) return false;
  out[length] = 0;
  /* The kernel's mark of a file without a name. */
  if (ends(out, " (deleted)")) out[length - (ssize_t)strlen(" (deleted)")] = 0;
  return true;
}

enum kind kind_of_fd(int fd) {
  if (fd < 0 || fd >= DESCRIPTORS || !control_is_there()) return KIND_NONE;
  unsigned char known = atomic_load(&kinds[fd]);
  if (known) return (enum kind)(known - 1);
  char path[PATH_BYTES];
  enum kind kind = path_of_fd(fd, path) ? kind_of_path(path) : KIND_NONE;
  fd_is(fd, kind);
  return kind;
}

void fd_is(int fd, enum kind kind) {
  if (fd >= 0 && fd < DESCRIPTORS) atomic_store(&kinds[fd], (unsigned char)(kind + 1));
}

void fd_is_gone(int fd) {
  if (fd >= 0 && fd < DESCRIPTORS) atomic_store(&kinds[fd], 0);
}

/* Adds a path's parts to `out`, in which `used` bytes stand. */
static bool append(char out[PATH_BYTES], size_t *used, const char *path) {
  while (*path) {
    while (*path == '/') path++;
    size_t length = strcspn(path, "/");
    if (length == 2 && path[0] == '.' && path[1] == '.') {
      while (*used > 0 && out[*used - 1] != '/') --*used;
      if (*used > 0) --*used;
    } else if (length > 0 && !(length == 1 && *path == '.')) {
      if (*used + length + 2 > PATH_BYTES) return false;
      out[(*used)++] = '/';
      memcpy(out + *used, path, length);
      *used += length;
    }
    path += length;
  }
  out[*used] = 0;
  return true;
}

bool absolute(int dir, const char *path, char out[PATH_BYTES]) {
  size_t used = 0;
  if (*path != '/') {
    char base[PATH_BYTES];
    bool known = dir == AT_FDCWD ? syscall(SYS_getcwd, base, sizeof base) > 0 : path_of_fd(dir, base);
    if (!known || !append(out, &used, base)) return false;
  }
  return append(out, &used, path);
}
