/*
 * What the header promises, asked of the library from C: `interface DIRECTORY GROUP` runs one group of
 * cases in an empty directory and ends with 0 when all of them hold. Valid as C11 and as C++17;
 * compiled and run by c_interface.rs.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "tidesdb.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                              \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      fprintf(stderr, "%s:%d: %s does not hold; last error: %s\n", __FILE__, __LINE__, #condition,    \
              tidesdb_last_error());                                                                  \
      exit(1);                                                                                        \
    }                                                                                                 \
  } while (0)

#define IS(expected, call)                                                                            \
  do {                                                                                                \
    int status_of_call = (call);                                                                      \
    if (status_of_call != (expected)) {                                                               \
      fprintf(stderr, "%s:%d: %s is %d (%s), not %s: %s\n", __FILE__, __LINE__, #call, status_of_call, \
              tidesdb_strerror(status_of_call), #expected, tidesdb_last_error());                     \
      exit(1);                                                                                        \
    }                                                                                                 \
  } while (0)

#define OK(call) IS(TIDESDB_OK, call)

static char path[4096];

/* ---- lock waits, seen by the observer ---- */

static pthread_mutex_t latch = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int waits, longer_waits, ended_waits, durable;
static void *last_waiter, *last_holder;

static void wait_begins(void *context, void *waiter, void *const *holders, size_t count) {
  CHECK(context == &waits && count > 0);
  pthread_mutex_lock(&latch);
  waits++;
  last_waiter = waiter;
  last_holder = holders[0];
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&latch);
}

static void wait_goes_on(void *context, void *waiter, void *const *holders, size_t count) {
  CHECK(context == &waits && count > 0);
  pthread_mutex_lock(&latch);
  longer_waits++;
  last_waiter = waiter;
  last_holder = holders[0];
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&latch);
}

static void wait_ends(void *context, void *waiter) {
  CHECK(context == &waits);
  pthread_mutex_lock(&latch);
  ended_waits++;
  last_waiter = waiter;
  pthread_mutex_unlock(&latch);
}

/* Appliers with cookies of one group: the order of their commits is fixed. */
static int gaps_conflict(void *context, void *a, void *b) {
  CHECK(context == &waits && a != b);
  return *(int *)a != *(int *)b;
}

static int deadlocks;
static void *victim;
static uint8_t reason_of_victim;

static void deadlock(void *context, const tidesdb_deadlock *found) {
  size_t i;
  CHECK(context == &waits && found->wait_count == 2 && found->victim < 2);
  for (i = 0; i < 2; i++) {
    const tidesdb_deadlock_wait *wait = &found->waits[i], *next = &found->waits[1 - i];
    CHECK(wait->wants.waiting && wait->wants.kind == TIDESDB_LOCKED_KEY && wait->wants.key.size == 1);
    CHECK(wait->wants.txn == next->in_the_way.txn && wait->wants.blocking_txn == next->wants.txn);
    CHECK(!wait->in_the_way.waiting && wait->in_the_way.mode.size == 1 && *wait->in_the_way.mode.data == 'X');
    CHECK(wait->wants.key.bytes.data[0] != next->wants.key.bytes.data[0]);
  }
  uint64_t written = found->waits[found->victim].written, of_other = found->waits[1 - found->victim].written;
  if (found->reason != TIDESDB_VICTIM_PREFERRED) {
    CHECK(written <= of_other);
    CHECK(found->reason == (written < of_other ? TIDESDB_VICTIM_WROTE_LEAST : TIDESDB_VICTIM_YOUNGEST));
  }
  pthread_mutex_lock(&latch);
  deadlocks++;
  reason_of_victim = found->reason;
  victim = found->waits[found->victim].cookie;
  pthread_mutex_unlock(&latch);
}

/* Waits until *counter is at least `least`; ends the program after two minutes: a sync of a real disk that a build
   has just filled can take half of one. */
static void await(const int *counter, int least) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 120;
  pthread_mutex_lock(&latch);
  while (*counter < least)
    CHECK(pthread_cond_timedwait(&changed, &latch, &until) == 0);
  pthread_mutex_unlock(&latch);
}

static void is_durable(void *cookie, int status) {
  OK(status);
  CHECK(cookie == &durable);
  pthread_mutex_lock(&latch);
  durable++;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&latch);
}

/* ---- shorthands ---- */

static tidesdb_slice slice(const char *string) {
  tidesdb_slice s;
  s.data = (const uint8_t *)string;
  s.size = string ? strlen(string) : 0;
  return s;
}

static tidesdb_db *open_at(const char *directory) {
  static tidesdb_wait_observer observer;
  tidesdb_options options;
  tidesdb_db *db;
  observer.context = &waits;
  observer.wait_begins = wait_begins;
  observer.wait_ends = wait_ends;
  observer.gaps_conflict = gaps_conflict;
  observer.deadlock = deadlock;
  observer.wait_goes_on = wait_goes_on;
  tidesdb_options_init(&options);
  options.write_buffer_size = 1 << 20;
  options.sync_mode = TIDESDB_SYNC_NONE;
  options.observer = &observer;
  OK(tidesdb_open(directory, &options, &db));
  return db;
}

static tidesdb_family *make_family(tidesdb_db *db, const char *name) {
  tidesdb_family_options options;
  tidesdb_ddl *ddl;
  tidesdb_family *family;
  tidesdb_family_options_init(&options);
  OK(tidesdb_ddl_begin(db, &ddl));
  OK(tidesdb_ddl_create(ddl, slice(name), &options, slice("")));
  OK(tidesdb_ddl_commit(ddl));
  OK(tidesdb_family_open(db, slice(name), &family));
  return family;
}

static tidesdb_txn *make_txn(tidesdb_db *db) {
  tidesdb_txn *txn;
  OK(tidesdb_txn_create(db, &txn));
  return txn;
}

static tidesdb_txn *begin_txn(tidesdb_db *db) {
  tidesdb_txn *txn = make_txn(db);
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  return txn;
}

static tidesdb_cursor *make_cursor(tidesdb_family *family) {
  tidesdb_cursor *cursor;
  OK(tidesdb_cursor_open(family, &cursor));
  return cursor;
}

static int change_with(tidesdb_txn *txn, tidesdb_family *family, int kind, const char *key, const char *value,
                       int flags) {
  tidesdb_op op;
  size_t failed = 77;
  int status;
  memset(&op, 0, sizeof op);
  op.family = family;
  op.key = slice(key);
  op.value = slice(value);
  op.kind = (uint8_t)kind;
  op.flags = (uint8_t)(TIDESDB_OP_LOCK | flags);
  status = tidesdb_write(txn, &op, 1, &failed);
  CHECK(status == TIDESDB_OK ? failed == 77 : failed == 0 || failed == 77);
  return status;
}

static int change(tidesdb_txn *txn, tidesdb_family *family, int kind, const char *key, const char *value) {
  return change_with(txn, family, kind, key, value, 0);
}

static int put(tidesdb_txn *txn, tidesdb_family *family, const char *key, const char *value) {
  return change(txn, family, TIDESDB_PUT, key, value);
}

static int get(tidesdb_cursor *cursor, tidesdb_txn *txn, const char *key, int mode, tidesdb_slice *value) {
  return tidesdb_cursor_get(cursor, txn, (const uint8_t *)key, strlen(key), mode, value);
}

static void reads(tidesdb_cursor *cursor, tidesdb_txn *txn, const char *key, const char *expected) {
  tidesdb_slice value;
  if (!expected) {
    IS(TIDESDB_NOT_FOUND, get(cursor, txn, key, TIDESDB_READ_SNAPSHOT, &value));
    return;
  }
  OK(get(cursor, txn, key, TIDESDB_READ_SNAPSHOT, &value));
  CHECK(value.size == strlen(expected) && memcmp(value.data, expected, value.size) == 0);
}

static int seek_to(tidesdb_cursor *cursor, tidesdb_txn *txn, int where, const char *key, size_t prefix,
                   const char *bound, int mode) {
  tidesdb_seek seek;
  memset(&seek, 0, sizeof seek);
  seek.key = (const uint8_t *)key;
  seek.key_size = key ? strlen(key) : 0;
  seek.prefix_size = prefix;
  seek.bound = (const uint8_t *)bound;
  seek.bound_size = bound ? strlen(bound) : 0;
  seek.where = (uint8_t)where;
  seek.mode = (uint8_t)mode;
  return tidesdb_cursor_seek(cursor, txn, &seek);
}

static void current_is(const tidesdb_cursor *cursor, const char *key) {
  const tidesdb_row *row = &cursor->rows[cursor->position];
  CHECK(cursor->position < cursor->count);
  CHECK(row->key_size == strlen(key) && memcmp(row->key, key, row->key_size) == 0);
}

/* The keys of a whole scan, in its direction, each followed by a space, are `expected`. */
static void scans(tidesdb_cursor *cursor, tidesdb_txn *txn, int where, const char *key, size_t prefix,
                  const char *bound, const char *expected) {
  char found[4096];
  size_t size = 0;
  int backward = where == TIDESDB_SEEK_AT_OR_BEFORE || where == TIDESDB_SEEK_BEFORE || where == TIDESDB_SEEK_LAST;
  int status = seek_to(cursor, txn, where, key, prefix, bound, TIDESDB_READ_SNAPSHOT);
  while (status == TIDESDB_OK) {
    const tidesdb_row *row = &cursor->rows[cursor->position];
    CHECK(size + row->key_size + 2 < sizeof found);
    memcpy(found + size, row->key, row->key_size);
    size += row->key_size;
    found[size++] = ' ';
    status = backward ? tidesdb_cursor_prev(cursor) : tidesdb_cursor_next(cursor);
  }
  IS(TIDESDB_NOT_FOUND, status);
  found[size] = 0;
  if (strcmp(found, expected) != 0) {
    fprintf(stderr, "where %d key %s prefix %zu bound %s: '%s' and not '%s'\n", where, key ? key : "-", prefix,
            bound ? bound : "-", found, expected);
    exit(1);
  }
}

/* A change made by another thread. */
typedef struct job {
  tidesdb_txn *txn;
  tidesdb_family *family;
  const char *key;
  int status;
  pthread_t thread;
} job;

static void *work(void *argument) {
  job *j = (job *)argument;
  j->status = put(j->txn, j->family, j->key, "from a thread");
  CHECK(j->status == TIDESDB_OK || tidesdb_last_error()[0] != 0);
  if (j->status != TIDESDB_OK)
    OK(tidesdb_txn_rollback(j->txn));
  return NULL;
}

static void start(job *j, tidesdb_txn *txn, tidesdb_family *family, const char *key) {
  j->txn = txn;
  j->family = family;
  j->key = key;
  j->status = -1;
  CHECK(pthread_create(&j->thread, NULL, work, j) == 0);
}

static void *lock_the_table(void *argument) {
  job *j = (job *)argument;
  j->status = tidesdb_lock_table(j->txn, j->family, TIDESDB_LOCK_SHARED);
  return NULL;
}

static void start_table(job *j, tidesdb_txn *txn, tidesdb_family *family) {
  j->txn = txn;
  j->family = family;
  CHECK(pthread_create(&j->thread, NULL, lock_the_table, j) == 0);
}

static int result(job *j) {
  CHECK(pthread_join(j->thread, NULL) == 0);
  return j->status;
}

/* ---- groups of cases ---- */

static void errors(void) {
  static const int known[] = {0, 1, 2, 10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 30, 31, 32, 33, 34, 35, 99};
  size_t i, j;
  for (i = 0; i < sizeof known / sizeof *known; i++)
    for (j = 0; j < i; j++)
      CHECK(strcmp(tidesdb_strerror(known[i]), tidesdb_strerror(known[j])) != 0);
  CHECK(strcmp(tidesdb_strerror(-5), "unknown status") == 0);
  CHECK(tidesdb_version()[0] >= '0' && strchr(tidesdb_version(), '.'));
  CHECK(tidesdb_last_error()[0] == 0);

  tidesdb_db *db = open_at(path), *other;
  tidesdb_family *family;
  tidesdb_options options;
  IS(TIDESDB_NO_SUCH_FAMILY, tidesdb_family_open(db, slice("absent"), &family));
  CHECK(family == NULL && strstr(tidesdb_last_error(), "'absent'"));
  tidesdb_options_init(&options);
  IS(TIDESDB_BUSY, tidesdb_open(path, &options, &other));
  CHECK(other == NULL && strstr(tidesdb_last_error(), path) && strstr(tidesdb_last_error(), "in use by"));
  OK(tidesdb_close(db));

  char missing[sizeof path + 16];
  snprintf(missing, sizeof missing, "%s/missing", path);
  options.create_if_missing = 0;
  IS(TIDESDB_INVALID, tidesdb_open(missing, &options, &other));
  CHECK(strstr(tidesdb_last_error(), "missing"));
  /* A file where the directory should be. */
  options.create_if_missing = 1;
  snprintf(missing, sizeof missing, "%s/LOCK/x", path);
  IS(TIDESDB_IO, tidesdb_open(missing, &options, &other));

  /* Owners. */
  snprintf(missing, sizeof missing, "%s/owned", path);
  options.owner = "first";
  OK(tidesdb_open(missing, &options, &other));
  OK(tidesdb_close(other));
  options.owner = "second";
  IS(TIDESDB_BUSY, tidesdb_open(missing, &options, &other));
  CHECK(strstr(tidesdb_last_error(), "belongs to first"));
  options.owner = "first";
  OK(tidesdb_open(missing, &options, &other));

  /* Duplicates, and the bound on a transaction with the name of its variable. */
  tidesdb_family *f = make_family(other, "f");
  tidesdb_txn *txn = begin_txn(other);
  OK(change(txn, f, TIDESDB_INSERT, "k", "v"));
  IS(TIDESDB_DUPLICATE, change(txn, f, TIDESDB_INSERT, "k", "w"));
  OK(change(txn, f, TIDESDB_DELETE, "k", ""));
  OK(change(txn, f, TIDESDB_INSERT, "k", "x"));
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_txn_begin(txn, TIDESDB_READ_COMMITTED, 0));
  IS(TIDESDB_DUPLICATE, change(txn, f, TIDESDB_INSERT, "k", "y"));
  OK(change(txn, f, TIDESDB_SINGLE_DELETE, "k", ""));
  OK(tidesdb_txn_rollback(txn));
  tidesdb_txn_free(txn);
  tidesdb_family_close(f);
  OK(tidesdb_close(other));

  options.write_buffer_size = 1 << 20;
  OK(tidesdb_open(missing, &options, &other));
  OK(tidesdb_family_open(other, slice("f"), &f));
  txn = begin_txn(other);
  char *large = (char *)malloc((1 << 20) + 1);
  CHECK(large);
  memset(large, 'x', 1 << 20);
  large[1 << 20] = 0;
  OK(put(txn, f, "small", "v"));
  /* larger than what is kept in memory of a transaction */
  OK(put(txn, f, "large", large));
  tidesdb_cursor *cursor = make_cursor(f);
  reads(cursor, txn, "small", "v");
  reads(cursor, txn, "large", large);
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_txn_begin(txn, TIDESDB_READ_COMMITTED, 0));
  reads(cursor, txn, "large", large);
  tidesdb_stats large_stats;
  large_stats.struct_size = sizeof large_stats;
  OK(tidesdb_get_stats(other, &large_stats));
  CHECK(large_stats.spilled_runs > 0);
  OK(tidesdb_txn_rollback(txn));
  free(large);
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_family_close(f);
  OK(tidesdb_close(other));

  /* Open for reading: rows are read, and every write is refused by name. */
  options.read_only = 1;
  OK(tidesdb_open(missing, &options, &other));
  OK(tidesdb_family_open(other, slice("f"), &f));
  txn = begin_txn(other);
  cursor = make_cursor(f);
  reads(cursor, txn, "small", "v");
  IS(TIDESDB_READ_ONLY, put(txn, f, "small", "w"));
  CHECK(strstr(tidesdb_last_error(), "read_only"));
  OK(tidesdb_txn_rollback(txn));
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_family_close(f);
  OK(tidesdb_close(other));
}

