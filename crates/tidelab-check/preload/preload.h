/*
 * A library that is preloaded into a server and stands between it and its files.
 *
 * Two services, by the words of a control file that the laboratory writes while the server runs:
 *
 * - faults: one kind of call on one kind of file fails, tears, is delayed or lies (control.c);
 * - recording: the old bytes of every change of a file, and every change of a directory, go into a journal
 *   before the change. The laboratory takes the unsynced ones back after a kill (journal.c).
 *
 * Every call is counted by kind of file and kind of call, so that a check can say which ones it met.
 * `src/preload` of this crate is the other side of the control file and of the journal.
 *
 * Parts: files.c tells the kind of a file, control.c decides about a call, journal.c records, calls.c has the
 * C library's functions. System calls are made directly: no look-up of the next library's symbols is needed.
 */
#ifndef TIDELAB_PRELOAD_H
#define TIDELAB_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PRIVATE __attribute__((visibility("hidden")))

/* Longest path, with its zero byte. */
#define PATH_BYTES 4096

/* Kinds of files; the numbers are those of `Kind` in src/preload/mod.rs. */
enum kind {
  KIND_NONE,
  KIND_LOG,       /* the store's write-ahead log */
  KIND_TABLE,     /* its sorted tables */
  KIND_MANIFEST,  /* its manifests, and CURRENT */
  KIND_DIRECTORY, /* its directories */
  KIND_BINLOG,    /* the binary log and its index */
  KIND_REDO,      /* InnoDB's redo log */
  KIND_INNODB,    /* InnoDB's data files */
  KINDS
};

/* Kinds of calls; the numbers are those of `Call` in src/preload/mod.rs. */
enum call {
  CALL_OPEN,
  CALL_CREATE, /* open with O_CREAT */
  CALL_CLOSE,
  CALL_READ,
  CALL_WRITE,
  CALL_SYNC,  /* fsync, fdatasync */
  CALL_RANGE, /* sync_file_range */
  CALL_ALLOCATE,
  CALL_TRUNCATE,
  CALL_RENAME,
  CALL_UNLINK,
  CALL_LINK,
  CALL_MKDIR,
  CALL_MAP, /* shared and writable: changes that the library cannot see */
  CALLS
};

/* Decision about one call; the numbers are those of `Action`. */
enum action {
  ACTION_NONE,
  ACTION_FAIL,  /* -1 with an errno, nothing is done */
  ACTION_TEAR,  /* the first half is written, then as above */
  ACTION_SHORT, /* the first half is read or written, and the call says so */
  ACTION_DELAY, /* a wait before the call */
  ACTION_LIE    /* a sync says that it is done and does nothing */
};

struct verdict {
  enum action action;
  int error;
};

/* files.c */
PRIVATE void files_begin(const char *store, const char *data);
PRIVATE enum kind kind_of_path(const char *path);
PRIVATE enum kind kind_of_fd(int fd);
PRIVATE void fd_is(int fd, enum kind kind);
PRIVATE void fd_is_gone(int fd);
/* The path without `.`, `..` of the name's front, and double slashes, absolute. False: too long. */
PRIVATE bool absolute(int dir, const char *path, char out[PATH_BYTES]);
PRIVATE bool path_of_fd(int fd, char out[PATH_BYTES]);

/* control.c */
PRIVATE bool control_is_there(void);
PRIVATE bool recording(void);
/* Counts the call and says what becomes of it. A delay is over on return. */
PRIVATE struct verdict decide(enum kind kind, enum call call, int fd, const char *path, off_t offset,
                              size_t size);
/* What a sync does when it is honest: the system call, or the wait that stands in for it. */
PRIVATE int sync_now(int fd, bool data_only);

/* journal.c: each of these but the last two is called between journal_lock and journal_unlock. */
PRIVATE bool journal_begin(const char *side);
PRIVATE void journal_lock(void);
PRIVATE void journal_unlock(void);
PRIVATE void journal_write(int fd, enum kind kind, off_t offset, size_t size);
PRIVATE void journal_length(int fd, enum kind kind, off_t length);
PRIVATE void journal_created(const char *path, enum kind kind, int fd);
PRIVATE void journal_linked(const char *path, enum kind kind);
PRIVATE void journal_unlink(const char *path, enum kind kind);
PRIVATE void journal_rename(const char *from, const char *to, enum kind kind);
PRIVATE void journal_directory(const char *path, enum kind kind, bool made);
/* The position up to which a sync that begins now counts. */
PRIVATE uint64_t journal_position(void);
PRIVATE void journal_synced(int fd, enum kind kind, uint64_t upto, bool succeeded);

#endif