static void cursors(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f");
  tidesdb_cursor *cursor = make_cursor(family);
  tidesdb_txn *txn = begin_txn(db);
  char key[16];
  int i, inline_steps = 0;
  for (i = 0; i < 300; i++) {
    snprintf(key, sizeof key, "%04d", i);
    OK(put(txn, family, key, key));
  }
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));

  /* Forward over everything; most steps stay inside of a batch. */
  OK(seek_to(cursor, txn, TIDESDB_SEEK_FIRST, NULL, 0, NULL, TIDESDB_READ_SNAPSHOT));
  for (i = 0; i < 300; i++) {
    const tidesdb_row *row = &cursor->rows[cursor->position];
    snprintf(key, sizeof key, "%04d", i);
    current_is(cursor, key);
    CHECK(row->value_size == 4 && memcmp(row->value, key, 4) == 0);
    CHECK(cursor->direction == 1);
    uint32_t before = cursor->position;
    IS(i == 299 ? TIDESDB_NOT_FOUND : TIDESDB_OK, tidesdb_cursor_next(cursor));
    inline_steps += cursor->position == before + 1;
  }
  CHECK(inline_steps > 250);

  /* Turning round, in the middle of a batch and at its ends. */
  OK(seek_to(cursor, txn, TIDESDB_SEEK_AT_OR_AFTER, "0100", 0, NULL, TIDESDB_READ_SNAPSHOT));
  for (i = 100; i < 150; i++)
    OK(tidesdb_cursor_next(cursor));
  current_is(cursor, "0150");
  OK(tidesdb_cursor_prev(cursor));
  current_is(cursor, "0149");
  OK(tidesdb_cursor_prev(cursor));
  current_is(cursor, "0148");
  OK(tidesdb_cursor_next(cursor));
  current_is(cursor, "0149");
  for (i = 149; i > 0; i--)
    OK(tidesdb_cursor_prev(cursor));
  current_is(cursor, "0000");
  IS(TIDESDB_NOT_FOUND, tidesdb_cursor_prev(cursor));

  /* The rows from the one it stands on; then it stands on none. */
  uint64_t counted;
  OK(seek_to(cursor, txn, TIDESDB_SEEK_AT_OR_AFTER, "0100", 0, NULL, TIDESDB_READ_SNAPSHOT));
  for (i = 100; i < 150; i++)
    OK(tidesdb_cursor_next(cursor));
  OK(tidesdb_cursor_count(cursor, &counted));
  CHECK(counted == 150);
  IS(TIDESDB_NOT_FOUND, tidesdb_cursor_next(cursor));
  IS(TIDESDB_NOT_FOUND, tidesdb_cursor_count(cursor, &counted));
  CHECK(counted == 0);

  /* A batch ends at the expected number of rows, and a hint is only a hint. */
  tidesdb_seek seek;
  memset(&seek, 0, sizeof seek);
  seek.where = TIDESDB_SEEK_FIRST;
  seek.batch_hint = 5;
  OK(tidesdb_cursor_seek(cursor, txn, &seek));
  CHECK(cursor->count == 5);
  for (i = 0; i < 20; i++)
    OK(tidesdb_cursor_next(cursor));
  current_is(cursor, "0020");

  tidesdb_cursor_reset(cursor);
  IS(TIDESDB_NOT_FOUND, tidesdb_cursor_next(cursor));
  OK(seek_to(cursor, txn, TIDESDB_SEEK_LAST, NULL, 0, NULL, TIDESDB_READ_SNAPSHOT));
  current_is(cursor, "0299");
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

static void seeks(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f");
  tidesdb_cursor *cursor = make_cursor(family);
  tidesdb_txn *txn = begin_txn(db);
  static const char *const keys[] = {"a", "b", "ba", "bb", "bb\xff", "bc", "c", "\xff", "\xff\xff"};
  size_t i;
  int round;
  /* The same answers from the batch, the memtable and a file. */
  for (round = 0; round < 3; round++) {
    if (round == 0)
      for (i = 0; i < sizeof keys / sizeof *keys; i++)
        OK(put(txn, family, keys[i], "v"));
    if (round == 1) {
      OK(tidesdb_txn_commit(txn));
      OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
    }
    if (round == 2) {
      OK(tidesdb_txn_rollback(txn));
      OK(tidesdb_flush(db));
      OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
    }
    scans(cursor, txn, TIDESDB_SEEK_FIRST, NULL, 0, NULL, "a b ba bb bb\xff bc c \xff \xff\xff ");
    scans(cursor, txn, TIDESDB_SEEK_LAST, NULL, 0, NULL, "\xff\xff \xff c bc bb\xff bb ba b a ");
    scans(cursor, txn, TIDESDB_SEEK_AT_OR_AFTER, "bb", 0, NULL, "bb bb\xff bc c \xff \xff\xff ");
    scans(cursor, txn, TIDESDB_SEEK_AFTER, "bb", 0, NULL, "bc c \xff \xff\xff ");
    scans(cursor, txn, TIDESDB_SEEK_AFTER, "b", 0, NULL, "c \xff \xff\xff ");
    scans(cursor, txn, TIDESDB_SEEK_AFTER, "\xff", 0, NULL, "");
    scans(cursor, txn, TIDESDB_SEEK_AT_OR_BEFORE, "bb", 0, NULL, "bb\xff bb ba b a ");
    scans(cursor, txn, TIDESDB_SEEK_AT_OR_BEFORE, "\xff", 0, "c", "\xff\xff \xff ");
    scans(cursor, txn, TIDESDB_SEEK_AT_OR_BEFORE, "bz", 0, NULL, "bc bb\xff bb ba b a ");
    scans(cursor, txn, TIDESDB_SEEK_BEFORE, "bb", 0, NULL, "ba b a ");
    scans(cursor, txn, TIDESDB_SEEK_BEFORE, "a", 0, NULL, "");
    /* Prefixes. */
    scans(cursor, txn, TIDESDB_SEEK_AT_OR_AFTER, "b", 1, NULL, "b ba bb bb\xff bc ");
    scans(cursor, txn, TIDESDB_SEEK_AT_OR_AFTER, "bb", 1, NULL, "bb bb\xff bc ");
    scans(cursor, txn, TIDESDB_SEEK_AT_OR_AFTER, "bb", 2, NULL, "bb bb\xff ");
    scans(cursor, txn, TIDESDB_SEEK_AFTER, "bb", 1, NULL, "bc ");
    scans(cursor, txn, TIDESDB_SEEK_AT_OR_BEFORE, "b", 1, NULL, "bc bb\xff bb ba b ");
    scans(cursor, txn, TIDESDB_SEEK_BEFORE, "bb", 1, NULL, "ba b ");
    scans(cursor, txn, TIDESDB_SEEK_AT_OR_AFTER, "d", 1, NULL, "");
    /* Bounds: the first key past the end, in the direction of the scan. */
    scans(cursor, txn, TIDESDB_SEEK_FIRST, NULL, 0, "bb", "a b ba ");
    scans(cursor, txn, TIDESDB_SEEK_FIRST, NULL, 0, "", "");
    scans(cursor, txn, TIDESDB_SEEK_AT_OR_AFTER, "ba", 0, "bc", "ba bb bb\xff ");
    scans(cursor, txn, TIDESDB_SEEK_AT_OR_AFTER, "c", 0, "b", "");
    scans(cursor, txn, TIDESDB_SEEK_LAST, NULL, 0, "bc", "\xff\xff \xff c ");
    scans(cursor, txn, TIDESDB_SEEK_BEFORE, "c", 1, "a", "");
    scans(cursor, txn, TIDESDB_SEEK_BEFORE, "bc", 1, "b", "bb\xff bb ba ");
  }
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

static void own_writes(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f");
  tidesdb_cursor *cursor = make_cursor(family), *reader = make_cursor(family);
  tidesdb_txn *txn = begin_txn(db), *other;
  char key[16];
  int i;
  for (i = 0; i < 100; i += 2) {
    snprintf(key, sizeof key, "%04d", i);
    OK(put(txn, family, key, "old"));
  }
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));

  /* Through a cursor that has fetched ahead: a key added and one removed right in front of it. */
  OK(seek_to(cursor, txn, TIDESDB_SEEK_FIRST, NULL, 0, NULL, TIDESDB_READ_SNAPSHOT));
  for (i = 0; i < 10; i++)
    OK(tidesdb_cursor_next(cursor));
  current_is(cursor, "0020");
  CHECK(cursor->position + 1 < cursor->count);
  OK(put(txn, family, "0021", "new"));
  OK(change(txn, family, TIDESDB_DELETE, "0022", ""));
  OK(put(txn, family, "0024", "changed"));
  OK(tidesdb_cursor_next(cursor));
  current_is(cursor, "0021");
  OK(tidesdb_cursor_next(cursor));
  current_is(cursor, "0024");
  CHECK(memcmp(cursor->rows[cursor->position].value, "changed", 7) == 0);
  OK(tidesdb_cursor_prev(cursor));
  current_is(cursor, "0021");
  OK(tidesdb_cursor_prev(cursor));
  current_is(cursor, "0020");
  reads(reader, txn, "0021", "new");
  reads(reader, txn, "0022", NULL);

  /* Nobody else sees them, before the commit and from an older snapshot after it. */
  other = begin_txn(db);
  reads(reader, other, "0021", NULL);
  reads(reader, other, "0022", "old");
  OK(tidesdb_txn_commit(txn));
  reads(reader, other, "0021", NULL);
  tidesdb_slice value;
  OK(get(reader, other, "0021", TIDESDB_READ_LATEST, &value));
  IS(TIDESDB_CONFLICT, get(reader, other, "0021", TIDESDB_READ_EXCLUSIVE, &value));
  OK(tidesdb_txn_rollback(other));
  OK(tidesdb_txn_begin(other, TIDESDB_READ_UNCOMMITTED, 0));
  reads(reader, other, "0021", "new");
  OK(tidesdb_txn_rollback(other));

  /* A row's changes in order, all or none; the index of what failed. */
  tidesdb_op ops[20];
  size_t failed = 99;
  memset(ops, 0, sizeof ops);
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  for (i = 0; i < 20; i++) {
    ops[i].family = family;
    ops[i].key = slice("row");
    ops[i].value = slice(i % 2 ? "odd" : "even");
    ops[i].kind = i == 0 ? TIDESDB_INSERT : TIDESDB_PUT;
    ops[i].flags = TIDESDB_OP_LOCK;
  }
  OK(tidesdb_write(txn, ops, 20, &failed));
  reads(reader, txn, "row", "odd");
  ops[0].kind = TIDESDB_PUT;
  ops[17].kind = TIDESDB_INSERT;
  IS(TIDESDB_DUPLICATE, tidesdb_write(txn, ops, 20, &failed));
  CHECK(failed == 17);
  ops[3].kind = TIDESDB_INSERT;
  IS(TIDESDB_DUPLICATE, tidesdb_write(txn, ops, 10, &failed));
  CHECK(failed == 3);
  reads(reader, txn, "row", "odd");
  OK(tidesdb_write(txn, ops, 0, NULL));
  CHECK(tidesdb_txn_has_writes(txn) == 1);

  /* A value in pieces, small and of megabytes; one for each call. */
  static uint8_t many[6 << 20];
  memset(many, 7, sizeof many);
  const tidesdb_slice pieces[4] = {slice("he"), {NULL, 0}, slice("ad"), {many, sizeof many}};
  ops[0].key = slice("pieces");
  ops[0].flags = TIDESDB_OP_LOCK | TIDESDB_OP_PIECES;
  for (size_t count = 3; count <= 4; count++) {
    ops[0].value.data = (const uint8_t *)pieces;
    ops[0].value.size = count;
    OK(tidesdb_write(txn, ops, 1, &failed));
    OK(get(reader, txn, "pieces", TIDESDB_READ_LATEST, &value));
    CHECK(value.size == 4 + (count == 4 ? sizeof many : 0) && memcmp(value.data, "head", 4) == 0);
    CHECK(count == 3 || memcmp(value.data + 4, many, sizeof many) == 0);
  }
  ops[1] = ops[0];
  IS(TIDESDB_INVALID, tidesdb_write(txn, ops, 2, &failed));
  ops[0].kind = TIDESDB_DELETE;
  IS(TIDESDB_INVALID, tidesdb_write(txn, ops, 1, &failed));
  /* The place to compare with is the last piece, of a put. */
  ops[0].kind = TIDESDB_PUT;
  ops[0].flags |= TIDESDB_OP_UNLESS_AT;
  for (ops[0].value.size = 0; ops[0].value.size <= 3; ops[0].value.size++) {
    IS(TIDESDB_INVALID, tidesdb_write(txn, ops, 1, &failed));
  }
  ops[0].kind = TIDESDB_INSERT;
  IS(TIDESDB_INVALID, tidesdb_write(txn, ops, 1, &failed));
  ops[0].kind = TIDESDB_PUT;
  ops[0].flags = TIDESDB_OP_LOCK | TIDESDB_OP_UNLESS_AT;
  ops[0].value = slice("whole");
  IS(TIDESDB_INVALID, tidesdb_write(txn, ops, 1, &failed));

  tidesdb_cursor_close(cursor);
  tidesdb_cursor_close(reader);
  tidesdb_txn_free(txn);
  tidesdb_txn_free(other);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

static int advise(tidesdb_txn *txn, tidesdb_family *family, const char *key, int mode) {
  return tidesdb_lock_advisory(txn, family, (const uint8_t *)key, strlen(key), mode);
}

/* Advisory locks of two transactions without any. */
static void advisory_locks(tidesdb_db *db, tidesdb_txn *a, tidesdb_txn *b) {
  tidesdb_family *guards = make_family(db, "guards");
  for (unsigned flags = 0; flags <= TIDESDB_TXN_OPTIMISTIC; flags++) {
    OK(tidesdb_txn_begin(a, TIDESDB_REPEATABLE_READ, flags));
    OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, flags));
    tidesdb_txn_set_lock_timeout(a, TIDESDB_NO_WAIT);
    tidesdb_txn_set_lock_timeout(b, TIDESDB_NO_WAIT);
    OK(advise(a, guards, "k", TIDESDB_LOCK_SHARED));
    OK(advise(b, guards, "k", TIDESDB_LOCK_SHARED));
    IS(TIDESDB_LOCK_TIMEOUT, advise(b, guards, "k", TIDESDB_LOCK_EXCLUSIVE));
    OK(advise(b, guards, "other", TIDESDB_LOCK_EXCLUSIVE));
    CHECK(!tidesdb_txn_has_writes(a) && tidesdb_txn_holds_locks(a));
    OK(tidesdb_txn_rollback(a));
    OK(advise(b, guards, "k", TIDESDB_LOCK_EXCLUSIVE));
    OK(tidesdb_txn_begin(a, TIDESDB_SERIALIZABLE, flags));
    IS(TIDESDB_LOCK_TIMEOUT, advise(a, guards, "k", TIDESDB_LOCK_SHARED));
    OK(tidesdb_txn_rollback(b));
    OK(advise(a, guards, "k", TIDESDB_LOCK_SHARED));
    OK(tidesdb_txn_rollback(a));
  }
  tidesdb_family_close(guards);
}

static void lock_waits(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f");
  tidesdb_cursor *cursor = make_cursor(family);
  tidesdb_txn *a = begin_txn(db), *b = make_txn(db);
  tidesdb_slice value;
  struct timespec before, after;
  job j;
  OK(put(a, family, "a", "1"));
  OK(put(a, family, "b", "1"));
  OK(put(a, family, "c", "1"));
  OK(tidesdb_txn_commit(a));

  /* A kill from this thread wakes the other's wait. */
  OK(tidesdb_txn_begin(a, TIDESDB_READ_COMMITTED, 0));
  OK(put(a, family, "b", "2"));
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, 0));
  start(&j, b, family, "b");
  await(&waits, 1);
  tidesdb_txn_kill(b);
  IS(TIDESDB_INTERRUPTED, result(&j));

  /* A time-out, after about the time asked for. */
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, 0));
  tidesdb_txn_set_lock_timeout(b, 100);
  clock_gettime(CLOCK_MONOTONIC, &before);
  IS(TIDESDB_LOCK_TIMEOUT, put(b, family, "b", "3"));
  clock_gettime(CLOCK_MONOTONIC, &after);
  CHECK((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 99);
  /* The statement may go on with other keys. */
  OK(put(b, family, "c", "3"));
  OK(tidesdb_txn_rollback(b));

  /* NOWAIT and SKIP LOCKED. */
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, 0));
  tidesdb_txn_set_lock_timeout(b, 0);
  int waits_before = waits;
  IS(TIDESDB_LOCK_TIMEOUT, get(cursor, b, "b", TIDESDB_READ_SHARED, &value));
  IS(TIDESDB_SKIPPED, get(cursor, b, "b", TIDESDB_READ_EXCLUSIVE | TIDESDB_READ_SKIP_LOCKED, &value));
  OK(seek_to(cursor, b, TIDESDB_SEEK_FIRST, NULL, 0, NULL, TIDESDB_READ_EXCLUSIVE | TIDESDB_READ_SKIP_LOCKED));
  current_is(cursor, "a");
  CHECK(cursor->count == 1);
  OK(tidesdb_cursor_next(cursor));
  current_is(cursor, "c");
  IS(TIDESDB_NOT_FOUND, tidesdb_cursor_next(cursor));
  CHECK(waits == waits_before);
  /* The row's lock goes back when the reader does not want the row. */
  OK(seek_to(cursor, b, TIDESDB_SEEK_AT_OR_AFTER, "c", 0, NULL, TIDESDB_READ_EXCLUSIVE));
  OK(tidesdb_txn_rollback(b));
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, 0));
  OK(get(cursor, b, "c", TIDESDB_READ_EXCLUSIVE, &value));
  tidesdb_txn_set_lock_timeout(a, 0);
  IS(TIDESDB_LOCK_TIMEOUT, get(cursor, a, "c", TIDESDB_READ_EXCLUSIVE, &value));
  OK(get(cursor, b, "a", TIDESDB_READ_EXCLUSIVE, &value));
  tidesdb_cursor_unlock_row(cursor, b);
  OK(get(cursor, a, "a", TIDESDB_READ_EXCLUSIVE, &value));
  OK(tidesdb_txn_rollback(a));
  OK(tidesdb_txn_rollback(b));

  /* A deadlock: the one with the lower preference is the victim, here the one that closes the circle. */
  OK(tidesdb_txn_begin(a, TIDESDB_READ_COMMITTED, 0));
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, 0));
  tidesdb_txn_set_lock_timeout(a, 20000);
  tidesdb_txn_set_lock_timeout(b, 20000);
  tidesdb_txn_set_preference(b, 1);
  OK(put(a, family, "a", "2"));
  OK(put(b, family, "b", "2"));
  waits_before = waits;
  start(&j, b, family, "a");
  await(&waits, waits_before + 1);
  IS(TIDESDB_DEADLOCK, put(a, family, "b", "2"));
  CHECK(reason_of_victim == TIDESDB_VICTIM_PREFERRED);
  OK(tidesdb_txn_rollback(a));
  OK(result(&j));
  OK(tidesdb_txn_commit(b));

  /* Priority: before the wait that was there, without an intent, and no victim. */
  tidesdb_txn *c = make_txn(db);
  job k;
  OK(tidesdb_txn_begin(a, TIDESDB_REPEATABLE_READ, 0));
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, 0));
  OK(tidesdb_txn_begin(c, TIDESDB_READ_COMMITTED, TIDESDB_TXN_PRIORITY | TIDESDB_TXN_OPTIMISTIC));
  tidesdb_txn_set_lock_timeout(a, 20000);
  tidesdb_txn_set_lock_timeout(b, 20000);
  tidesdb_txn_set_lock_timeout(c, 20000);
  OK(put(a, family, "a", "2"));
  OK(put(a, family, "b", "2"));
  OK(put(c, family, "c", "2"));
  waits_before = waits;
  start(&j, b, family, "a");
  await(&waits, waits_before + 1);
  start(&k, c, family, "a");
  await(&waits, waits_before + 2);
  IS(TIDESDB_DEADLOCK, put(a, family, "c", "2"));
  OK(tidesdb_txn_rollback(a));
  OK(result(&k));
  OK(tidesdb_txn_commit(c));
  OK(result(&j));
  OK(tidesdb_txn_commit(b));

  /* One that comes into the way later, by a conversion with priority. */
  OK(tidesdb_txn_begin(a, TIDESDB_READ_COMMITTED, 0));
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, TIDESDB_TXN_PRIORITY));
  OK(tidesdb_txn_begin(c, TIDESDB_READ_COMMITTED, TIDESDB_TXN_PRIORITY));
  tidesdb_txn_set_cookie(b, &waits_before);
  OK(put(a, family, "a", "2"));
  OK(tidesdb_lock_table(b, family, TIDESDB_LOCK_INTENT_SHARED));
  waits_before = waits;
  CHECK(longer_waits == 0);
  start_table(&k, c, family);
  await(&waits, waits_before + 1);
  OK(tidesdb_lock_table(b, family, TIDESDB_LOCK_INTENT_EXCLUSIVE));
  await(&longer_waits, 1);
  CHECK(last_holder == &waits_before);
  OK(tidesdb_txn_rollback(a));
  OK(tidesdb_txn_rollback(b));
  OK(result(&k));
  OK(tidesdb_txn_rollback(c));
  tidesdb_txn_set_cookie(b, NULL);
  tidesdb_txn_free(c);

  /* Table locks. */
  OK(tidesdb_txn_begin(a, TIDESDB_READ_COMMITTED, 0));
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, 0));
  OK(tidesdb_lock_table(a, family, TIDESDB_LOCK_SHARED));
  tidesdb_txn_set_lock_timeout(b, 0);
  OK(tidesdb_lock_table(b, family, TIDESDB_LOCK_INTENT_SHARED));
  IS(TIDESDB_LOCK_TIMEOUT, tidesdb_lock_table(b, family, TIDESDB_LOCK_INTENT_EXCLUSIVE));
  IS(TIDESDB_LOCK_TIMEOUT, put(b, family, "z", "2"));
  OK(tidesdb_txn_rollback(a));
  OK(put(b, family, "z", "2"));
  OK(tidesdb_txn_rollback(b));

  /* A key by itself, with nothing at it. */
  OK(tidesdb_txn_begin(a, TIDESDB_READ_COMMITTED, 0));
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, 0));
  OK(tidesdb_lock_key(a, family, (const uint8_t *)"nothing", 7));
  IS(TIDESDB_LOCK_TIMEOUT, put(b, family, "nothing", "2"));
  IS(TIDESDB_LOCK_TIMEOUT, tidesdb_lock_key(b, family, (const uint8_t *)"nothing", 7));
  OK(tidesdb_lock_key(b, family, (const uint8_t *)"nothin", 6));
  CHECK(!tidesdb_txn_has_writes(a));
  OK(tidesdb_txn_rollback(a));
  OK(put(b, family, "nothing", "2"));
  OK(tidesdb_txn_rollback(b));

  advisory_locks(db, a, b);

  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(a);
  tidesdb_txn_free(b);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

static void observer(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f");
  tidesdb_txn *a = begin_txn(db), *b = make_txn(db);
  int cookie_of_a, cookie_of_b;
  job j;
  tidesdb_txn_set_cookie(b, &cookie_of_b);
  OK(tidesdb_txn_rollback(a));
  tidesdb_txn_set_cookie(a, &cookie_of_a);
  OK(tidesdb_txn_begin(a, TIDESDB_REPEATABLE_READ, 0));
  OK(tidesdb_txn_begin(b, TIDESDB_REPEATABLE_READ, 0));
  OK(put(a, family, "k", "1"));
  start(&j, b, family, "k");
  await(&waits, 1);
  pthread_mutex_lock(&latch);
  CHECK(last_waiter == &cookie_of_b && last_holder == &cookie_of_a);
  pthread_mutex_unlock(&latch);
  /* The waiter has read nothing yet: it gets the lock and what was committed meanwhile is no conflict. */
  OK(tidesdb_txn_commit(a));
  OK(result(&j));
  CHECK(ended_waits == 1);
  OK(tidesdb_txn_commit(b));
  tidesdb_stats stats;
  OK(tidesdb_get_stats(db, &stats));
  CHECK(stats.lock_waits == 1 && stats.lock_deadlocks == 0 && stats.lock_held == 0);
  /* Two wait for each other: told before the one with fewer keys ends. */
  OK(tidesdb_txn_begin(a, TIDESDB_REPEATABLE_READ, 0));
  OK(tidesdb_txn_begin(b, TIDESDB_REPEATABLE_READ, 0));
  OK(put(a, family, "m", "1"));
  OK(put(a, family, "n", "1"));
  OK(put(b, family, "l", "1"));
  start(&j, a, family, "l");
  await(&waits, 2);
  IS(TIDESDB_DEADLOCK, put(b, family, "m", "2"));
  CHECK(deadlocks == 1 && victim == &cookie_of_b && reason_of_victim == TIDESDB_VICTIM_WROTE_LEAST);
  OK(tidesdb_txn_rollback(b));
  OK(result(&j));
  OK(tidesdb_txn_rollback(a));
  tidesdb_txn_free(a);
  tidesdb_txn_free(b);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

static void ranges(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f"), *entries = make_family(db, "e");
  tidesdb_cursor *cursor = make_cursor(family), *other = make_cursor(family);
  tidesdb_txn *a = begin_txn(db), *b = make_txn(db);
  tidesdb_slice value;
  int group_of_a = 1, group_of_b = 1;
  OK(tidesdb_family_attach(entries, family));
  OK(tidesdb_family_attach(entries, family));
  IS(TIDESDB_INVALID, tidesdb_family_attach(family, entries));
  OK(put(a, family, "b", "1"));
  OK(put(a, family, "d", "1"));
  OK(tidesdb_txn_commit(a));

  /* What a scan has passed. */
  OK(tidesdb_txn_begin(a, TIDESDB_REPEATABLE_READ, 0));
  OK(seek_to(cursor, a, TIDESDB_SEEK_FIRST, NULL, 0, "d", TIDESDB_READ_GAP));
  current_is(cursor, "b");
  IS(TIDESDB_NOT_FOUND, tidesdb_cursor_next(cursor));
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, 0));
  tidesdb_txn_set_lock_timeout(b, 0);
  IS(TIDESDB_LOCK_TIMEOUT, change(b, family, TIDESDB_INSERT, "a", "2"));
  IS(TIDESDB_LOCK_TIMEOUT, change(b, family, TIDESDB_PUT_ENTRY, "c", "2"));
  OK(put(b, family, "d", "2"));
  OK(change(b, family, TIDESDB_INSERT, "e", "2"));
  OK(tidesdb_txn_rollback(b));
  OK(tidesdb_txn_rollback(a));

  /* A missing key, looked for by name and by an entry. */
  OK(tidesdb_txn_begin(a, TIDESDB_REPEATABLE_READ, 0));
  IS(TIDESDB_NOT_FOUND, get(cursor, a, "x", TIDESDB_READ_EXCLUSIVE | TIDESDB_READ_BY_ENTRY, &value));
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, 0));
  OK(put(b, family, "x", "2"));
  OK(tidesdb_txn_rollback(b));
  IS(TIDESDB_NOT_FOUND, get(cursor, a, "x", TIDESDB_READ_EXCLUSIVE, &value));
  OK(tidesdb_txn_begin(b, TIDESDB_READ_COMMITTED, 0));
  IS(TIDESDB_LOCK_TIMEOUT, put(b, family, "z", "2"));
  OK(put(b, family, "d", "2"));

  /* Rows of others, as they are committed, and then with their locks. */
  OK(tidesdb_txn_rollback(a));
  OK(tidesdb_txn_begin(a, TIDESDB_READ_COMMITTED, 0));
  tidesdb_txn_set_lock_timeout(a, 0);
  OK(seek_to(cursor, a, TIDESDB_SEEK_FIRST, NULL, 0, NULL, TIDESDB_READ_EXCLUSIVE | TIDESDB_READ_PEEK_LOCKED));
  current_is(cursor, "b");
  IS(TIDESDB_PEEKED, tidesdb_cursor_next(cursor));
  current_is(cursor, "d");
  IS(TIDESDB_PEEKED, get(other, a, "d", TIDESDB_READ_EXCLUSIVE | TIDESDB_READ_PEEK_LOCKED, &value));
  CHECK(value.size == 1 && value.data[0] == '1');
  OK(tidesdb_txn_commit(b));
  OK(tidesdb_cursor_relock(cursor, a));
  current_is(cursor, "d");
  CHECK(cursor->rows[cursor->position].value[0] == '2');
  IS(TIDESDB_NOT_FOUND, tidesdb_cursor_next(cursor));
  OK(tidesdb_txn_rollback(a));

  /* Appliers whose order is fixed. */
  tidesdb_txn_set_cookie(a, &group_of_a);
  tidesdb_txn_set_cookie(b, &group_of_b);
  OK(tidesdb_txn_begin(a, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_ORDERED_WAITS));
  OK(tidesdb_txn_begin(b, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_ORDERED_WAITS));
  OK(seek_to(cursor, a, TIDESDB_SEEK_FIRST, NULL, 0, "d", TIDESDB_READ_GAP));
  OK(change(b, family, TIDESDB_INSERT, "a", "2"));
  group_of_b = 2;
  IS(TIDESDB_LOCK_TIMEOUT, change(b, family, TIDESDB_INSERT, "aa", "2"));
  OK(tidesdb_txn_rollback(b));
  OK(tidesdb_txn_rollback(a));

  tidesdb_cursor_close(cursor);
  tidesdb_cursor_close(other);
  tidesdb_txn_free(a);
  tidesdb_txn_free(b);
  tidesdb_family_close(entries);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

static void statements(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f");
  tidesdb_cursor *cursor = make_cursor(family);
  tidesdb_txn *txn = begin_txn(db), *other = begin_txn(db);
  OK(tidesdb_txn_statement_begin(txn, 1, 1000));
  OK(put(txn, family, "first", "1"));
  tidesdb_txn_statement_end(txn);
  OK(tidesdb_txn_statement_begin(txn, 1, 1000));
  OK(put(txn, family, "first", "2"));
  OK(put(txn, family, "second", "2"));
  reads(cursor, txn, "first", "2");
  OK(tidesdb_txn_statement_rollback(txn));
  reads(cursor, txn, "first", "1");
  reads(cursor, txn, "second", NULL);
  /* Locks of the statement stay. */
  tidesdb_txn_set_lock_timeout(other, 0);
  IS(TIDESDB_LOCK_TIMEOUT, put(other, family, "second", "3"));
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_txn_rollback(other));

  /* READ COMMITTED: a snapshot a statement. */
  OK(tidesdb_txn_begin(other, TIDESDB_READ_COMMITTED, 0));
  OK(tidesdb_txn_statement_begin(other, 0, 1000));
  reads(cursor, other, "first", "1");
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  OK(put(txn, family, "first", "9"));
  OK(tidesdb_txn_commit(txn));
  reads(cursor, other, "first", "1");
  tidesdb_txn_statement_end(other);
  OK(tidesdb_txn_statement_begin(other, 0, 1000));
  reads(cursor, other, "first", "9");
  OK(tidesdb_txn_rollback(other));

  /* A consistent snapshot is taken when asked for, not at the first read. */
  OK(tidesdb_txn_begin(other, TIDESDB_REPEATABLE_READ, 0));
  OK(tidesdb_txn_take_snapshot(other));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  OK(change(txn, family, TIDESDB_DELETE, "first", ""));
  OK(tidesdb_txn_commit(txn));
  reads(cursor, other, "first", "9");
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_txn_free(other);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

static int count_xids(void *context, tidesdb_slice xid) {
  CHECK(xid.size == 2 && xid.data[0] == 'x');
  ++*(int *)context;
  return 0;
}

static int prepared_count(tidesdb_db *db) {
  int count = 0;
  OK(tidesdb_prepared_list(db, count_xids, &count));
  return count;
}

static void two_phase(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    /* Prepares four, decides two, and dies. */
    tidesdb_db *db = open_at(path);
    tidesdb_family *family = make_family(db, "f");
    static const char *const xids[] = {"x0", "x1", "x2", "x3"};
    int i;
    for (i = 0; i < 4; i++) {
      tidesdb_txn *txn = begin_txn(db);
      OK(put(txn, family, xids[i], "v"));
      OK(tidesdb_txn_prepare(txn, (const uint8_t *)xids[i], 2));
      IS(TIDESDB_INVALID, put(txn, family, "late", "v"));
      if (i == 0) {
        tidesdb_txn_order(txn);
        tidesdb_txn_order(txn);
        OK(tidesdb_txn_finish(txn, 1));
        CHECK(!tidesdb_txn_is_active(txn));
      }
      if (i == 1)
        OK(tidesdb_txn_rollback(txn));
    }
    OK(tidesdb_flush_log(db));
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);

  tidesdb_db *db = open_at(path);
  tidesdb_family *family;
  OK(tidesdb_family_open(db, slice("f"), &family));
  tidesdb_cursor *cursor = make_cursor(family);
  tidesdb_txn *txn = begin_txn(db);
  CHECK(prepared_count(db) == 2);
  reads(cursor, txn, "x0", "v");
  reads(cursor, txn, "x1", NULL);
  reads(cursor, txn, "x2", NULL);
  tidesdb_txn_set_lock_timeout(txn, 0);
  IS(TIDESDB_LOCK_TIMEOUT, put(txn, family, "x2", "w"));
  OK(tidesdb_txn_rollback(txn));
  IS(TIDESDB_NOT_FOUND, tidesdb_commit_by_xid(db, (const uint8_t *)"x0", 2));
  OK(tidesdb_commit_by_xid(db, (const uint8_t *)"x2", 2));
  IS(TIDESDB_NOT_FOUND, tidesdb_commit_by_xid(db, (const uint8_t *)"x2", 2));
  OK(tidesdb_rollback_by_xid(db, (const uint8_t *)"x3", 2));
  CHECK(prepared_count(db) == 0);
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  reads(cursor, txn, "x2", "v");
  reads(cursor, txn, "x3", NULL);
  OK(tidesdb_txn_rollback(txn));

  /* A prepared transaction whose object goes stays with the store, its locks too. */
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  OK(put(txn, family, "x4", "v"));
  OK(tidesdb_txn_prepare(txn, (const uint8_t *)"x4", 2));
  tidesdb_txn_free(txn);
  CHECK(prepared_count(db) == 1);
  txn = begin_txn(db);
  tidesdb_txn_set_lock_timeout(txn, 0);
  IS(TIDESDB_LOCK_TIMEOUT, put(txn, family, "x4", "w"));
  OK(tidesdb_commit_by_xid(db, (const uint8_t *)"x4", 2));
  reads(cursor, txn, "x4", "v");
  OK(tidesdb_txn_rollback(txn));

  /* One-phase in three calls; a rollback between prepare and order. */
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  OK(put(txn, family, "one", "v"));
  OK(tidesdb_txn_prepare(txn, NULL, 0));
  tidesdb_txn_order(txn);
  OK(tidesdb_txn_finish(txn, 0));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  OK(put(txn, family, "two", "v"));
  OK(tidesdb_txn_prepare(txn, NULL, 0));
  OK(tidesdb_txn_rollback(txn));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  reads(cursor, txn, "one", "v");
  reads(cursor, txn, "two", NULL);
  OK(tidesdb_txn_commit(txn));
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

static void checkpoints(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f");
  tidesdb_txn *txn = begin_txn(db);
  tidesdb_stats before, after;
  OK(put(txn, family, "k", "v"));
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_get_stats(db, &before));
  OK(tidesdb_checkpoint_request(db, &durable, is_durable));
  await(&durable, 1);
  OK(tidesdb_get_stats(db, &after));
  CHECK(after.wal_syncs > before.wal_syncs);
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  OK(put(txn, family, "k", "w"));
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_checkpoint_request(db, &durable, is_durable));
  OK(tidesdb_flush_log(db));
  await(&durable, 2);
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
  CHECK(durable == 2);
}

static void counters(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f");
  tidesdb_txn *txn = begin_txn(db);
  uint64_t value;
  CHECK(tidesdb_counter_peek(family, 0) == 1);
  OK(tidesdb_counter_take(family, 0, 1, 0, 1, UINT64_MAX, &value));
  CHECK(value == 1);
  OK(tidesdb_counter_take(family, 0, 10, 0, 1, UINT64_MAX, &value));
  CHECK(value == 2);
  OK(tidesdb_counter_take(family, 0, 2, 5, 10, UINT64_MAX, &value));
  CHECK(value == 15);
  CHECK(tidesdb_counter_peek(family, 0) == 26);
  OK(tidesdb_counter_raise(txn, family, 0, 1000));
  OK(tidesdb_counter_raise(txn, family, 0, 10));
  CHECK(tidesdb_counter_peek(family, 0) == 1001);
  IS(TIDESDB_INVALID, tidesdb_counter_take(family, 0, 1, 0, 1, 1000, &value));
  OK(tidesdb_counter_take(family, 0, 1, 0, 1, 1001, &value));
  CHECK(value == 1001);
  IS(TIDESDB_INVALID, tidesdb_counter_take(family, 16, 1, 0, 1, UINT64_MAX, &value));
  /* Counters of a family are apart. */
  OK(tidesdb_counter_take(family, 15, 1, 0, 1, UINT64_MAX, &value));
  CHECK(value == 1);
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));

  /* Closed properly: no gap. Killed: a gap, no value twice. */
  uint64_t highest = 1001;
  int round;
  for (round = 0; round < 3; round++) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      db = open_at(path);
      OK(tidesdb_family_open(db, slice("f"), &family));
      if (round == 0)
        CHECK(tidesdb_counter_peek(family, 0) == highest + 1);
      int i;
      for (i = 0; i < 200; i++)
        OK(tidesdb_counter_take(family, 0, 1, 0, 1, UINT64_MAX, &value));
      CHECK(write(ends[1], &value, sizeof value) == (ssize_t)sizeof value);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(read(ends[0], &value, sizeof value) == (ssize_t)sizeof value);
    CHECK(value >= highest + 200);
    highest = value;
    close(ends[0]);
    close(ends[1]);
  }
}

static int join_names(void *context, tidesdb_slice name) {
  char *names = (char *)context;
  size_t size = strlen(names);
  memcpy(names + size, name.data, name.size);
  memcpy(names + size + name.size, " ", 2);
  return 0;
}

static void lists(tidesdb_db *db, const char *prefix, const char *expected) {
  char names[1024] = "";
  OK(tidesdb_family_list(db, slice(prefix), join_names, names));
  CHECK(strcmp(names, expected) == 0);
}

static void record_is(tidesdb_family *family, const char *expected) {
  uint8_t buffer[64];
  size_t needed;
  OK(tidesdb_family_record(family, NULL, 0, &needed));
  CHECK(needed == strlen(expected));
  OK(tidesdb_family_record(family, buffer, sizeof buffer, &needed));
  CHECK(needed == strlen(expected) && memcmp(buffer, expected, needed) == 0);
  memset(buffer, '#', sizeof buffer);
  OK(tidesdb_family_record(family, buffer, 1, &needed));
  CHECK(needed == strlen(expected) && buffer[1] == '#');
}

static void ddl_groups(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family_options options;
  tidesdb_ddl *ddl;
  tidesdb_family *a, *b, *again;
  tidesdb_family_options_init(&options);
  tidesdb_txn *old = begin_txn(db);
  OK(tidesdb_txn_take_snapshot(old));

  /* Nothing before the commit, all of it after; an abort leaves nothing. */
  OK(tidesdb_ddl_begin(db, &ddl));
  OK(tidesdb_ddl_create(ddl, slice("db/a"), &options, slice("record of a")));
  OK(tidesdb_ddl_create(ddl, slice("db/b"), &options, slice("")));
  IS(TIDESDB_FAMILY_EXISTS, tidesdb_ddl_create(ddl, slice("db/a"), &options, slice("")));
  IS(TIDESDB_NO_SUCH_FAMILY, tidesdb_ddl_drop(ddl, slice("db/z")));
  IS(TIDESDB_NO_SUCH_FAMILY, tidesdb_family_open(db, slice("db/a"), &a));
  OK(tidesdb_ddl_commit(ddl));
  lists(db, "db/", "db/a db/b ");
  OK(tidesdb_ddl_begin(db, &ddl));
  OK(tidesdb_ddl_create(ddl, slice("db/c"), &options, slice("")));
  OK(tidesdb_ddl_drop(ddl, slice("db/a")));
  tidesdb_ddl_abort(ddl);
  lists(db, "", "db/a db/b ");

  OK(tidesdb_family_open(db, slice("db/a"), &a));
  OK(tidesdb_family_open(db, slice("db/b"), &b));
  CHECK(tidesdb_family_id(a) != tidesdb_family_id(b));
  record_is(a, "record of a");
  record_is(b, "");

  /* A snapshot from before the family cannot read it. */
  tidesdb_cursor *cursor = make_cursor(a);
  tidesdb_slice value;
  IS(TIDESDB_SNAPSHOT_TOO_OLD, get(cursor, old, "k", TIDESDB_READ_SNAPSHOT, &value));
  tidesdb_txn_free(old);

  tidesdb_txn *txn = begin_txn(db);
  OK(put(txn, a, "k", "v"));
  OK(put(txn, b, "k", "v"));
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_counter_raise(txn, a, 0, 500));

  /* A swap of two names through a third, and a record, in one group: handles go along. */
  OK(tidesdb_ddl_begin(db, &ddl));
  OK(tidesdb_ddl_rename(ddl, slice("db/a"), slice("db/tmp")));
  IS(TIDESDB_FAMILY_EXISTS, tidesdb_ddl_rename(ddl, slice("db/tmp"), slice("db/b")));
  OK(tidesdb_ddl_rename(ddl, slice("db/b"), slice("db/a")));
  OK(tidesdb_ddl_rename(ddl, slice("db/tmp"), slice("db/b")));
  OK(tidesdb_ddl_set_record(ddl, slice("db/b"), slice("moved")));
  OK(tidesdb_ddl_commit(ddl));
  lists(db, "", "db/a db/b ");
  record_is(a, "moved");
  CHECK(tidesdb_counter_peek(a, 0) == 501);
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  reads(cursor, txn, "k", "v");

  /* A family that is bumped is out of reach of older snapshots, and of no other. */
  OK(tidesdb_ddl_begin(db, &ddl));
  OK(tidesdb_ddl_bump(ddl, slice("db/b")));
  IS(TIDESDB_NO_SUCH_FAMILY, tidesdb_ddl_bump(ddl, slice("db/z")));
  OK(tidesdb_ddl_commit(ddl));
  IS(TIDESDB_SNAPSHOT_TOO_OLD, get(cursor, txn, "k", TIDESDB_READ_SNAPSHOT, &value));
  tidesdb_cursor_reset(cursor);
  OK(tidesdb_txn_rollback(txn));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  reads(cursor, txn, "k", "v");
  OK(tidesdb_txn_rollback(txn));
  OK(tidesdb_family_open(db, slice("db/b"), &again));
  CHECK(tidesdb_family_id(again) == tidesdb_family_id(a));
  tidesdb_family_close(again);

  /* After a truncate the old handle is dead, the new one is empty and counts from 1. */
  OK(tidesdb_ddl_begin(db, &ddl));
  OK(tidesdb_ddl_truncate(ddl, slice("db/b")));
  OK(tidesdb_ddl_commit(ddl));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  IS(TIDESDB_NO_SUCH_FAMILY, get(cursor, txn, "k", TIDESDB_READ_SNAPSHOT, &value));
  IS(TIDESDB_NO_SUCH_FAMILY, seek_to(cursor, txn, TIDESDB_SEEK_FIRST, NULL, 0, NULL, TIDESDB_READ_SNAPSHOT));
  IS(TIDESDB_NO_SUCH_FAMILY, put(txn, a, "k", "w"));
  OK(tidesdb_family_open(db, slice("db/b"), &again));
  CHECK(tidesdb_family_id(again) != tidesdb_family_id(a));
  CHECK(tidesdb_counter_peek(again, 0) == 1);
  record_is(again, "moved");
  tidesdb_cursor_close(cursor);
  cursor = make_cursor(again);
  reads(cursor, txn, "k", NULL);
  OK(tidesdb_txn_rollback(txn));

  OK(tidesdb_ddl_begin(db, &ddl));
  OK(tidesdb_ddl_set_counter(ddl, slice("db/b"), 0, 7));
  IS(TIDESDB_INVALID, tidesdb_ddl_set_counter(ddl, slice("db/b"), 16, 7));
  OK(tidesdb_ddl_drop(ddl, slice("db/a")));
  OK(tidesdb_ddl_commit(ddl));
  CHECK(tidesdb_counter_peek(again, 0) == 7);
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  IS(TIDESDB_NO_SUCH_FAMILY, put(txn, b, "k", "w"));
  tidesdb_family_stats stats;
  IS(TIDESDB_NO_SUCH_FAMILY, tidesdb_family_get_stats(b, &stats));
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_family_close(a);
  tidesdb_family_close(b);
  tidesdb_family_close(again);
  OK(tidesdb_close(db));

  db = open_at(path);
  lists(db, "", "db/b ");
  OK(tidesdb_family_open(db, slice("db/b"), &again));
  record_is(again, "moved");
  CHECK(tidesdb_counter_peek(again, 0) == 7);

  /* Refused by name. */
  OK(tidesdb_ddl_begin(db, &ddl));
  options.compression = TIDESDB_COMPRESSION_LZ4_FAST + 1;
  IS(TIDESDB_INVALID, tidesdb_ddl_create(ddl, slice("z"), &options, slice("")));
  CHECK(strstr(tidesdb_last_error(), "compression = 5"));
  tidesdb_family_options_init(&options);
  options.block_size = 1;
  IS(TIDESDB_INVALID, tidesdb_ddl_create(ddl, slice("z"), &options, slice("")));
  CHECK(strstr(tidesdb_last_error(), "block_size = 1"));
  tidesdb_family_options_init(&options);
  options.struct_size--;
  IS(TIDESDB_INVALID, tidesdb_ddl_create(ddl, slice("z"), &options, slice("")));
  tidesdb_family_options_init(&options);
  IS(TIDESDB_INVALID, tidesdb_ddl_create(ddl, slice(""), &options, slice("")));
  options.block_size = 16384;
  OK(tidesdb_ddl_set_options(ddl, slice("db/b"), &options));
  OK(tidesdb_ddl_commit(ddl));
  tidesdb_family_close(again);
  OK(tidesdb_close(db));
}

/* The work of a cursor's reads, in files with 1,000 rows; a hundred are deleted in the memtable. */
static void work_of_reads(tidesdb_db *db, tidesdb_family *family) {
  tidesdb_cursor *cursor = make_cursor(family), *other = make_cursor(family);
  tidesdb_txn *txn = begin_txn(db);
  uint64_t blocks = 0, blocks_read = 0, read_time = 0, passed = 0, before;
  tidesdb_read_work numbers;
  tidesdb_slice value;
  numbers.blocks = &blocks;
  numbers.blocks_read = &blocks_read;
  numbers.read_time = &read_time;
  numbers.passed = &passed;
  numbers.units = 1000;
  OK(get(other, txn, "0500", TIDESDB_READ_SNAPSHOT, &value));
  CHECK(blocks == 0 && passed == 0);
  tidesdb_cursor_set_work(cursor, &numbers);
  OK(get(cursor, txn, "0500", TIDESDB_READ_SNAPSHOT, &value));
  CHECK(blocks > 0 && blocks_read <= blocks);
  before = blocks;
  OK(seek_to(cursor, txn, TIDESDB_SEEK_FIRST, NULL, 0, NULL, TIDESDB_READ_SNAPSHOT));
  while (tidesdb_cursor_next(cursor) == TIDESDB_OK)
    ;
  CHECK(blocks > before && passed >= 100);
  /* In the program's units, thousandths of a microsecond here. */
  CHECK(blocks_read == 0 || read_time % 1000 == 0);
  before = blocks;
  OK(get(other, txn, "0600", TIDESDB_READ_SNAPSHOT, &value));
  CHECK(blocks == before);
  /* Numbers that are not all there change nothing. */
  numbers.passed = NULL;
  tidesdb_cursor_set_work(cursor, &numbers);
  CHECK(strlen(tidesdb_last_error()) > 0);
  OK(get(cursor, txn, "0700", TIDESDB_READ_SNAPSHOT, &value));
  CHECK(blocks > before);
  before = blocks;
  tidesdb_cursor_set_work(cursor, NULL);
  OK(get(cursor, txn, "0800", TIDESDB_READ_SNAPSHOT, &value));
  CHECK(blocks == before);
  tidesdb_txn_free(txn);
  tidesdb_cursor_close(cursor);
  tidesdb_cursor_close(other);
}

static void insight(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f");
  tidesdb_txn *txn = make_txn(db);
  char key[16], value[128], *text;
  tidesdb_family_stats stats;
  tidesdb_stats all;
  uint64_t rows;
  size_t size;
  int i, round;
  memset(value, 'v', sizeof value - 1);
  value[sizeof value - 1] = 0;
  for (round = 0; round < 2; round++) {
    OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
    for (i = 0; i < 1000; i++) {
      snprintf(key, sizeof key, "%04d", i);
      OK(change_with(txn, family, TIDESDB_PUT, key, value, round ? TIDESDB_OP_NEUTRAL : 0));
    }
    OK(tidesdb_txn_commit(txn));
    OK(tidesdb_estimate_range(family, slice("0250"), slice("0750"), &rows));
    CHECK(rows >= 250 && rows <= 2000);
    OK(tidesdb_flush(db));
  }
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  for (i = 100; i < 200; i++) {
    snprintf(key, sizeof key, "%04d", i);
    OK(change(txn, family, TIDESDB_DELETE, key, NULL));
  }
  OK(tidesdb_txn_commit(txn));
  work_of_reads(db, family);
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  for (i = 100; i < 200; i++) {
    snprintf(key, sizeof key, "%04d", i);
    OK(put(txn, family, key, value));
  }
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_flush(db));
  OK(tidesdb_family_get_stats(family, &stats));
  CHECK(stats.struct_size == sizeof stats);
  CHECK(stats.entries >= 1000 && stats.data_bytes > 0 && stats.mean_row_bytes > 0 && stats.runs >= 1);
  OK(tidesdb_compact(family, NULL));
  OK(tidesdb_verify(family, NULL));
  OK(tidesdb_family_get_stats(family, &stats));
  if (stats.runs != 2 || stats.entries != 1000 || stats.tombstones != 0)
    fprintf(stderr, "runs %u entries %llu tombstones %llu\n", stats.runs, (unsigned long long)stats.entries,
            (unsigned long long)stats.tombstones);
  /* The memtable and one level. */
  CHECK(stats.runs == 2 && stats.entries == 1000 && stats.tombstones == 0);
  OK(tidesdb_estimate_range(family, slice(NULL), slice(NULL), &rows));
  CHECK(rows == 1000);
  OK(tidesdb_estimate_range(family, slice("0250"), slice("0750"), &rows));
  CHECK(rows >= 350 && rows <= 650);
  OK(tidesdb_estimate_range(family, slice("5"), slice(NULL), &rows));
  CHECK(rows <= 100);
  OK(tidesdb_key_at(family, 0.5, (uint8_t *)key, sizeof key, &size));
  CHECK(size == 4 && memcmp(key, "0250", 4) > 0 && memcmp(key, "0750", 4) < 0);
  OK(tidesdb_key_at(family, 0.5, (uint8_t *)key, 2, &size));
  CHECK(size == 2);
  OK(tidesdb_get_stats(db, &all));
  CHECK(all.struct_size == sizeof all && all.column_families == 1 && all.flush_count >= 2);
  CHECK(all.compaction_count >= 1 && all.commits >= 2 && all.wal_bytes_written > 250000);
  OK(tidesdb_status_text(db, &text));
  CHECK(strlen(text) > 50);
  tidesdb_free_text(text);
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

static int ignore(void *context, tidesdb_slice item) {
  (void)context;
  (void)item;
  return 0;
}

static void misuse(void) {
  tidesdb_db *db = open_at(path), *second;
  tidesdb_family *family = make_family(db, "f"), *no_family;
  tidesdb_cursor *cursor = make_cursor(family), *no_cursor;
  tidesdb_txn *txn = make_txn(db), *no_txn;
  tidesdb_ddl *no_ddl;
  tidesdb_options options;
  tidesdb_family_options family_options;
  tidesdb_slice value;
  tidesdb_op op;
  tidesdb_seek seek;
  size_t size;
  uint64_t number;
  char *text;

  /* Null pointers. */
  tidesdb_options_init(NULL);
  tidesdb_options_init(&options);
  tidesdb_family_options_init(NULL);
  tidesdb_family_options_init(&family_options);
  IS(TIDESDB_INVALID, tidesdb_open(NULL, &options, &second));
  CHECK(second == NULL && strstr(tidesdb_last_error(), "null"));
  IS(TIDESDB_INVALID, tidesdb_open(path, NULL, &second));
  IS(TIDESDB_INVALID, tidesdb_open(path, &options, NULL));
  OK(tidesdb_close(NULL));
  IS(TIDESDB_INVALID, tidesdb_ddl_begin(NULL, &no_ddl));
  IS(TIDESDB_INVALID, tidesdb_ddl_begin(db, NULL));
  IS(TIDESDB_INVALID, tidesdb_ddl_create(NULL, slice("x"), &family_options, slice("")));
  IS(TIDESDB_INVALID, tidesdb_ddl_drop(NULL, slice("x")));
  IS(TIDESDB_INVALID, tidesdb_ddl_rename(NULL, slice("x"), slice("y")));
  IS(TIDESDB_INVALID, tidesdb_ddl_truncate(NULL, slice("x")));
  IS(TIDESDB_INVALID, tidesdb_ddl_set_record(NULL, slice("x"), slice("")));
  IS(TIDESDB_INVALID, tidesdb_ddl_set_options(NULL, slice("x"), &family_options));
  IS(TIDESDB_INVALID, tidesdb_ddl_set_counter(NULL, slice("x"), 0, 1));
  IS(TIDESDB_INVALID, tidesdb_ddl_commit(NULL));
  tidesdb_ddl_abort(NULL);
  IS(TIDESDB_INVALID, tidesdb_family_open(NULL, slice("f"), &no_family));
  IS(TIDESDB_INVALID, tidesdb_family_open(db, slice("f"), NULL));
  tidesdb_family_close(NULL);
  CHECK(tidesdb_family_id(NULL) == 0);
  IS(TIDESDB_INVALID, tidesdb_family_record(NULL, NULL, 0, &size));
  IS(TIDESDB_INVALID, tidesdb_family_record(family, NULL, 0, NULL));
  OK(tidesdb_family_record(family, NULL, 100, &size));
  IS(TIDESDB_INVALID, tidesdb_family_list(NULL, slice(""), ignore, NULL));
  IS(TIDESDB_INVALID, tidesdb_family_list(db, slice(""), NULL, NULL));
  IS(TIDESDB_INVALID, tidesdb_counter_take(NULL, 0, 1, 0, 1, 10, &number));
  IS(TIDESDB_INVALID, tidesdb_counter_take(family, 0, 1, 0, 1, 10, NULL));
  IS(TIDESDB_INVALID, tidesdb_counter_raise(txn, NULL, 0, 1));
  CHECK(tidesdb_counter_peek(NULL, 0) == 1);
  IS(TIDESDB_INVALID, tidesdb_txn_create(NULL, &no_txn));
  IS(TIDESDB_INVALID, tidesdb_txn_create(db, NULL));
  tidesdb_txn_free(NULL);
  tidesdb_txn_set_cookie(NULL, NULL);
  tidesdb_txn_set_lock_timeout(NULL, 1);
  tidesdb_txn_set_preference(NULL, 1);
  IS(TIDESDB_INVALID, tidesdb_txn_begin(NULL, TIDESDB_REPEATABLE_READ, 0));
  CHECK(!tidesdb_txn_is_active(NULL) && !tidesdb_txn_has_writes(NULL));
  IS(TIDESDB_INVALID, tidesdb_txn_take_snapshot(NULL));
  IS(TIDESDB_INVALID, tidesdb_txn_statement_begin(NULL, 1, 1));
  tidesdb_txn_statement_end(NULL);
  IS(TIDESDB_INVALID, tidesdb_txn_statement_rollback(NULL));
  IS(TIDESDB_INVALID, tidesdb_lock_table(NULL, family, TIDESDB_LOCK_SHARED));
  IS(TIDESDB_INVALID, tidesdb_lock_key(NULL, family, (const uint8_t *)"k", 1));
  IS(TIDESDB_INVALID, tidesdb_lock_advisory(NULL, family, (const uint8_t *)"k", 1, TIDESDB_LOCK_SHARED));
  uint8_t is_there[2] = {9, 9};
  tidesdb_slice looked_for[2] = {slice("a"), slice("k")};
  IS(TIDESDB_INVALID, tidesdb_find_keys(NULL, family, looked_for, 2, is_there));
  IS(TIDESDB_INVALID, tidesdb_txn_prepare(NULL, NULL, 0));
  tidesdb_txn_order(NULL);
  IS(TIDESDB_INVALID, tidesdb_txn_finish(NULL, 0));
  IS(TIDESDB_INVALID, tidesdb_txn_commit(NULL));
  IS(TIDESDB_INVALID, tidesdb_txn_rollback(NULL));
  tidesdb_txn_kill(NULL);
  IS(TIDESDB_INVALID, tidesdb_prepared_list(NULL, ignore, NULL));
  IS(TIDESDB_INVALID, tidesdb_prepared_list(db, NULL, NULL));
  IS(TIDESDB_INVALID, tidesdb_commit_by_xid(NULL, (const uint8_t *)"x", 1));
  IS(TIDESDB_NOT_FOUND, tidesdb_rollback_by_xid(db, NULL, 0));
  IS(TIDESDB_INVALID, tidesdb_checkpoint_request(NULL, NULL, is_durable));
  IS(TIDESDB_INVALID, tidesdb_checkpoint_request(db, NULL, NULL));
  IS(TIDESDB_INVALID, tidesdb_flush_log(NULL));
  IS(TIDESDB_INVALID, tidesdb_flush(NULL));
  IS(TIDESDB_INVALID, tidesdb_compact(NULL, NULL));
  IS(TIDESDB_INVALID, tidesdb_verify(NULL, NULL));
  IS(TIDESDB_INVALID, tidesdb_family_get_stats(family, NULL));
  IS(TIDESDB_INVALID, tidesdb_get_stats(NULL, NULL));
  tidesdb_count_sort_memory(NULL, 1);
  IS(TIDESDB_INVALID, tidesdb_estimate_range(family, slice(NULL), slice(NULL), NULL));
  IS(TIDESDB_INVALID, tidesdb_key_at(NULL, 0, NULL, 0, NULL));
  IS(TIDESDB_INVALID, tidesdb_status_text(db, NULL));
  IS(TIDESDB_INVALID, tidesdb_status_text(NULL, &text));
  tidesdb_free_text(NULL);
  IS(TIDESDB_INVALID, tidesdb_cursor_open(NULL, &no_cursor));
  IS(TIDESDB_INVALID, tidesdb_cursor_open(family, NULL));
  tidesdb_cursor_close(NULL);
  tidesdb_cursor_reset(NULL);
  tidesdb_cursor_unlock_row(NULL, txn);
  tidesdb_cursor_look_again(NULL, 1);
  IS(TIDESDB_INVALID, tidesdb_cursor_fetch(NULL, 1));
  uint64_t counted = 0;
  IS(TIDESDB_INVALID, tidesdb_cursor_count(NULL, &counted));

  /* Options that nobody initialised, or that name what is not there. */
  memset(&options, 0, sizeof options);
  IS(TIDESDB_INVALID, tidesdb_open(path, &options, &second));
  tidesdb_options_init(&options);
  options.sync_mode = 77;
  IS(TIDESDB_INVALID, tidesdb_open(path, &options, &second));
  tidesdb_options_init(&options);
  options.write_buffer_size = 1;
  IS(TIDESDB_INVALID, tidesdb_open(path, &options, &second));
  CHECK(strstr(tidesdb_last_error(), "write_buffer_size"));

  /* Calls in the wrong state. */
  memset(&seek, 0, sizeof seek);
  IS(TIDESDB_INVALID, put(txn, family, "k", "v"));
  IS(TIDESDB_INVALID, get(cursor, txn, "k", TIDESDB_READ_SNAPSHOT, &value));
  IS(TIDESDB_INVALID, tidesdb_cursor_seek(cursor, txn, &seek));
  IS(TIDESDB_NOT_FOUND, tidesdb_cursor_next(cursor));
  IS(TIDESDB_INVALID, tidesdb_txn_statement_begin(txn, 1, 1));
  IS(TIDESDB_INVALID, tidesdb_lock_table(txn, family, TIDESDB_LOCK_SHARED));
  IS(TIDESDB_INVALID, tidesdb_lock_key(txn, family, (const uint8_t *)"k", 1));
  IS(TIDESDB_INVALID, tidesdb_lock_advisory(txn, family, (const uint8_t *)"k", 1, TIDESDB_LOCK_SHARED));
  IS(TIDESDB_INVALID, tidesdb_txn_prepare(txn, NULL, 0));
  IS(TIDESDB_INVALID, tidesdb_txn_take_snapshot(txn));
  IS(TIDESDB_INVALID, tidesdb_txn_finish(txn, 0));
  IS(TIDESDB_INVALID, tidesdb_txn_commit(txn));
  tidesdb_txn_order(txn);
  OK(tidesdb_txn_rollback(txn));
  IS(TIDESDB_INVALID, tidesdb_txn_begin(txn, 5, 0));
  IS(TIDESDB_INVALID, tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 1u << 30));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  IS(TIDESDB_INVALID, tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  OK(put(txn, family, "k", "v"));
  tidesdb_txn_order(txn);
  IS(TIDESDB_INVALID, tidesdb_txn_finish(txn, 0));
  CHECK(tidesdb_txn_is_active(txn) && tidesdb_txn_has_writes(txn));
  char xid[141];
  memset(xid, 'x', sizeof xid);
  IS(TIDESDB_INVALID, tidesdb_txn_prepare(txn, (const uint8_t *)xid, sizeof xid));
  IS(TIDESDB_INVALID, tidesdb_lock_table(txn, family, 9));
  IS(TIDESDB_INVALID, tidesdb_lock_key(txn, NULL, (const uint8_t *)"k", 1));
  IS(TIDESDB_INVALID, tidesdb_find_keys(txn, NULL, looked_for, 2, is_there));
  IS(TIDESDB_INVALID, tidesdb_find_keys(txn, family, NULL, 2, is_there));
  IS(TIDESDB_INVALID, tidesdb_find_keys(txn, family, looked_for, 2, NULL));
  OK(tidesdb_find_keys(txn, family, NULL, 0, NULL));
  CHECK(is_there[0] == 9 && is_there[1] == 9);
  OK(tidesdb_find_keys(txn, family, looked_for, 2, is_there));
  CHECK(is_there[0] == TIDESDB_IS_MISSING && is_there[1] == TIDESDB_IS_THERE);
  IS(TIDESDB_INVALID, tidesdb_lock_advisory(txn, NULL, (const uint8_t *)"k", 1, TIDESDB_LOCK_SHARED));
  IS(TIDESDB_INVALID, tidesdb_lock_advisory(txn, family, (const uint8_t *)"k", 1, TIDESDB_LOCK_INTENT_SHARED));
  IS(TIDESDB_INVALID, tidesdb_lock_advisory(txn, family, (const uint8_t *)"k", 1, TIDESDB_LOCK_INTENT_EXCLUSIVE));
  IS(TIDESDB_INVALID, tidesdb_lock_advisory(txn, family, (const uint8_t *)"k", 1, 4));
  IS(TIDESDB_INVALID, tidesdb_lock_advisory(txn, family, (const uint8_t *)"k", 1, -1));

  /* Numbers that stand for nothing. */
  memset(&op, 0, sizeof op);
  op.key = slice("k");
  op.family = family;
  op.kind = 9;
  IS(TIDESDB_INVALID, tidesdb_write(txn, &op, 1, &size));
  op.kind = TIDESDB_PUT;
  op.flags = 64;
  IS(TIDESDB_INVALID, tidesdb_write(txn, &op, 1, &size));
  op.flags = 0;
  op.family = NULL;
  IS(TIDESDB_INVALID, tidesdb_write(txn, &op, 1, &size));
  IS(TIDESDB_INVALID, tidesdb_write(txn, NULL, 1, &size));
  op.family = family;
  char *long_key = (char *)calloc(65537, 1);
  CHECK(long_key);
  op.key.data = (const uint8_t *)long_key;
  op.key.size = 65537;
  IS(TIDESDB_INVALID, tidesdb_write(txn, &op, 1, &size));
  const uint8_t *long_bytes = op.key.data;
  IS(TIDESDB_INVALID, tidesdb_lock_key(txn, family, long_bytes, 65537));
  CHECK(strstr(tidesdb_last_error(), "65537") && strstr(tidesdb_last_error(), "65536"));
  IS(TIDESDB_INVALID, tidesdb_lock_advisory(txn, family, long_bytes, 65537, TIDESDB_LOCK_EXCLUSIVE));
  IS(TIDESDB_INVALID,
     tidesdb_cursor_get(cursor, txn, long_bytes, 65537, TIDESDB_READ_EXCLUSIVE, &value));
  IS(TIDESDB_NOT_FOUND,
     tidesdb_cursor_get(cursor, txn, long_bytes, 65537, TIDESDB_READ_SNAPSHOT, &value));
  op.key.size = 65536;
  OK(tidesdb_write(txn, &op, 1, &size));
  OK(tidesdb_lock_key(txn, family, long_bytes, 65536));
  free(long_key);
  seek.where = 9;
  IS(TIDESDB_INVALID, tidesdb_cursor_seek(cursor, txn, &seek));
  seek.where = 0;
  seek.mode = 5;
  IS(TIDESDB_INVALID, tidesdb_cursor_seek(cursor, txn, &seek));
  seek.mode = 0;
  IS(TIDESDB_INVALID, tidesdb_cursor_seek(cursor, txn, NULL));
  IS(TIDESDB_INVALID, tidesdb_cursor_seek(cursor, NULL, &seek));
  IS(TIDESDB_INVALID, get(cursor, txn, "k", 5, &value));
  IS(TIDESDB_INVALID, get(cursor, txn, "k", 0, NULL));
  seek.prefix_size = 1000;
  seek.key = (const uint8_t *)"k";
  seek.key_size = 1;
  OK(tidesdb_cursor_seek(cursor, txn, &seek));
  current_is(cursor, "k");

  /* Handles of another store. */
  char elsewhere[sizeof path + 16];
  snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", path);
  second = open_at(elsewhere);
  tidesdb_txn *theirs = begin_txn(second);
  IS(TIDESDB_INVALID, get(cursor, theirs, "k", TIDESDB_READ_SNAPSHOT, &value));
  IS(TIDESDB_INVALID, tidesdb_cursor_seek(cursor, theirs, &seek));
  IS(TIDESDB_INVALID, put(theirs, family, "k", "v"));
  IS(TIDESDB_INVALID, tidesdb_lock_table(theirs, family, TIDESDB_LOCK_SHARED));
  IS(TIDESDB_INVALID, tidesdb_lock_key(theirs, family, (const uint8_t *)"k", 1));
  IS(TIDESDB_INVALID, tidesdb_lock_advisory(theirs, family, (const uint8_t *)"k", 1, TIDESDB_LOCK_SHARED));
  tidesdb_txn_free(theirs);
  OK(tidesdb_close(second));

  /* After all that the transaction is whole. */
  tidesdb_cursor_reset(cursor);
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  reads(cursor, txn, "k", "v");
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

/* A cursor whose snapshot is gone says so: rows that it would miss without a word are the worst answer. */
static void outlived(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f");
  tidesdb_cursor *cursor = make_cursor(family);
  tidesdb_txn *txn = begin_txn(db);
  OK(put(txn, family, "a", "1"));
  OK(put(txn, family, "b", "1"));
  OK(put(txn, family, "c", "1"));
  OK(tidesdb_txn_commit(txn));

  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  OK(tidesdb_txn_statement_begin(txn, 0, 1000));
  OK(seek_to(cursor, txn, TIDESDB_SEEK_FIRST, NULL, 0, NULL, TIDESDB_READ_SNAPSHOT));
  tidesdb_txn_statement_end(txn);
  /* At REPEATABLE READ the snapshot is the transaction's. */
  OK(tidesdb_cursor_next(cursor));
  current_is(cursor, "b");
  OK(tidesdb_txn_commit(txn));
  IS(TIDESDB_INVALID, tidesdb_cursor_next(cursor));
  OK(tidesdb_txn_begin(txn, TIDESDB_READ_COMMITTED, 0));
  OK(tidesdb_txn_statement_begin(txn, 0, 1000));
  OK(seek_to(cursor, txn, TIDESDB_SEEK_FIRST, NULL, 0, NULL, TIDESDB_READ_SNAPSHOT));
  OK(tidesdb_cursor_next(cursor));
  tidesdb_txn_statement_end(txn);
  OK(tidesdb_txn_statement_begin(txn, 0, 1000));
  OK(put(txn, family, "bb", "1"));
  IS(TIDESDB_INVALID, tidesdb_cursor_next(cursor));
  OK(seek_to(cursor, txn, TIDESDB_SEEK_AFTER, "b", 0, NULL, TIDESDB_READ_SNAPSHOT));
  current_is(cursor, "c");
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

/* Waits for a key that another transaction has, for ever: the close ends it. */
struct blocked {
  tidesdb_txn *txn;
  tidesdb_family *family;
  int status;
};

static void *wait_for_key(void *argument) {
  struct blocked *blocked = (struct blocked *)argument;
  blocked->status = tidesdb_lock_key(blocked->txn, blocked->family, (const uint8_t *)"k", 1);
  return NULL;
}

/* Handles that outlive the store: each function answers at once, and what they had is given back. */
static void closed(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f"), *other = make_family(db, "g");
  tidesdb_txn *txn = begin_txn(db), *idle = make_txn(db), *prepared = begin_txn(db), *waiter = begin_txn(db);
  tidesdb_cursor *cursor = make_cursor(family);
  tidesdb_ddl *ddl;
  tidesdb_backup_job *backup;
  tidesdb_iter *iter;
  tidesdb_family_stats stats;
  tidesdb_slice value;
  struct blocked blocked;
  pthread_t thread;
  char to[sizeof path + 16];
  uint64_t number;
  uint8_t key[8];
  size_t size;

  alarm(120);
  OK(tidesdb_put(family, slice("a"), slice("1")));
  OK(tidesdb_put(family, slice("b"), slice("1")));
  OK(tidesdb_iter_new(family, txn, slice(""), slice("z"), &iter));
  OK(put(txn, family, "k", "v"));
  OK(seek_to(cursor, txn, TIDESDB_SEEK_FIRST, NULL, 0, NULL, TIDESDB_READ_EXCLUSIVE));
  OK(put(prepared, other, "p", "v"));
  OK(tidesdb_txn_prepare(prepared, (const uint8_t *)"xid", 3));
  OK(tidesdb_ddl_begin(db, &ddl));
  OK(tidesdb_ddl_drop(ddl, slice("g")));
  snprintf(to, sizeof to, "%s.backup", path);
  OK(tidesdb_backup_begin(db, to, 0, &backup));
  OK(tidesdb_backup_point(backup, NULL, NULL));
  blocked.txn = waiter;
  blocked.family = family;
  tidesdb_txn_set_lock_timeout(waiter, TIDESDB_NO_TIMEOUT);
  CHECK(pthread_create(&thread, NULL, wait_for_key, &blocked) == 0);
  await(&waits, 1);
  OK(tidesdb_close(db));
  CHECK(pthread_join(thread, NULL) == 0);
  IS(TIDESDB_INTERRUPTED, blocked.status);

  /* The memtable has rows, and nobody is left to flush it. */
  IS(TIDESDB_INVALID, tidesdb_compact(family, NULL));
  CHECK(strstr(tidesdb_last_error(), "the store is closed"));
  IS(TIDESDB_INVALID, tidesdb_compact(family, txn));
  IS(TIDESDB_INVALID, tidesdb_verify(family, NULL));
  IS(TIDESDB_INVALID, tidesdb_count_rows(family, NULL, &number));
  IS(TIDESDB_INVALID, tidesdb_estimate_range(family, slice("a"), slice("z"), &number));
  IS(TIDESDB_INVALID, tidesdb_key_at(family, 0.5, key, sizeof key, &size));
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  IS(TIDESDB_INVALID, tidesdb_family_get_stats(family, &stats));
  IS(TIDESDB_INVALID, tidesdb_counter_take(family, 0, 1, 0, 1, 100, &number));
  IS(TIDESDB_INVALID, tidesdb_counter_raise(NULL, family, 0, 7));
  IS(TIDESDB_INVALID, tidesdb_put(family, slice("c"), slice("1")));
  IS(TIDESDB_INVALID, tidesdb_get(family, slice("a"), &value));
  IS(TIDESDB_INVALID, tidesdb_delete(family, slice("a")));
  IS(TIDESDB_INVALID, tidesdb_iter_first(iter));
  IS(TIDESDB_INVALID, tidesdb_txn_begin(idle, TIDESDB_REPEATABLE_READ, 0));
  IS(TIDESDB_INVALID, tidesdb_txn_take_snapshot(txn));
  IS(TIDESDB_INVALID, tidesdb_txn_statement_begin(txn, 1, 1000));
  IS(TIDESDB_INVALID, tidesdb_txn_savepoint_set(txn, &number));
  IS(TIDESDB_INVALID, tidesdb_lock_table(txn, family, TIDESDB_LOCK_EXCLUSIVE));
  IS(TIDESDB_INVALID, tidesdb_lock_key(txn, family, (const uint8_t *)"z", 1));
  IS(TIDESDB_INVALID, tidesdb_lock_key(waiter, family, (const uint8_t *)"k", 1));
  IS(TIDESDB_INVALID, tidesdb_lock_advisory(txn, other, (const uint8_t *)"z", 1, TIDESDB_LOCK_SHARED));
  IS(TIDESDB_INVALID, put(txn, family, "l", "v"));
  IS(TIDESDB_INVALID, get(cursor, txn, "a", TIDESDB_READ_SNAPSHOT, &value));
  IS(TIDESDB_INVALID, seek_to(cursor, txn, TIDESDB_SEEK_FIRST, NULL, 0, NULL, TIDESDB_READ_SNAPSHOT));
  IS(TIDESDB_INVALID, tidesdb_txn_prepare(txn, (const uint8_t *)"x", 1));
  IS(TIDESDB_INVALID, tidesdb_txn_prepare_dormant(txn, (const uint8_t *)"x", 1));
  IS(TIDESDB_INVALID, tidesdb_txn_commit(txn));
  CHECK(tidesdb_txn_is_active(txn) && tidesdb_txn_has_writes(txn));
  OK(tidesdb_txn_rollback(txn));
  IS(TIDESDB_INVALID, tidesdb_ddl_commit(ddl));
  IS(TIDESDB_INVALID, tidesdb_backup_finish(backup, NULL));
  tidesdb_iter_free(iter);
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_txn_free(idle);
  tidesdb_txn_free(waiter);
  /* Its coordinator decides it, after the next opening. */
  tidesdb_txn_free(prepared);
  tidesdb_family_close(family);
  tidesdb_family_close(other);

  db = open_at(path);
  OK(tidesdb_family_open(db, slice("f"), &family));
  OK(tidesdb_get(family, slice("a"), &value));
  tidesdb_slice_free(&value);
  IS(TIDESDB_NOT_FOUND, tidesdb_get(family, slice("k"), &value));
  OK(tidesdb_commit_by_xid(db, (const uint8_t *)"xid", 3));
  OK(tidesdb_compact(family, NULL));
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

/* What the allocator keeps for the thread of each connection is counted. */
static void connections(void) {
  enum { COUNT = 200, KB = 1024 };
  tidesdb_db *db = open_at(path);
  tidesdb_txn *txns[COUNT];
  tidesdb_stats before, connected, after;
  size_t i;
  OK(tidesdb_get_stats(db, &before));
  for (i = 0; i < COUNT; i++) txns[i] = make_txn(db);
  OK(tidesdb_get_stats(db, &connected));
  for (i = 0; i < COUNT; i++) tidesdb_txn_free(txns[i]);
  OK(tidesdb_get_stats(db, &after));
  CHECK(connected.memory_total >= before.memory_total + COUNT * 40 * KB);
  CHECK(after.memory_total < before.memory_total + COUNT * 10 * KB);
  OK(tidesdb_close(db));
}

/* An owner that remembers its store is not given an older copy of it, nor another one. */
static void marks(void) {
  tidesdb_options options;
  tidesdb_db *db;
  char mark[TIDESDB_MARK_SIZE], later[TIDESDB_MARK_SIZE], again[TIDESDB_MARK_SIZE];
  char remembered[TIDESDB_MARK_SIZE + 64], copy[sizeof path + 16], command[2 * sizeof path + 64];

  db = open_at(path);
  IS(TIDESDB_NOT_FOUND, tidesdb_mark(db, mark));
  IS(TIDESDB_INVALID, tidesdb_mark(NULL, mark));
  OK(tidesdb_close(db));
  tidesdb_options_init(&options);
  options.owner = "a1\n/data";
  OK(tidesdb_open(path, &options, &db));
  OK(tidesdb_mark(db, mark));
  IS(TIDESDB_INVALID, tidesdb_mark(db, NULL));
  OK(tidesdb_close(db));
  snprintf(copy, sizeof copy, "%s.copy", path);
  snprintf(command, sizeof command, "cp -a '%s' '%s'", path, copy);
  CHECK(system(command) == 0);

  snprintf(remembered, sizeof remembered, "%s\n/data/memory", mark);
  options.remembered = remembered;
  OK(tidesdb_open(path, &options, &db));
  OK(tidesdb_mark(db, later));
  CHECK(strcmp(mark, later) != 0);
  OK(tidesdb_close(db));
  /* Not noted, as before a crash. */
  OK(tidesdb_open(path, &options, &db));
  OK(tidesdb_close(db));

  snprintf(remembered, sizeof remembered, "%s\n/data/memory", later);
  IS(TIDESDB_BUSY, tidesdb_open(copy, &options, &db));
  CHECK(db == NULL && strstr(tidesdb_last_error(), "an older copy"));
  CHECK(strstr(tidesdb_last_error(), copy) && strstr(tidesdb_last_error(), "remove /data/memory"));
  options.read_only = 1;
  IS(TIDESDB_BUSY, tidesdb_open(copy, &options, &db));
  options.read_only = 0;
  /* Who takes the copy on all the same knows it from the other one after that. */
  options.remembered = NULL;
  OK(tidesdb_open(copy, &options, &db));
  OK(tidesdb_mark(db, again));
  OK(tidesdb_close(db));
  snprintf(remembered, sizeof remembered, "%s\n/data/memory", again);
  options.remembered = remembered;
  OK(tidesdb_open(copy, &options, &db));
  OK(tidesdb_close(db));
  IS(TIDESDB_BUSY, tidesdb_open(path, &options, &db));
  CHECK(strstr(tidesdb_last_error(), "another one than was opened last"));
  /* Nobody else asks. */
  options.owner = NULL;
  options.remembered = NULL;
  OK(tidesdb_open(path, &options, &db));
  OK(tidesdb_close(db));
  options.remembered = "damaged";
  OK(tidesdb_open(path, &options, &db));
  OK(tidesdb_close(db));
}

/* Rows are counted as operations say; a scan puts it right. */
static void position_is(tidesdb_db *db, int64_t number, int has_gtid) {
  tidesdb_position found;
  OK(tidesdb_get_position(db, &found));
  CHECK(found.uuid[0] == 1 && found.uuid[15] == 16);
  CHECK(found.number == number && !found.has_gtid == !has_gtid);
  CHECK(!has_gtid || (found.gtid_domain == 7 && found.gtid_server == 8 && found.gtid_number == UINT64_MAX));
}

static void positions(void) {
  tidesdb_options options;
  tidesdb_position position;
  tidesdb_family *family;
  tidesdb_txn *txn;
  tidesdb_db *db;
  size_t i;

  memset(&position, 0, sizeof position);
  for (i = 0; i < sizeof position.uuid; i++)
    position.uuid[i] = (uint8_t)(i + 1);
  position.number = -1;
  tidesdb_options_init(&options);
  CHECK(options.least_format == 1);
  OK(tidesdb_open(path, &options, &db));
  CHECK(tidesdb_format(db) == 1);
  IS(TIDESDB_NOT_FOUND, tidesdb_get_position(db, &position));
  IS(TIDESDB_INVALID, tidesdb_set_position(db, &position));
  CHECK(strstr(tidesdb_last_error(), "version 2"));
  txn = begin_txn(db);
  IS(TIDESDB_INVALID, tidesdb_txn_set_position(txn, &position));
  tidesdb_txn_free(txn);
  OK(tidesdb_close(db));
  options.least_format = 3;
  IS(TIDESDB_INVALID, tidesdb_open(path, &options, &db));
  options.least_format = 2;
  OK(tidesdb_open(path, &options, &db));
  CHECK(tidesdb_format(db) == 2);

  family = make_family(db, "t");
  OK(tidesdb_set_position(db, &position));
  position_is(db, -1, 0);
  position.number = INT64_MAX;
  position.has_gtid = 2;
  position.gtid_domain = 7;
  position.gtid_server = 8;
  position.gtid_number = UINT64_MAX;
  txn = begin_txn(db);
  OK(put(txn, family, "k", "v"));
  OK(tidesdb_txn_set_position(txn, &position));
  OK(tidesdb_txn_set_position(txn, NULL));
  OK(tidesdb_txn_prepare(txn, (const uint8_t *)"x", 1));
  OK(tidesdb_txn_set_position(txn, &position));
  position_is(db, -1, 0);
  tidesdb_txn_order(txn);
  position_is(db, INT64_MAX, 1);
  IS(TIDESDB_INVALID, tidesdb_txn_set_position(txn, &position));
  OK(tidesdb_txn_finish(txn, 0));
  tidesdb_txn_free(txn);
  /* One that others decide. */
  txn = begin_txn(db);
  OK(put(txn, family, "l", "v"));
  OK(tidesdb_txn_prepare(txn, (const uint8_t *)"y", 1));
  tidesdb_txn_free(txn);
  position.number = 17;
  position.has_gtid = 0;
  IS(TIDESDB_NOT_FOUND, tidesdb_commit_by_xid_at(db, (const uint8_t *)"z", 1, &position));
  IS(TIDESDB_INVALID, tidesdb_commit_by_xid_at(db, (const uint8_t *)"y", 1, NULL));
  position_is(db, INT64_MAX, 1);
  OK(tidesdb_commit_by_xid_at(db, (const uint8_t *)"y", 1, &position));
  position_is(db, 17, 0);
  tidesdb_family_close(family);
  IS(TIDESDB_INVALID, tidesdb_get_position(db, NULL));
  IS(TIDESDB_INVALID, tidesdb_get_position(NULL, &position));
  IS(TIDESDB_INVALID, tidesdb_set_position(db, NULL));
  IS(TIDESDB_INVALID, tidesdb_txn_set_position(NULL, &position));
  OK(tidesdb_close(db));
  OK(tidesdb_open(path, &options, &db));
  position_is(db, 17, 0);
  OK(tidesdb_close(db));
}

static void counts_to(tidesdb_family *family, uint64_t rows) {
  tidesdb_family_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  OK(tidesdb_family_get_stats(family, &stats));
  CHECK(stats.counted == 1 && stats.entries == rows);
}

static void figures(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "f");
  tidesdb_txn *txn = begin_txn(db);
  uint64_t rows = 0;
  counts_to(family, 0);
  OK(put(txn, family, "a", "1"));
  OK(change(txn, family, TIDESDB_INSERT, "b", "1"));
  OK(change_with(txn, family, TIDESDB_DELETE, "c", NULL, TIDESDB_OP_NEUTRAL));
  counts_to(family, 0);
  OK(tidesdb_txn_commit(txn));
  counts_to(family, 2);
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  OK(change_with(txn, family, TIDESDB_PUT, "a", "2", TIDESDB_OP_NEUTRAL));
  OK(change(txn, family, TIDESDB_DELETE, "b", NULL));
  IS(TIDESDB_INVALID, change_with(txn, family, TIDESDB_INSERT, "d", "1", TIDESDB_OP_NEUTRAL));
  IS(TIDESDB_INVALID, change_with(txn, family, TIDESDB_PUT, "d", "1", 8));
  OK(tidesdb_txn_commit(txn));
  counts_to(family, 1);
  /* It was there, and the writer does not say so. */
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  OK(put(txn, family, "a", "3"));
  OK(tidesdb_txn_commit(txn));
  counts_to(family, 2);
  OK(tidesdb_count_rows(family, NULL, &rows));
  CHECK(rows == 1);
  counts_to(family, 1);
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
  db = open_at(path);
  OK(tidesdb_family_open(db, slice("f"), &family));
  counts_to(family, 1);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

typedef struct group {
  const char *name;
  void (*run)(void);
} group;

/* Ends a call at the so many-th question. */
static int asked, progressed;

static int stops(void *context) { return ++asked > *(int *)context; }

static void progresses(void *context, uint64_t done, uint64_t total) {
  CHECK(context && done <= total);
  progressed++;
}

static void backups(void) {
  tidesdb_db *db = open_at(path), *restored;
  tidesdb_family *family = make_family(db, "a");
  tidesdb_txn *txn = begin_txn(db);
  tidesdb_backup_job *job, *other;
  tidesdb_watch watch;
  tidesdb_cursor *cursor;
  uint64_t sequence = 0;
  int after = 0;
  char to[4200], again[4200], home[4200], data[4200], file[4300];
  FILE *text;
  snprintf(to, sizeof to, "%s-backup", path);
  snprintf(again, sizeof again, "%s-links", path);
  snprintf(home, sizeof home, "%s-restored", path);
  snprintf(data, sizeof data, "%s-data", path);
  OK(put(txn, family, "before", "1"));
  OK(tidesdb_txn_commit(txn));
  tidesdb_txn_free(txn);

  /* In steps: what is committed behind the moment is not in it. */
  IS(TIDESDB_INVALID, tidesdb_backup_begin(db, path, 0, &job));
  CHECK(!job && strstr(tidesdb_last_error(), path));
  OK(tidesdb_backup_begin(db, to, 0, &job));
  IS(TIDESDB_BUSY, tidesdb_backup_begin(db, again, 0, &other));
  CHECK(!other);
  IS(TIDESDB_BUSY, tidesdb_backup(db, again, 0, NULL));
  OK(tidesdb_backup_point(job, NULL, &sequence));
  CHECK(sequence > 0);
  txn = begin_txn(db);
  OK(put(txn, family, "behind", "2"));
  OK(tidesdb_txn_commit(txn));
  snprintf(file, sizeof file, "%s.frm", path);
  text = fopen(file, "w");
  CHECK(text && fputs("definition", text) >= 0 && fclose(text) == 0);
  OK(tidesdb_backup_add_file(job, file, "shop/a.frm"));
  IS(TIDESDB_INVALID, tidesdb_backup_add_file(job, file, "../a.frm"));
  OK(tidesdb_backup_note(job, "position", "log.000001 4"));
  OK(tidesdb_backup_set_rate(job, 1 << 30));
  OK(tidesdb_backup_leave_out_damaged(job, NULL, NULL));
  IS(TIDESDB_INVALID, tidesdb_backup_set_base(job, path));
  IS(TIDESDB_INVALID, tidesdb_backup_note(job, "position", "two\nlines"));
  watch.context = &after;
  watch.stop = NULL;
  watch.progress = progresses;
  OK(tidesdb_backup_finish(job, &watch));
  CHECK(progressed > 0);
  OK(tidesdb_backup_verify(to, NULL));
  IS(TIDESDB_INVALID, tidesdb_backup_verify(path, NULL));

  /* An interrupted one leaves nothing; nor does one that is abandoned. */
  watch.stop = stops;
  IS(TIDESDB_INTERRUPTED, tidesdb_backup(db, again, 1, &watch));
  OK(tidesdb_backup_begin(db, again, 1, &job));
  tidesdb_backup_abandon(job);
  tidesdb_backup_abandon(NULL);
  CHECK(access(again, F_OK) != 0);
  OK(tidesdb_backup(db, again, 1, NULL));
  OK(tidesdb_backup_verify(again, NULL));
  IS(TIDESDB_INVALID, tidesdb_backup(db, again, 1, NULL));
  IS(TIDESDB_INVALID, tidesdb_backup(NULL, again, 1, NULL));
  IS(TIDESDB_INVALID, tidesdb_backup_finish(NULL, NULL));

  IS(TIDESDB_INVALID, tidesdb_backup_restore(to, home, NULL, NULL));
  IS(TIDESDB_INVALID, tidesdb_backup_restore(to, home, data, NULL));
  CHECK(mkdir(data, 0700) == 0);
  OK(tidesdb_backup_restore(to, home, data, NULL));
  snprintf(file, sizeof file, "%s/shop/a.frm", data);
  CHECK(access(file, F_OK) == 0);
  IS(TIDESDB_INVALID, tidesdb_backup_restore(to, home, data, NULL));
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));

  restored = open_at(home);
  OK(tidesdb_family_open(restored, slice("a"), &family));
  cursor = make_cursor(family);
  txn = begin_txn(restored);
  reads(cursor, txn, "before", "1");
  reads(cursor, txn, "behind", NULL);
  OK(tidesdb_txn_rollback(txn));
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(restored));
}

/* Keys with a second from which they do not exist any more. */
static void expiries(void) {
  tidesdb_db *db = open_at(path);
  tidesdb_family *family = make_family(db, "expiring");
  tidesdb_cursor *cursor = make_cursor(family);
  tidesdb_txn *txn = begin_txn(db);
  const uint64_t now = (uint64_t)time(NULL);
  tidesdb_op ops[3];
  tidesdb_seek seek;
  tidesdb_slice value;
  size_t i;
  memset(ops, 0, sizeof ops);
  for (i = 0; i < 3; i++) {
    static const char *const keys[] = {"ever", "gone", "later"};
    ops[i].family = family;
    ops[i].key = slice(keys[i]);
    ops[i].value = slice("value");
    ops[i].kind = TIDESDB_PUT;
    ops[i].flags = TIDESDB_OP_LOCK;
  }
  ops[1].expiry = now - 1;
  ops[2].expiry = now + 1000;
  OK(tidesdb_write(txn, ops, 3, NULL));
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  reads(cursor, txn, "gone", NULL);
  reads(cursor, txn, "ever", "value");
  CHECK(cursor->expiry == 0);
  reads(cursor, txn, "later", "value");
  CHECK(cursor->expiry == now + 1000);
  memset(&seek, 0, sizeof seek);
  seek.where = TIDESDB_SEEK_FIRST;
  OK(tidesdb_cursor_seek(cursor, txn, &seek));
  current_is(cursor, "ever");
  CHECK(cursor->rows[cursor->position].expiry == 0);
  OK(tidesdb_cursor_next(cursor));
  current_is(cursor, "later");
  CHECK(cursor->rows[cursor->position].expiry == now + 1000);
  CHECK(cursor->rows[cursor->position].value_size == 5);
  IS(TIDESDB_NOT_FOUND, tidesdb_cursor_next(cursor));
  /* The place of one that is gone is free, the other's is not. */
  ops[1].kind = ops[2].kind = TIDESDB_INSERT;
  OK(tidesdb_write(txn, ops + 1, 1, NULL));
  IS(TIDESDB_DUPLICATE, tidesdb_write(txn, ops + 2, 1, NULL));
  OK(tidesdb_txn_rollback(txn));
  /* An applier's reads find it as long as it is there. */
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_SEES_EXPIRED));
  OK(tidesdb_cursor_get(cursor, txn, ops[1].key.data, ops[1].key.size, TIDESDB_READ_EXCLUSIVE, &value));
  CHECK(value.size == 5 && cursor->expiry == now - 1);
  OK(tidesdb_txn_rollback(txn));
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

static int load_row(tidesdb_ingest *load, tidesdb_family *family, int n, uint8_t kind, uint8_t flags) {
  tidesdb_op op;
  char key[16];
  size_t failed = 9;
  int status;
  snprintf(key, sizeof key, "k%06d", n);
  memset(&op, 0, sizeof op);
  op.family = family;
  op.key = slice(key);
  op.value = slice("value");
  op.kind = kind;
  op.flags = flags;
  status = tidesdb_ingest_add(load, &op, 1, &failed);
  CHECK(failed == (status == TIDESDB_OK ? 9u : 0u));
  return status;
}

static void ingests(void) {
  tidesdb_db *db = open_at(path), *other;
  tidesdb_family *family = make_family(db, "loaded"), *more = make_family(db, "more"), *strange;
  tidesdb_cursor *cursor = make_cursor(family);
  tidesdb_txn *txn = begin_txn(db), *old = begin_txn(db);
  tidesdb_ingest *load;
  tidesdb_slice pieces[2];
  tidesdb_op op;
  char elsewhere[4200];
  int n;
  reads(cursor, old, "k000001", NULL);
  OK(tidesdb_ingest_begin(db, 0, &load));
  for (n = 0; n < 3000; n++)
    OK(load_row(load, family, n, TIDESDB_PUT, 0));
  IS(TIDESDB_DUPLICATE, load_row(load, family, 2999, TIDESDB_PUT, 0));
  /* Out of order, in another family. */
  for (n = 3000; n > 0; n--)
    OK(load_row(load, more, n * 7919 % 3001, TIDESDB_PUT, 0));
  memset(&op, 0, sizeof op);
  pieces[0] = slice("in ");
  pieces[1] = slice("pieces");
  op.family = family;
  op.key = slice("l");
  op.value.data = (const uint8_t *)pieces;
  op.value.size = 2;
  op.kind = TIDESDB_PUT;
  op.flags = TIDESDB_OP_PIECES;
  OK(tidesdb_ingest_add(load, &op, 1, NULL));
  OK(tidesdb_ingest_add(load, NULL, 0, NULL));
  /* No puts of new keys. */
  IS(TIDESDB_INVALID, load_row(load, family, 9000, TIDESDB_DELETE, 0));
  IS(TIDESDB_INVALID, load_row(load, family, 9000, TIDESDB_INSERT, 0));
  IS(TIDESDB_INVALID, load_row(load, family, 9000, TIDESDB_PUT, TIDESDB_OP_NEUTRAL));
  IS(TIDESDB_INVALID, load_row(load, family, 9000, TIDESDB_PUT, TIDESDB_OP_KEEP_REST));
  IS(TIDESDB_INVALID, load_row(load, family, 9000, TIDESDB_PUT, 16));
  /* The family is locked as a whole. */
  tidesdb_txn_set_lock_timeout(txn, TIDESDB_NO_WAIT);
  IS(TIDESDB_LOCK_TIMEOUT, put(txn, family, "x", "1"));
  OK(tidesdb_txn_rollback(txn));
  OK(tidesdb_ingest_finish(load));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0));
  reads(cursor, txn, "k000001", "value");
  reads(cursor, txn, "l", "in pieces");
  reads(cursor, old, "k000001", NULL);
  counts_to(family, 3001);
  counts_to(more, 3000);
  OK(tidesdb_txn_rollback(old));
  OK(tidesdb_txn_rollback(txn));

  /* No more into what has rows; another store's; a kill; flags. */
  OK(tidesdb_ingest_begin(db, TIDESDB_INGEST_UNLOCKED, &load));
  IS(TIDESDB_INVALID, load_row(load, family, 9000, TIDESDB_PUT, 0));
  CHECK(strstr(tidesdb_last_error(), "loaded") && strstr(tidesdb_last_error(), "truncate"));
  snprintf(elsewhere, sizeof elsewhere, "%s-elsewhere", path);
  other = open_at(elsewhere);
  strange = make_family(other, "strange");
  IS(TIDESDB_INVALID, load_row(load, strange, 1, TIDESDB_PUT, 0));
  tidesdb_family_close(strange);
  OK(tidesdb_close(other));
  strange = make_family(db, "strange");
  OK(load_row(load, strange, 1, TIDESDB_PUT, 0));
  tidesdb_ingest_kill(load);
  IS(TIDESDB_INTERRUPTED, load_row(load, strange, 2, TIDESDB_PUT, 0));
  IS(TIDESDB_INTERRUPTED, tidesdb_ingest_finish(load));
  OK(tidesdb_ingest_begin(db, 0, &load));
  OK(load_row(load, strange, 1, TIDESDB_PUT, 0));
  tidesdb_ingest_abandon(load);
  OK(tidesdb_ingest_begin(db, 0, &load));
  OK(tidesdb_ingest_finish(load));
  counts_to(strange, 0);
  IS(TIDESDB_INVALID, tidesdb_ingest_begin(db, 2, &load));
  CHECK(load == NULL);
  IS(TIDESDB_INVALID, tidesdb_ingest_begin(NULL, 0, &load));
  IS(TIDESDB_INVALID, tidesdb_ingest_begin(db, 0, NULL));
  IS(TIDESDB_INVALID, tidesdb_ingest_add(NULL, &op, 1, NULL));
  IS(TIDESDB_INVALID, tidesdb_ingest_finish(NULL));
  tidesdb_ingest_kill(NULL);
  tidesdb_ingest_abandon(NULL);
  tidesdb_family_close(strange);

  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_txn_free(old);
  tidesdb_family_close(family);
  tidesdb_family_close(more);
  OK(tidesdb_close(db));
}

/* ---- single operations and iterators ---- */

static int is(tidesdb_slice slice, const char *expected) {
  return slice.size == strlen(expected) && memcmp(slice.data, expected, slice.size) == 0;
}

static void stores(tidesdb_family *family, const char *key, const char *value) {
  OK(tidesdb_put(family, tidesdb_text(key), tidesdb_text(value)));
}

static void holds(tidesdb_family *family, const char *key, const char *expected) {
  tidesdb_slice value;
  if (expected) {
    OK(tidesdb_get(family, tidesdb_text(key), &value));
    CHECK(value.data != NULL && is(value, expected));
  } else {
    IS(TIDESDB_NOT_FOUND, tidesdb_get(family, tidesdb_text(key), &value));
    CHECK(value.data == NULL && value.size == 0);
  }
  tidesdb_slice_free(&value);
  CHECK(value.data == NULL && value.size == 0);
}

static void *put_waits(void *family) {
  OK(tidesdb_put((tidesdb_family *)family, tidesdb_text("apple"), tidesdb_text("after")));
  return NULL;
}

static void singles(void) {
  tidesdb_db *db = open_at(path), *second;
  tidesdb_family *family, *same, *none;
  tidesdb_family_options options;
  tidesdb_slice value, large;
  tidesdb_txn *txn;
  tidesdb_options store_options;
  pthread_t thread;
  uint8_t *bytes = (uint8_t *)calloc(1, TIDESDB_MAX_KEY_SIZE + 1);

  /* Made once, opened from then on; one that exists keeps its options. */
  tidesdb_family_options_init(&options);
  OK(tidesdb_family_open_or_create(db, tidesdb_text("fruit"), &options, &family));
  OK(tidesdb_family_open_or_create(db, tidesdb_text("fruit"), NULL, &same));
  CHECK(tidesdb_family_id(family) == tidesdb_family_id(same));
  options.block_size = 1;
  IS(TIDESDB_INVALID, tidesdb_family_open_or_create(db, tidesdb_text("new"), &options, &none));
  CHECK(none == NULL);
  IS(TIDESDB_INVALID, tidesdb_family_open_or_create(NULL, tidesdb_text("new"), NULL, &none));
  IS(TIDESDB_INVALID, tidesdb_family_open_or_create(db, tidesdb_text("new"), NULL, NULL));
  IS(TIDESDB_INVALID, tidesdb_family_open_or_create(db, tidesdb_text(""), NULL, &none));

  stores(family, "apple", "red");
  stores(family, "apple", "green");
  stores(family, "nothing", "");
  holds(same, "apple", "green");
  holds(family, "nothing", "");
  holds(family, "cherry", NULL);
  OK(tidesdb_delete(family, tidesdb_text("apple")));
  OK(tidesdb_delete(family, tidesdb_text("apple")));
  holds(family, "apple", NULL);

  /* Bytes, not strings; up to the bound. */
  CHECK(bytes != NULL);
  large.data = bytes;
  large.size = TIDESDB_MAX_KEY_SIZE;
  OK(tidesdb_put(family, large, large));
  OK(tidesdb_get(family, large, &value));
  CHECK(value.size == large.size && memcmp(value.data, bytes, value.size) == 0);
  tidesdb_slice_free(&value);
  large.size++;
  IS(TIDESDB_INVALID, tidesdb_put(family, large, tidesdb_text("")));

  /* What a transaction has locked makes a single write wait for it, and no read. */
  txn = make_txn(db);
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_DEFAULT));
  OK(put(txn, family, "apple", "before"));
  CHECK(pthread_create(&thread, NULL, put_waits, family) == 0);
  holds(family, "apple", NULL);
  OK(tidesdb_txn_commit(txn));
  CHECK(pthread_join(thread, NULL) == 0);
  holds(family, "apple", "after");
  tidesdb_txn_free(txn);

  IS(TIDESDB_INVALID, tidesdb_put(NULL, tidesdb_text("k"), tidesdb_text("v")));
  IS(TIDESDB_INVALID, tidesdb_delete(NULL, tidesdb_text("k")));
  IS(TIDESDB_INVALID, tidesdb_get(NULL, tidesdb_text("k"), &value));
  CHECK(value.data == NULL);
  IS(TIDESDB_INVALID, tidesdb_get(family, tidesdb_text("k"), NULL));
  tidesdb_slice_free(NULL);

  /* A value outlives its store; a family's handle that is left answers errors. */
  OK(tidesdb_get(family, tidesdb_text("apple"), &value));
  OK(tidesdb_close(db));
  IS(TIDESDB_INVALID, tidesdb_put(family, tidesdb_text("k"), tidesdb_text("v")));
  CHECK(strstr(tidesdb_last_error(), "closed"));
  tidesdb_options_init(&store_options);
  IS(TIDESDB_BUSY, tidesdb_open(path, &store_options, &second));
  tidesdb_family_close(family);
  tidesdb_family_close(same);
  CHECK(is(value, "after"));
  tidesdb_slice_free(&value);
  db = open_at(path);
  OK(tidesdb_family_open(db, tidesdb_text("fruit"), &family));
  holds(family, "apple", "after");
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
  free(bytes);
}

static void txn_keys(void) {
  tidesdb_db *db = open_at(path), *other;
  tidesdb_family *family, *stranger;
  tidesdb_txn *txn = make_txn(db), *second = make_txn(db);
  tidesdb_slice value;
  tidesdb_iter *iter;
  tidesdb_options options;
  char elsewhere[sizeof path + 16];

  OK(tidesdb_family_open_or_create(db, tidesdb_text("fruit"), NULL, &family));
  stores(family, "apple", "red");
  stores(family, "cherry", "red");
  IS(TIDESDB_INVALID, tidesdb_txn_put(txn, family, tidesdb_text("apple"), tidesdb_text("green")));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_DEFAULT));
  OK(tidesdb_txn_get(txn, family, tidesdb_text("apple"), &value));
  CHECK(is(value, "red"));
  tidesdb_slice_free(&value);
  OK(tidesdb_txn_put(txn, family, tidesdb_text("apple"), tidesdb_text("green")));
  OK(tidesdb_txn_delete(txn, family, tidesdb_text("cherry")));
  OK(tidesdb_txn_delete(txn, family, tidesdb_text("none")));
  OK(tidesdb_txn_get(txn, family, tidesdb_text("apple"), &value));
  CHECK(is(value, "green"));
  tidesdb_slice_free(&value);
  IS(TIDESDB_NOT_FOUND, tidesdb_txn_get(txn, family, tidesdb_text("cherry"), &value));
  CHECK(value.data == NULL);
  holds(family, "apple", "red");
  OK(tidesdb_txn_commit(txn));
  holds(family, "apple", "green");
  holds(family, "cherry", NULL);

  /* A key that one has read for a change is locked for the other, whether it exists or not. */
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_DEFAULT));
  OK(tidesdb_txn_begin(second, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_DEFAULT));
  tidesdb_txn_set_lock_timeout(second, TIDESDB_NO_WAIT);
  OK(tidesdb_txn_get_for_update(txn, family, tidesdb_text("apple"), &value));
  CHECK(is(value, "green"));
  tidesdb_slice_free(&value);
  IS(TIDESDB_NOT_FOUND, tidesdb_txn_get_for_update(txn, family, tidesdb_text("none"), &value));
  IS(TIDESDB_LOCK_TIMEOUT, tidesdb_txn_put(second, family, tidesdb_text("apple"), tidesdb_text("blue")));
  IS(TIDESDB_LOCK_TIMEOUT, tidesdb_txn_get_for_update(second, family, tidesdb_text("apple"), &value));
  CHECK(value.data == NULL && value.size == 0);
  OK(tidesdb_txn_rollback(txn));

  /* A version that the snapshot does not show: a conflict. */
  OK(tidesdb_txn_get(second, family, tidesdb_text("apple"), &value));
  tidesdb_slice_free(&value);
  stores(family, "apple", "yellow");
  IS(TIDESDB_CONFLICT, tidesdb_txn_put(second, family, tidesdb_text("apple"), tidesdb_text("blue")));
  OK(tidesdb_txn_rollback(second));

  /* At SERIALIZABLE plain reads and iterators keep writers out. */
  OK(tidesdb_txn_begin(txn, TIDESDB_SERIALIZABLE, TIDESDB_TXN_DEFAULT));
  OK(tidesdb_txn_begin(second, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_DEFAULT));
  OK(tidesdb_iter_new(family, txn, tidesdb_text("a"), tidesdb_text("c"), &iter));
  CHECK(is(tidesdb_iter_value(iter), "yellow"));
  IS(TIDESDB_NOT_FOUND, tidesdb_iter_next(iter));
  tidesdb_iter_free(iter);
  IS(TIDESDB_NOT_FOUND, tidesdb_txn_get(txn, family, tidesdb_text("x"), &value));
  IS(TIDESDB_LOCK_TIMEOUT, tidesdb_txn_put(second, family, tidesdb_text("apple"), tidesdb_text("blue")));
  IS(TIDESDB_LOCK_TIMEOUT, tidesdb_txn_put(second, family, tidesdb_text("banana"), tidesdb_text("blue")));
  IS(TIDESDB_LOCK_TIMEOUT, tidesdb_txn_put(second, family, tidesdb_text("x"), tidesdb_text("blue")));
  OK(tidesdb_txn_commit(txn));
  OK(tidesdb_txn_put(second, family, tidesdb_text("banana"), tidesdb_text("yellow")));
  OK(tidesdb_txn_commit(second));
  holds(family, "banana", "yellow");

  /* Misuse. */
  snprintf(elsewhere, sizeof elsewhere, "%s-elsewhere", path);
  tidesdb_options_init(&options);
  OK(tidesdb_open(elsewhere, &options, &other));
  OK(tidesdb_family_open_or_create(other, tidesdb_text("fruit"), NULL, &stranger));
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_DEFAULT));
  IS(TIDESDB_INVALID, tidesdb_txn_put(txn, stranger, tidesdb_text("k"), tidesdb_text("v")));
  IS(TIDESDB_INVALID, tidesdb_txn_get(txn, stranger, tidesdb_text("k"), &value));
  CHECK(value.data == NULL);
  IS(TIDESDB_INVALID, tidesdb_txn_delete(txn, NULL, tidesdb_text("k")));
  IS(TIDESDB_INVALID, tidesdb_txn_get_for_update(NULL, family, tidesdb_text("k"), &value));
  IS(TIDESDB_INVALID, tidesdb_txn_get(txn, family, tidesdb_text("k"), NULL));
  OK(tidesdb_txn_rollback(txn));
  tidesdb_family_close(stranger);
  OK(tidesdb_close(other));

  tidesdb_txn_free(txn);
  tidesdb_txn_free(second);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

/* The keys from where the iterator stands on, in one direction; a letter each. */
static void walks(tidesdb_iter *iter, int direction, const char *expected) {
  char seen[64];
  size_t count = 0;
  int status = TIDESDB_OK;
  while (tidesdb_iter_valid(iter)) {
    tidesdb_slice key = tidesdb_iter_key(iter);
    CHECK(status == TIDESDB_OK && key.size == 1 && count < sizeof seen - 1);
    seen[count++] = (char)key.data[0];
    status = direction == TIDESDB_FORWARD ? tidesdb_iter_next(iter) : tidesdb_iter_prev(iter);
  }
  seen[count] = 0;
  CHECK(count == 0 || status == TIDESDB_NOT_FOUND);
  if (strcmp(seen, expected) != 0) {
    fprintf(stderr, "%s, not %s\n", seen, expected);
    exit(1);
  }
}

static void iterators(void) {
  const char *letters = "abcdefghijklmnopqrstuvwxyz";
  tidesdb_db *db = open_at(path);
  tidesdb_family *family;
  tidesdb_iter *iter, *none;
  tidesdb_txn *txn = make_txn(db);
  size_t i;

  OK(tidesdb_family_open_or_create(db, tidesdb_text("letters"), NULL, &family));
  OK(tidesdb_iter_new(family, NULL, tidesdb_text(NULL), tidesdb_text(NULL), &iter));
  CHECK(!tidesdb_iter_valid(iter) && tidesdb_iter_key(iter).data == NULL);
  IS(TIDESDB_NOT_FOUND, tidesdb_iter_first(iter));
  tidesdb_iter_free(iter);
  for (i = 0; i < 26; i++) {
    tidesdb_slice letter;
    letter.data = (const uint8_t *)letters + i;
    letter.size = 1;
    OK(tidesdb_put(family, letter, letter));
  }

  OK(tidesdb_iter_new(family, NULL, tidesdb_text("d"), tidesdb_text("w"), &iter));
  /* Made before these: it does not see them. */
  OK(tidesdb_delete(family, tidesdb_text("f")));
  stores(family, "dd", "");
  walks(iter, TIDESDB_FORWARD, "defghijklmnopqrstuv");
  IS(TIDESDB_NOT_FOUND, tidesdb_iter_next(iter));
  OK(tidesdb_iter_last(iter));
  CHECK(is(tidesdb_iter_key(iter), "v") && is(tidesdb_iter_value(iter), "v"));
  walks(iter, TIDESDB_BACKWARD, "vutsrqponmlkjihgfed");
  OK(tidesdb_iter_seek(iter, tidesdb_text("mm")));
  OK(tidesdb_iter_prev(iter));
  OK(tidesdb_iter_prev(iter));
  OK(tidesdb_iter_next(iter));
  CHECK(is(tidesdb_iter_key(iter), "m"));
  OK(tidesdb_iter_seek(iter, tidesdb_text("a")));
  CHECK(is(tidesdb_iter_key(iter), "d"));
  IS(TIDESDB_NOT_FOUND, tidesdb_iter_prev(iter));
  CHECK(!tidesdb_iter_valid(iter));
  IS(TIDESDB_NOT_FOUND, tidesdb_iter_seek(iter, tidesdb_text("w")));
  OK(tidesdb_iter_first(iter));
  walks(iter, TIDESDB_FORWARD, "defghijklmnopqrstuv");
  /* The store stays open for it. */
  IS(TIDESDB_BUSY, tidesdb_close(db));
  tidesdb_iter_free(iter);
  OK(tidesdb_delete(family, tidesdb_text("dd")));

  /* In a transaction it sees the transaction's changes, also those made while it runs. */
  OK(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_DEFAULT));
  OK(put(txn, family, "f", "mine"));
  OK(tidesdb_iter_new(family, txn, tidesdb_text("e"), tidesdb_text("i"), &iter));
  OK(tidesdb_iter_next(iter));
  CHECK(is(tidesdb_iter_value(iter), "mine"));
  OK(put(txn, family, "g", "mine too"));
  OK(tidesdb_iter_next(iter));
  CHECK(is(tidesdb_iter_value(iter), "mine too"));
  OK(tidesdb_iter_last(iter));
  walks(iter, TIDESDB_BACKWARD, "hgfe");
  OK(tidesdb_iter_first(iter));
  OK(tidesdb_txn_rollback(txn));
  IS(TIDESDB_INVALID, tidesdb_iter_next(iter));
  CHECK(!tidesdb_iter_valid(iter));
  IS(TIDESDB_INVALID, tidesdb_iter_first(iter));
  tidesdb_iter_free(iter);
  holds(family, "f", NULL);

  /* An end before the begin, an empty range, one without keys. */
  OK(tidesdb_iter_new(family, NULL, tidesdb_text("w"), tidesdb_text("d"), &iter));
  CHECK(!tidesdb_iter_valid(iter));
  IS(TIDESDB_NOT_FOUND, tidesdb_iter_last(iter));
  tidesdb_iter_free(iter);
  OK(tidesdb_iter_new(family, NULL, tidesdb_text(NULL), tidesdb_text(""), &iter));
  IS(TIDESDB_NOT_FOUND, tidesdb_iter_first(iter));
  tidesdb_iter_free(iter);

  IS(TIDESDB_INVALID, tidesdb_iter_new(NULL, NULL, tidesdb_text(NULL), tidesdb_text(NULL), &none));
  CHECK(none == NULL);
  IS(TIDESDB_INVALID, tidesdb_iter_new(family, NULL, tidesdb_text(NULL), tidesdb_text(NULL), NULL));
  IS(TIDESDB_INVALID, tidesdb_iter_new(family, txn, tidesdb_text(NULL), tidesdb_text(NULL), &none));
  CHECK(none == NULL);
  IS(TIDESDB_INVALID, tidesdb_iter_first(NULL));
  IS(TIDESDB_INVALID, tidesdb_iter_last(NULL));
  IS(TIDESDB_INVALID, tidesdb_iter_seek(NULL, tidesdb_text("k")));
  IS(TIDESDB_INVALID, tidesdb_iter_next(NULL));
  IS(TIDESDB_INVALID, tidesdb_iter_prev(NULL));
  CHECK(!tidesdb_iter_valid(NULL) && tidesdb_iter_key(NULL).data == NULL && tidesdb_iter_value(NULL).size == 0);
  tidesdb_iter_free(NULL);

  tidesdb_txn_free(txn);
  tidesdb_family_close(family);
  OK(tidesdb_close(db));
}

int main(int argc, char **argv) {
  static const group groups[] = {
      {"errors", errors},         {"cursors", cursors},     {"seeks", seeks},       {"own_writes", own_writes},
      {"waits", lock_waits},      {"ranges", ranges},       {"statements", statements}, {"two_phase", two_phase},
      {"checkpoints", checkpoints}, {"counters", counters}, {"ddl", ddl_groups},    {"insight", insight},
      {"misuse", misuse},         {"observer", observer},   {"outlived", outlived},
      {"closed", closed},         {"marks", marks},         {"positions", positions},         {"connections", connections},
      {"backups", backups},         {"figures", figures},    {"expiries", expiries},
      {"singles", singles},       {"txn_keys", txn_keys},   {"iterators", iterators},
      {"ingests", ingests},
  };
  size_t i;
  CHECK(argc == 3);
  snprintf(path, sizeof path, "%s/store", argv[1]);
  for (i = 0; i < sizeof groups / sizeof *groups; i++)
    if (strcmp(groups[i].name, argv[2]) == 0) {
      groups[i].run();
      return 0;
    }
  fprintf(stderr, "no group %s\n", argv[2]);
  return 2;
}
