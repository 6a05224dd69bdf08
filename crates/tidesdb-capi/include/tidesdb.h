/*
 * TidesDB: C interface of the storage engine.
 *
 *   tidesdb_options options;
 *   tidesdb_db *db;
 *   tidesdb_family *fruit;
 *   tidesdb_options_init(&options);
 *   if (tidesdb_open("/tmp/store", &options, &db) != TIDESDB_OK) return fail(tidesdb_last_error());
 *   tidesdb_family_open_or_create(db, tidesdb_text("fruit"), NULL, &fruit);
 *   tidesdb_put(fruit, tidesdb_text("apple"), tidesdb_text("red"));
 *
 * examples/quickstart.c is a tour. A program needs the sections "store", "column families", "single operations" and
 * "iterators". Changes that belong together take "transactions" and "one key in a transaction". The rest is for servers.
 *
 * Conventions
 * - Every function that can fail returns a status (TIDESDB_OK is 0). tidesdb_last_error() has the
 *   message of the last failure in the calling thread.
 * - Every pointer to bytes comes with its size; bytes passed in are borrowed for the call only.
 * - Bytes handed out (slices, rows) belong to the handle they came from and live until the next call on
 *   that handle, and no longer than the transaction's statement. Values of tidesdb_get(), tidesdb_txn_get() and
 *   tidesdb_txn_get_for_update() are the caller's.
 * - A handle that is null, of another store, or in the wrong state is TIDESDB_INVALID and changes nothing
 *   (functions without a status do nothing); functions that free take null. Out-pointers to handles are
 *   NULL after a failure. A handle that was freed cannot be recognised.
 * - A slice whose data is null is empty, whatever its size.
 * - A store (tidesdb_db) and a family may be used by any number of threads. A transaction and a cursor
 *   are used by one thread at a time, except for tidesdb_txn_kill() and, while its owner is blocked in
 *   the server's commit, tidesdb_txn_order(). So are an iterator and, but for tidesdb_ingest_kill(), a load.
 * - The engine takes its own memory from mimalloc, linked into the library and hidden in it. malloc() stays as the
 *   program has it. Bytes for the caller to free come from malloc().
 * - No panic crosses this border: a failure on private data is TIDESDB_PANIC, one while shared state
 *   changes aborts the process.
 */
#ifndef TIDESDB_H
#define TIDESDB_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tidesdb_status {
  TIDESDB_OK = 0,
  TIDESDB_NOT_FOUND = 1,        /* no such key; end of a scan */
  TIDESDB_SKIPPED = 2,          /* another has the key locked, and TIDESDB_READ_SKIP_LOCKED was asked for */
  TIDESDB_PEEKED = 3,           /* found as it is committed; another has it locked (TIDESDB_READ_PEEK_LOCKED) */
  TIDESDB_UNCHANGED = 4,        /* the value seems to be the one that is there (TIDESDB_OP_UNLESS_AT); nothing is written */
  TIDESDB_DUPLICATE = 10,       /* a live entry of the key exists */
  TIDESDB_CONFLICT = 11,        /* newer than the transaction's snapshot; roll the transaction back */
  TIDESDB_DEADLOCK = 12,        /* chosen as victim; roll the transaction back */
  TIDESDB_LOCK_TIMEOUT = 13,    /* the call changed nothing: repeat it, or roll back */
  TIDESDB_INTERRUPTED = 14,     /* tidesdb_txn_kill() */
  TIDESDB_TOO_LARGE = 15,       /* undecided prepared transactions take as much of the log as they may */
  TIDESDB_SNAPSHOT_TOO_OLD = 16,/* the family is newer than the snapshot */
  TIDESDB_BACKPRESSURE = 17,    /* held back for longer than allowed */
  TIDESDB_TOO_MANY_LOCKS = 18,  /* and they could not become one lock on the family */
  TIDESDB_NO_MEMORY = 19,       /* a row that max_memory leaves no room for */
  TIDESDB_NO_SUCH_FAMILY = 20,
  TIDESDB_FAMILY_EXISTS = 21,
  TIDESDB_INVALID = 22,         /* argument, limit or state */
  TIDESDB_IO = 30,
  TIDESDB_CORRUPTION = 31,      /* also of a file of a later version; the message says so */
  TIDESDB_READ_ONLY = 32,
  TIDESDB_BUSY = 33,            /* the store is in use, or belongs to another owner */
  TIDESDB_DISK_FULL = 34,
  TIDESDB_OUTCOME_UNKNOWN = 35, /* the log failed; known after a restart */
  TIDESDB_PANIC = 99
} tidesdb_status;

/* A short English name of a status. Static storage. */
const char *tidesdb_strerror(int status);
/* Message of the calling thread's last failure; "" if none. Valid until its next failure. */
const char *tidesdb_last_error(void);
/* Version of the library, e.g. "0.1.0". Static storage. */
const char *tidesdb_version(void);

typedef struct tidesdb_db tidesdb_db;
typedef struct tidesdb_family tidesdb_family;
typedef struct tidesdb_txn tidesdb_txn;
typedef struct tidesdb_ddl tidesdb_ddl;
typedef struct tidesdb_ingest tidesdb_ingest;

typedef struct tidesdb_slice {
  const uint8_t *data;
  size_t size;
} tidesdb_slice;

/* The slice of a string, without its last zero; NULL: no bytes, which ends of ranges take as "no end". */
static inline tidesdb_slice tidesdb_text(const char *string) {
  tidesdb_slice slice;
  slice.data = (const uint8_t *)string;
  slice.size = string ? strlen(string) : 0;
  return slice;
}

/* ---- bounds and numbers with a meaning ------------------------------------------------------- */

enum {
  TIDESDB_MAX_KEY_SIZE = 65536,       /* bytes of a key */
  TIDESDB_MAX_FAMILY_NAME = 1024,     /* bytes of a family's name */
  TIDESDB_MAX_XID_SIZE = 140,         /* bytes of the name of a prepared transaction */
  TIDESDB_MARK_SIZE = 64,             /* bytes of the text of tidesdb_mark() */
  TIDESDB_COUNTERS = 16,              /* counters of a family, numbered from 0 */
  TIDESDB_RATE_SCALE = 10000,         /* rates are given per so many */
  TIDESDB_KEY_PART_SIZE = 64,         /* bytes of a key in a list */
  TIDESDB_COMPACTIONS_KEPT = 256,     /* finished compactions in a list */
  TIDESDB_NO_EXPIRY = 0,              /* second of expiry of a key that stays */
  TIDESDB_NO_SESSION = 0,             /* number of a session: there is none */
  TIDESDB_FORWARD = 1,                /* direction of a cursor: to larger keys */
  TIDESDB_BACKWARD = -1
};
#define TIDESDB_NO_TIMEOUT UINT64_MAX /* milliseconds: wait for ever */
#define TIDESDB_NO_WAIT ((uint64_t)0) /* milliseconds: do not wait */
#define TIDESDB_UNKNOWN UINT64_MAX    /* a number that is not known */
#define TIDESDB_UNKNOWN32 UINT32_MAX
#define TIDESDB_UNKNOWN8 UINT8_MAX

/* ---- store ---------------------------------------------------------------------------------- */

enum { TIDESDB_DIRECT_AUTO = 0, TIDESDB_DIRECT_ON = 1, TIDESDB_DIRECT_OFF = 2 };
enum { TIDESDB_SYNC_NONE = 0, TIDESDB_SYNC_INTERVAL = 1, TIDESDB_SYNC_FULL = 2, TIDESDB_SYNC_DEFAULT = 255 };
enum {
  TIDESDB_COMPRESSION_NONE = 0,
  TIDESDB_COMPRESSION_SNAPPY = 1,
  TIDESDB_COMPRESSION_LZ4 = 2,
  TIDESDB_COMPRESSION_ZSTD = 3,
  TIDESDB_COMPRESSION_LZ4_FAST = 4
};
/* Layout of data blocks. */
enum {
  TIDESDB_CODEC_PLAIN = 0,
  TIDESDB_CODEC_POSTINGS = 1 /* keys that end in ascending numbers, values of a byte and varints (LEB128) */
};
enum { TIDESDB_LOG_DEBUG, TIDESDB_LOG_INFO, TIDESDB_LOG_WARN, TIDESDB_LOG_ERROR, TIDESDB_LOG_FATAL, TIDESDB_LOG_NONE };

/* A line of the engine's log; called from any thread; must not call back into the store. */
typedef void (*tidesdb_log_fn)(void *context, int level, const char *message);
/* A family as a line of the log names it: writes at most `room` bytes and returns their number. From any thread; must not
 * call back into the store. */
typedef size_t (*tidesdb_label_fn)(void *context, uint32_t family, tidesdb_slice name, char *to, size_t room);

/* The first TIDESDB_KEY_PART_SIZE bytes of a key and its whole size; TIDESDB_UNKNOWN: there is none. */
typedef struct tidesdb_key_part {
  tidesdb_slice bytes;
  uint64_t size;
} tidesdb_key_part;

enum { TIDESDB_LOCKED_TABLE = 0, TIDESDB_LOCKED_KEY = 1, TIDESDB_LOCKED_RANGE = 2 };

/* One transaction's grant or wait. */
typedef struct tidesdb_lock_info {
  tidesdb_slice name;         /* of the family; empty in a report of a deadlock */
  tidesdb_slice mode;         /* IS, IX, S, SIX, X, GAP */
  tidesdb_key_part key;       /* of a range its first; none for a table */
  tidesdb_key_part range_end; /* first key after a range; none: no end */
  uint64_t txn, session;
  uint64_t blocking_txn, blocking_session; /* of a wait: who stands in its way */
  uint32_t family;
  uint8_t kind; /* TIDESDB_LOCKED_* */
  uint8_t waiting;
  uint8_t intent; /* of an optimistic transaction */
} tidesdb_lock_info;

enum { TIDESDB_VICTIM_PREFERRED = 0, TIDESDB_VICTIM_WROTE_LEAST = 1, TIDESDB_VICTIM_YOUNGEST = 2 };

/* One of the waits of a deadlock. */
typedef struct tidesdb_deadlock_wait {
  void *cookie;                 /* of the transaction that waits */
  uint64_t written;             /* keys that it has written */
  uint64_t waited_us;
  tidesdb_lock_info wants;
  tidesdb_lock_info in_the_way; /* grant, range or earlier wait of the next one's transaction */
} tidesdb_deadlock_wait;

/* Each waits for the next, and the last for the first. */
typedef struct tidesdb_deadlock {
  const tidesdb_deadlock_wait *waits;
  size_t wait_count;
  size_t victim;  /* place of the one that is rolled back */
  uint8_t reason; /* TIDESDB_VICTIM_* */
} tidesdb_deadlock;

/* Lock waits, for servers that count or order them. Called without latches held; `waiter` and `holders`
 * are the cookies of the transactions (tidesdb_txn_set_cookie). Must not call back into the store. */
typedef struct tidesdb_wait_observer {
  void *context;
  void (*wait_begins)(void *context, void *waiter, void *const *holders, size_t holder_count);
  void (*wait_ends)(void *context, void *waiter);
  /* Whether an insertion of one of two transactions with TIDESDB_TXN_ORDERED_WAITS and a range that the other
   * has read under locks conflict; 0 when the order of their commits is fixed already. Called under latches:
   * must not block. NULL: they do. */
  int (*gaps_conflict)(void *context, void *a, void *b);
  /* A deadlock, before its victim and the others go on: their statements are still those that wait. From the
   * thread whose wait closed the circle. NULL: nobody is told. */
  void (*deadlock)(void *context, const tidesdb_deadlock *deadlock);
  /* Transactions that came into the way of `waiter`, one with TIDESDB_TXN_PRIORITY, since the last report of its wait.
   * Only new ones; from the thread that waits, between wait_begins and wait_ends. The lock timeout goes on meanwhile.
   * NULL: nobody is told. */
  void (*wait_goes_on)(void *context, void *waiter, void *const *holders, size_t holder_count);
} tidesdb_wait_observer;

typedef struct tidesdb_options {
  size_t struct_size;               /* set by tidesdb_options_init */
  const char *owner;                /* who the store belongs to; NULL: nobody in particular. First line: the
                                       identity, which is compared; second line: its place, for messages */
  const char *remembered;           /* what the owner remembers of its store; NULL: nothing, the owner takes on whatever
                                       store it meets. First line: tidesdb_mark() of an earlier opening; second line:
                                       the file that has it, for messages. An older copy of the store, or another one,
                                       is TIDESDB_BUSY; a damaged mark counts as none */
  uint64_t write_buffer_size;       /* bytes; the bound on one transaction is half of it */
  uint64_t block_cache_size;        /* bytes */
  uint64_t max_memory;              /* bytes; 0: sum of the parts */
  uint64_t sync_interval_us;
  uint32_t max_open_files;
  uint32_t compaction_threads;      /* at most half of the cores; a line of the log says so */
  uint8_t sync_mode;                /* TIDESDB_SYNC_* */
  uint8_t direct_reads;             /* TIDESDB_DIRECT_*: tables are read past the page cache. AUTO: if the cache has
                                       three eighths of the memory or more */
  uint8_t create_if_missing;
  uint8_t read_only;                /* open an existing store without writing a byte to it; every write fails */
  uint8_t finish_compactions_on_close;
  uint8_t flush_on_close;           /* memtables go to files at tidesdb_close(); else the log keeps them */
  uint8_t cache_grows;              /* the cache may grow beyond its size to what max_memory and the limit of the process's
                                       control groups leave, and shrinks when others need it. Without max_memory it
                                       keeps its size */
  uint8_t new_format;               /* version of the formats of a store that this opening makes: 1 or 2 */
  uint8_t least_format;             /* a store of a lower version moves to this one, 1 or 2. None goes back: older builds
                                       refuse it from then on. On a full disk it stays: see tidesdb_format() */
  int log_level;                    /* TIDESDB_LOG_* */
  tidesdb_log_fn log;               /* may be NULL */
  void *log_context;
  const char *write_buffer_variable;/* its name in messages; NULL: "write_buffer_size" */
  const tidesdb_wait_observer *observer; /* copied; may be NULL */
  tidesdb_label_fn family_label;    /* given log_context; NULL: the name's bytes, escaped */
} tidesdb_options;

void tidesdb_options_init(tidesdb_options *options);

/* Sizes of a store, in bytes, that fit into the memory of the machine or container. */
typedef struct tidesdb_memory_plan {
  uint64_t max_memory;              /* in and out, as the next two; ignored where nobody set it */
  uint64_t block_cache_size;        /* as set, or the default */
  uint64_t write_buffer_size;
  uint64_t available;               /* out: the least of the machine's memory and the limits of the process's
                                       control groups; 0: unknown */
  uint8_t max_memory_is_set;        /* in, as the next two */
  uint8_t block_cache_is_set;
  uint8_t write_buffer_is_set;
  uint8_t cache_grows;              /* out: nobody set the cache, and max_memory is set or a control group has a limit */
} tidesdb_memory_plan;

/* Decides the sizes. Where the cache grows, a budget that nobody set is all that a control group's limit leaves with room
 * for the program around. Else it is half of what is available, or what the set sizes need with a quarter
 * for the rest, as far as that leaves room for the program around. Sizes that nobody set shrink to fit; set ones are
 * kept while there is room, and reduced beyond. TIDESDB_INVALID for a set budget below what is set in it. */
int tidesdb_plan_memory(tidesdb_memory_plan *plan);

/* Opens or makes the store in `path`. An existing one is recovered first. *db is the caller's. */
int tidesdb_open(const char *path, const tidesdb_options *options, tidesdb_db **db);
/* Adds to the memory that the program holds for sorts of what it will write into the store, or takes away (below 0). It
 * is a part of memory_total (tidesdb_get_stats), so that it counts in max_memory. From any thread; NULL: does nothing. */
void tidesdb_count_sort_memory(tidesdb_db *db, int64_t bytes);
/* Options of an open store that can change; see tidesdb_options for what each does. */
typedef struct tidesdb_live_options {
  uint64_t write_buffer_size;       /* counts for the memtable that takes writes now */
  uint64_t block_cache_size;        /* a smaller cache evicts before the call returns */
  uint64_t max_memory;
  uint64_t sync_interval_us;
  uint32_t max_open_files;
  uint32_t compaction_threads;      /* one that is too many ends its merge first */
  int log_level;
  uint8_t sync_mode;
  uint8_t finish_compactions_on_close;
  uint8_t flush_on_close;
  uint8_t cache_grows;
} tidesdb_live_options;

/* The values in force. */
int tidesdb_get_live_options(tidesdb_db *db, tidesdb_live_options *options);
/* Changes them, or nothing on an error: TIDESDB_INVALID names the option and its bound. A commit that is not answered yet
 * is as durable as the stricter of both sync modes demands. When a change to TIDESDB_SYNC_FULL returns, all commits
 * answered before are durable. One change at a time reads and sets the options: the caller sees to that. */
int tidesdb_set_live_options(tidesdb_db *db, const tidesdb_live_options *options);

/* Stops background work, syncs and closes. Handles that are left keep the directory locked; they can be rolled back and
 * freed, and answer TIDESDB_INVALID to all else at once. TIDESDB_BUSY while an iterator with a snapshot of its own is
 * open: nothing is closed then and the handle stays. Otherwise the handle is freed, whatever is returned. */
int tidesdb_close(tidesdb_db *db);
/* Which store this is and how often it was opened, as text of at most TIDESDB_MARK_SIZE bytes with its last zero; for
 * `remembered` of later openings. TIDESDB_NOT_FOUND for a store without an owner. */
int tidesdb_mark(tidesdb_db *db, char *mark);
/* The version of the formats of the store's new files: 1 or 2; 0 for NULL. */
uint32_t tidesdb_format(const tidesdb_db *db);
/* Bytes that can still be written where the store lies, as of at most a second ago; TIDESDB_UNKNOWN when that
 * cannot be told. Cheap. */
uint64_t tidesdb_free_space(const tidesdb_db *db);
/* TIDESDB_OK when the store has, or may have had, keys that expire; else TIDESDB_NOT_FOUND. */
int tidesdb_has_expiring_keys(tidesdb_db *db);
/* Seconds by which the system's clock is behind the clock by which keys expire (tidesdb_op). A lifetime counts from
   the system's clock plus these. */
int tidesdb_expiry_clock_lag(tidesdb_db *db, uint64_t *seconds);

/* ---- column families and the dictionary ------------------------------------------------------ */

typedef struct tidesdb_family_options {
  size_t struct_size;
  uint8_t compression;              /* TIDESDB_COMPRESSION_*; those not built in are refused by name */
  uint8_t sync_mode;                /* TIDESDB_SYNC_*, _DEFAULT: the store's */
  uint8_t bloom_filter;
  uint8_t use_btree;
  uint32_t bloom_fpr;               /* of TIDESDB_RATE_SCALE */
  uint32_t block_size;              /* bytes */
  uint32_t prefix_len;              /* bytes of key prefix in the filter; 0: none */
  uint32_t l0_compaction_trigger;   /* runs */
  uint32_t l0_stall_threshold;      /* runs */
  uint32_t level_size_ratio;
  uint32_t min_levels;
  uint32_t tombstone_density_trigger; /* of TIDESDB_RATE_SCALE; 0: off */
  uint32_t value_threshold;         /* values of so many bytes or more are written once, to files of their own; 0: none
                                       are. A store of format version 1 moves to version 2 for it when it is opened next */
  uint32_t block_codec;             /* TIDESDB_CODEC_*; a store of format version 1 has the plain one */
  uint64_t tombstone_density_min_entries;
  uint64_t sync_interval_us;        /* of TIDESDB_SYNC_INTERVAL; 0: the store's. The shortest of all families
                                       counts for all */
} tidesdb_family_options;

void tidesdb_family_options_init(tidesdb_family_options *options);

/* A group of dictionary changes, atomic and durable at tidesdb_ddl_commit(): one synced log record.
 * Family names are bytes of up to TIDESDB_MAX_FAMILY_NAME; records are opaque bytes of the caller. A failing step
 * leaves the group as it was. Commit or abort frees the handle, whatever is returned. */
int tidesdb_ddl_begin(tidesdb_db *db, tidesdb_ddl **ddl);
int tidesdb_ddl_create(tidesdb_ddl *ddl, tidesdb_slice name, const tidesdb_family_options *options, tidesdb_slice record);
int tidesdb_ddl_drop(tidesdb_ddl *ddl, tidesdb_slice name);
int tidesdb_ddl_rename(tidesdb_ddl *ddl, tidesdb_slice from, tidesdb_slice to); /* counters go along */
/* An empty family takes the place of the old one, under the same name; counters restart. */
int tidesdb_ddl_truncate(tidesdb_ddl *ddl, tidesdb_slice name);
int tidesdb_ddl_set_record(tidesdb_ddl *ddl, tidesdb_slice name, tidesdb_slice record);
int tidesdb_ddl_set_options(tidesdb_ddl *ddl, tidesdb_slice name, const tidesdb_family_options *options);
/* Keeps snapshots that are older than the group out of the family (TIDESDB_SNAPSHOT_TOO_OLD), as if it had been made
 * by the group. */
int tidesdb_ddl_bump(tidesdb_ddl *ddl, tidesdb_slice name);
/* Sets a counter (also downwards). */
int tidesdb_ddl_set_counter(tidesdb_ddl *ddl, tidesdb_slice name, uint32_t counter, uint64_t next);
int tidesdb_ddl_commit(tidesdb_ddl *ddl);
void tidesdb_ddl_abort(tidesdb_ddl *ddl);

/* A counted handle; close it with tidesdb_family_close. It stays usable after a rename; after a drop or
 * truncate every read and write through it returns TIDESDB_NO_SUCH_FAMILY. */
int tidesdb_family_open(tidesdb_db *db, tidesdb_slice name, tidesdb_family **family);
void tidesdb_family_close(tidesdb_family *family);
uint32_t tidesdb_family_id(const tidesdb_family *family);
/* Locks on keys of `index` come under the lock on `table`. To be called before the first of them;
 * TIDESDB_INVALID when `index` is in use: its locks then stay under one of its own. */
int tidesdb_family_attach(tidesdb_family *index, tidesdb_family *table);
/* Copies the record into `buffer` (up to `size` bytes); *needed is its whole size. */
int tidesdb_family_record(const tidesdb_family *family, uint8_t *buffer, size_t size, size_t *needed);
/* Calls `visit` for each family whose name starts with `prefix`, in order of names, until it returns
 * non-zero. Must not call back into the dictionary. */
int tidesdb_family_list(tidesdb_db *db, tidesdb_slice prefix, int (*visit)(void *context, tidesdb_slice name), void *context);

/* Opens the family, and makes it with `options` (NULL: the defaults) if it does not exist. One that exists keeps
 * its options. */
int tidesdb_family_open_or_create(tidesdb_db *db, tidesdb_slice name, const tidesdb_family_options *options,
                                  tidesdb_family **family);

/* Counters: values that are never handed out twice, across crashes too (gaps are allowed). A family has
 * counters 0 to TIDESDB_COUNTERS - 1. Takes `count` values v, v + increment, ... with v >= next and v = offset modulo
 * increment (increment 1: any). TIDESDB_INVALID when the range would pass `limit`. */
int tidesdb_counter_take(tidesdb_family *family, uint32_t counter, uint64_t count, uint64_t offset,
                         uint64_t increment, uint64_t limit, uint64_t *first);
/* Next value is above `value` from now on, whatever becomes of `txn` (gaps are allowed). Durable before
 * the answer when it passes what was reserved; otherwise nothing is written. */
int tidesdb_counter_raise(tidesdb_txn *txn, tidesdb_family *family, uint32_t counter, uint64_t value);
/* The next value that would be handed out (at least 1). */
uint64_t tidesdb_counter_peek(const tidesdb_family *family, uint32_t counter);

/* ---- single operations ----------------------------------------------------------------------- */

/* Each is a transaction of its own: a write is committed when it returns, and as durable as the sync mode says.
 * Any number of threads may use one family. A write waits, at most 50 seconds, for a transaction that has the key
 * locked (TIDESDB_LOCK_TIMEOUT). In the count of a family's rows (tidesdb_family_stats) a put counts as a new row and a
 * deletion as one less; tidesdb_count_rows() puts that right. */

/* Sets a key's value, whether the key exists or not. TIDESDB_INVALID for a key or value that is too large. */
int tidesdb_put(tidesdb_family *family, tidesdb_slice key, tidesdb_slice value);
/* The newest committed value; waits for no lock. *value is the caller's: free it with tidesdb_slice_free(), from any
 * thread, also after tidesdb_close(). An empty value has a pointer that is not null. TIDESDB_NOT_FOUND, and every
 * error: *value is null and there is nothing to free. */
int tidesdb_get(tidesdb_family *family, tidesdb_slice key, tidesdb_slice *value);
/* Deletes a key. TIDESDB_OK also when it does not exist. */
int tidesdb_delete(tidesdb_family *family, tidesdb_slice key);
/* Frees what tidesdb_get() gave, and makes the slice null. Takes null slices. */
void tidesdb_slice_free(tidesdb_slice *slice);

/* ---- iterators ------------------------------------------------------------------------------- */

/* A position in a range of a family's keys. It stands on a row, or on none: then it is not valid. It keeps the store
 * open, not the family's handle. */
typedef struct tidesdb_iter tidesdb_iter;

/* An iterator over the keys at or after `lower` and before `upper` (null: the range has no end there). It stands on
 * the first row, if there is one; TIDESDB_OK also when there is none.
 * With a null `txn` it reads at a snapshot of its own, taken now; what that snapshot needs stays in the store until
 * the iterator is freed. With a transaction it reads at the transaction's snapshot and sees its changes, also those made
 * while it runs. At SERIALIZABLE it locks the rows that it passes, and the gaps between them. Free it before the
 * transaction is freed. Once the transaction has ended,
 * the next step is TIDESDB_INVALID; position it anew. */
int tidesdb_iter_new(tidesdb_family *family, tidesdb_txn *txn, tidesdb_slice lower, tidesdb_slice upper,
                     tidesdb_iter **iter);
/* Takes null. The transaction that it read in must not be freed yet. */
void tidesdb_iter_free(tidesdb_iter *iter);
/* Not 0 when it stands on a row. */
int tidesdb_iter_valid(const tidesdb_iter *iter);
/* To the first row of the range, to the last, to the first at or after `key`. TIDESDB_OK: it stands there;
 * TIDESDB_NOT_FOUND: there is none; or an error. After the last two it stands on no row. */
int tidesdb_iter_first(tidesdb_iter *iter);
int tidesdb_iter_last(tidesdb_iter *iter);
int tidesdb_iter_seek(tidesdb_iter *iter, tidesdb_slice key);
/* To the next row and to the one before, with the same answers. From no row: TIDESDB_NOT_FOUND. */
int tidesdb_iter_next(tidesdb_iter *iter);
int tidesdb_iter_prev(tidesdb_iter *iter);
/* Of the row that it stands on; null when it stands on none. They live until the iterator moves or is freed. */
tidesdb_slice tidesdb_iter_key(const tidesdb_iter *iter);
tidesdb_slice tidesdb_iter_value(const tidesdb_iter *iter);

/* ---- transactions ---------------------------------------------------------------------------- */

enum {
  TIDESDB_READ_UNCOMMITTED = 0,
  TIDESDB_READ_COMMITTED = 1,
  TIDESDB_REPEATABLE_READ = 2,
  TIDESDB_SNAPSHOT = 3,
  TIDESDB_SERIALIZABLE = 4
};

enum {
  TIDESDB_TXN_DEFAULT = 0,
  TIDESDB_TXN_OPTIMISTIC = 1,     /* intents, which yield to locks, and no waits: a conflict is an error */
  /* no locks and no checks: bulk load into a family nobody sees. Until it has committed nobody else may write there,
     or deleted rows can come back. tidesdb_flush_log() makes its commits durable */
  TIDESDB_TXN_UNLOCKED = 2,
  TIDESDB_TXN_AUTOCOMMIT = 4,     /* one statement and its commit: both may wait for locks */
  TIDESDB_TXN_ORDERED_WAITS = 8,  /* a replica's applier: conflicts wait and are reported */
  /* reads see what has expired and is there still; checks for duplicates do not */
  TIDESDB_TXN_SEES_EXPIRED = 16,
  TIDESDB_TXN_OLDEST_VIEW = 32,   /* sees as expired only what has expired for every view: for building an index */
  /* An applier of a cluster. Its lock requests precede those that wait without this flag. It is no victim of a deadlock
     with a transaction without the flag. No bound on locks applies to it, and it puts no intents. It still waits for
     the locks of others: the observer's wait_begins and wait_goes_on name them, and the caller has these transactions
     rolled back (tidesdb_txn_kill() ends their waits only). Its lock timeout applies. */
  TIDESDB_TXN_PRIORITY = 64
};

/* A transaction object lives as long as a connection and is begun and ended many times. */
int tidesdb_txn_create(tidesdb_db *db, tidesdb_txn **txn);
/* Rolls back what is open and frees. One that was prepared with an xid stays with the store, locks
 * included, for tidesdb_commit_by_xid() or tidesdb_rollback_by_xid(). Reset cursors that read in it first. */
void tidesdb_txn_free(tidesdb_txn *txn);
void tidesdb_txn_set_cookie(tidesdb_txn *txn, void *cookie);
/* The caller's number of the session, for tidesdb_transactions() and tidesdb_locks(), or TIDESDB_NO_SESSION. */
void tidesdb_txn_set_session(tidesdb_txn *txn, uint64_t session);
/* Milliseconds, or TIDESDB_NO_TIMEOUT, or TIDESDB_NO_WAIT. */
void tidesdb_txn_set_lock_timeout(tidesdb_txn *txn, uint64_t milliseconds);
/* Victim preference of the server: higher is rolled back later. Cleared by tidesdb_txn_begin(). */
void tidesdb_txn_set_preference(tidesdb_txn *txn, int preference);

/* Begins; no snapshot is taken yet (TIDESDB_SNAPSHOT takes it at the first statement). */
int tidesdb_txn_begin(tidesdb_txn *txn, int isolation, unsigned flags);
int tidesdb_txn_is_active(const tidesdb_txn *txn);
/* Whether anything was written since begin. */
int tidesdb_txn_has_writes(const tidesdb_txn *txn);
/* Takes the transaction's snapshot now, at what others can see. No I/O. */
int tidesdb_txn_take_snapshot(tidesdb_txn *txn);
/* The same after everything that is ordered (START TRANSACTION WITH CONSISTENT SNAPSHOT, under the server's
 * order lock). Waits for nothing: the first read helps the commits in, and can be killed. */
int tidesdb_txn_take_ordered_snapshot(tidesdb_txn *txn);
/* 0: from now on locking reads and writes take the newest version of a key also where the transaction's snapshot does
 * not show it, at TIDESDB_REPEATABLE_READ and unless it is optimistic. 1, as after tidesdb_txn_begin(): such a version is
 * TIDESDB_CONFLICT. */
void tidesdb_txn_set_snapshot_isolation(tidesdb_txn *txn, int on);
/* Whether it has locked or changed such a version since it began. Its own rows may then stand over others than the
 * snapshot has: write the entries of its rows that do not change too (TIDESDB_KEEP_ENTRY), and compare entries read at
 * the snapshot with their rows. */
int tidesdb_txn_passed_snapshot(const tidesdb_txn *txn);
/* Whether it holds any lock, intentions on tables included. */
int tidesdb_txn_holds_locks(const tidesdb_txn *txn);

/* A statement: where tidesdb_txn_statement_rollback() cuts back to, and, at READ COMMITTED, how long a
 * snapshot lives. Delays the caller when the store is behind (back-pressure) and the transaction holds
 * no lock: TIDESDB_BACKPRESSURE after `backpressure_ms`, TIDESDB_DISK_FULL when flushing fails. */
int tidesdb_txn_statement_begin(tidesdb_txn *txn, int may_write, uint64_t backpressure_ms);
void tidesdb_txn_statement_end(tidesdb_txn *txn);
/* Undoes the statement's writes; its locks stay until the transaction ends. */
int tidesdb_txn_statement_rollback(tidesdb_txn *txn);

/* Savepoints: any number of them, independent of statements; they end with the transaction. Rolling back to
 * one undoes the changes made after it and forgets the savepoints set after it; locks stay. Releasing one
 * forgets that one alone. TIDESDB_INVALID for one that is not there. */
int tidesdb_txn_savepoint_set(tidesdb_txn *txn, uint64_t *savepoint);
int tidesdb_txn_savepoint_rollback(tidesdb_txn *txn, uint64_t savepoint);
void tidesdb_txn_savepoint_release(tidesdb_txn *txn, uint64_t savepoint);

enum {
  TIDESDB_LOCK_INTENT_SHARED = 0,
  TIDESDB_LOCK_INTENT_EXCLUSIVE = 1,
  TIDESDB_LOCK_SHARED = 2,
  TIDESDB_LOCK_EXCLUSIVE = 3
};
/* Locks the table that `family` stands for, until the transaction ends. Row locks need an intent. */
int tidesdb_lock_table(tidesdb_txn *txn, tidesdb_family *family, int mode);
/* Locks a key exclusively, until the transaction ends, whether there is something at it or not. A restart of a
 * prepared transaction locks what was written: this lock does not outlive the process. */
int tidesdb_lock_key(tidesdb_txn *txn, tidesdb_family *family, const uint8_t *key, size_t key_size);
/* An advisory lock: on a key of a family that has no entries and gets none, TIDESDB_LOCK_SHARED or
 * TIDESDB_LOCK_EXCLUSIVE, until the transaction ends. A shared one may be raised. Rollbacks of statements and to
 * savepoints keep it, and so does a restart of a prepared transaction with writes. It is a lock in every transaction:
 * also in TIDESDB_TXN_OPTIMISTIC, where it may wait, and in TIDESDB_TXN_UNLOCKED. The key is copied.
 * TIDESDB_DEADLOCK (roll the transaction back), TIDESDB_LOCK_TIMEOUT, TIDESDB_INTERRUPTED, TIDESDB_TOO_MANY_LOCKS;
 * TIDESDB_INVALID for other modes. */
int tidesdb_lock_advisory(tidesdb_txn *txn, tidesdb_family *family, const uint8_t *key, size_t key_size, int mode);

/* Commit in three calls; tidesdb_txn_commit() is all of them.
 * ready:   for a coordinator that decides before it calls prepare, as a cluster does. The last call that waits for
 *   another transaction: takes the locks that prepare would take. The prepare that follows waits for room in the store as
 *   long as it takes.
 * prepare: the last that may fail, wait or be killed. With `xid` (1 to TIDESDB_MAX_XID_SIZE bytes) the batch is written
 *   and synced as prepared and survives a crash undecided; without, the commit is one-phase.
 * order:   fixes the place in the commit order; cannot fail; nothing to do without writes. May be
 *   called by another thread while the owner waits.
 * finish:  waits until the commit is visible and as durable as its mode asks for, releases the locks.
 *   `defer_sync`: a checkpoint request will be answered for it (binary log): do not sync the marker. */
int tidesdb_txn_ready(tidesdb_txn *txn);
int tidesdb_txn_prepare(tidesdb_txn *txn, const uint8_t *xid, size_t xid_size);
/* As prepare with an xid, for a coordinator that has the changes elsewhere, as a cluster has them on its other nodes: they
 * are written to the log's file and not synced. A power cut may lose them; finish is as durable as its mode says. */
int tidesdb_txn_prepare_written(tidesdb_txn *txn, const uint8_t *xid, size_t xid_size);
/* Prepares for somebody outside who decides perhaps much later (XA PREPARE): synced in every mode, with the
 * table locks; from then on it holds its locks and nothing else. TIDESDB_TOO_LARGE when such transactions
 * would take more than a quarter of the log, TIDESDB_INVALID when one of this xid waits already. resume takes what order needs; it may wait and fail, and then
 * the transaction is still prepared. The end of such a transaction is durable in every mode. */
int tidesdb_txn_prepare_dormant(tidesdb_txn *txn, const uint8_t *xid, size_t xid_size);
int tidesdb_txn_resume(tidesdb_txn *txn);
void tidesdb_txn_order(tidesdb_txn *txn);
/* Between order and finish: waits until the commit's record is in the log's file, in any sync mode. It survives the
 * process then, and perhaps no power cut. After an error finish fails, too. */
int tidesdb_txn_wait_written(tidesdb_txn *txn);
int tidesdb_txn_finish(tidesdb_txn *txn, int defer_sync);
int tidesdb_txn_commit(tidesdb_txn *txn);
/* From any state, prepared included. Releases the locks. */
int tidesdb_txn_rollback(tidesdb_txn *txn);
/* Wakes and interrupts, also what comes later; from any thread; never blocks. Cleared by tidesdb_txn_begin() and
   tidesdb_txn_clear_kill(). */
void tidesdb_txn_kill(tidesdb_txn *txn);
/* Forgets a kill: it was for a statement that has ended. Called before tidesdb_txn_statement_begin(), which may wait. */
void tidesdb_txn_clear_kill(tidesdb_txn *txn);

/* ---- a position in a cluster's order --------------------------------------------------------- */

/* The place of a commit in the order of a Galera cluster. The engine compares no two of them. */
typedef struct tidesdb_position {
  uint8_t uuid[16];                 /* the cluster's history of changes */
  int64_t number;                   /* of the write set in that history; negative: undefined */
  int has_gtid;                     /* 0: the fields below are not set */
  uint32_t gtid_domain;
  uint32_t gtid_server;
  uint64_t gtid_number;
} tidesdb_position;

/* A position needs a store of version 2 of the formats (`least_format`); in another one the setters are
 * TIDESDB_INVALID.
 *
 * Gives the transaction's commit its position, in place of an earlier one; NULL takes it back. Called between
 * tidesdb_txn_begin() and tidesdb_txn_order(), also for a prepared transaction. The commit's record has it, so that both
 * survive a crash or neither does. The end of the transaction forgets it. TIDESDB_INVALID after order, and for a
 * transaction that was prepared without changes. One without changes that gets it before prepare has a commit of its
 * own. */
int tidesdb_txn_set_position(tidesdb_txn *txn, const tidesdb_position *position);
/* The position of the newest commit with one, in the order of the log, whatever its number. The commit is ordered, and
 * perhaps not durable yet. TIDESDB_NOT_FOUND when no commit of the store ever had one. */
int tidesdb_get_position(tidesdb_db *db, tidesdb_position *position);
/* Writes a position without changes, a lower one too. As durable as the store's sync mode says. */
int tidesdb_set_position(tidesdb_db *db, const tidesdb_position *position);

/* ---- prepared transactions, and the log ------------------------------------------------------ */

/* Prepared transactions that nobody has decided: found by recovery, or freed by their owner. `visit` gets each xid. */
int tidesdb_prepared_list(tidesdb_db *db, int (*visit)(void *context, tidesdb_slice xid), void *context);
/* TIDESDB_OK when the one of this xid has changed the family, or locked it or keys of it for a change; else, or
 * when nobody has prepared it or its owner is there, TIDESDB_NOT_FOUND. */
int tidesdb_prepared_changes(tidesdb_family *family, const uint8_t *xid, size_t xid_size);
/* TIDESDB_NOT_FOUND for an unknown xid. Durable before the answer, in every mode. */
int tidesdb_commit_by_xid(tidesdb_db *db, const uint8_t *xid, size_t xid_size);
/* The same; the commit has this position, as by tidesdb_txn_set_position(). */
int tidesdb_commit_by_xid_at(tidesdb_db *db, const uint8_t *xid, size_t xid_size, const tidesdb_position *position);
int tidesdb_rollback_by_xid(tidesdb_db *db, const uint8_t *xid, size_t xid_size);

/* Calls `done(cookie, TIDESDB_OK)` once everything that is ordered now is durable, or with another status when
 * the log fails before: once, from any thread, perhaps before returning. Not called when this fails. */
int tidesdb_checkpoint_request(tidesdb_db *db, void *cookie, void (*done)(void *cookie, int status));
/* Makes everything ordered durable and answers pending requests. */
int tidesdb_flush_log(tidesdb_db *db);
/* For a server that shuts down: commits that wait for room in the log end with TIDESDB_OUTCOME_UNKNOWN, now and from now
 * on, and the store is read-only then. From any thread, without I/O; of a null handle nothing. */
void tidesdb_end_log_waits(tidesdb_db *db);

/* ---- one key in a transaction ---------------------------------------------------------------- */

/* All of them answer TIDESDB_CONFLICT, TIDESDB_DEADLOCK (roll the transaction back), TIDESDB_LOCK_TIMEOUT and
 * TIDESDB_INVALID. After any other failure of a write that write has changed nothing. They begin no statement: call
 * tidesdb_txn_statement_begin() before a group of them for back-pressure and, at READ COMMITTED, a new snapshot. */

/* Sets a key's value, whether the key exists or not. The key stays locked until the transaction ends. */
int tidesdb_txn_put(tidesdb_txn *txn, tidesdb_family *family, tidesdb_slice key, tidesdb_slice value);
/* Deletes a key. TIDESDB_OK also when it does not exist. */
int tidesdb_txn_delete(tidesdb_txn *txn, tidesdb_family *family, tidesdb_slice key);
/* The value as the transaction sees it, its own changes included. At SERIALIZABLE the key is locked against writers,
 * and the newest value is read. *value is the caller's, as that of tidesdb_get(). */
int tidesdb_txn_get(tidesdb_txn *txn, tidesdb_family *family, tidesdb_slice key, tidesdb_slice *value);
/* Locks the key, then reads its newest value: nobody else changes it until the transaction ends. */
int tidesdb_txn_get_for_update(tidesdb_txn *txn, tidesdb_family *family, tidesdb_slice key, tidesdb_slice *value);

/* ---- writes ---------------------------------------------------------------------------------- */

enum {
  TIDESDB_PUT = 1,           /* the key has this value, whether it exists or not */
  TIDESDB_DELETE = 2,
  TIDESDB_SINGLE_DELETE = 3, /* as delete; where the engine can prove that the key has had one put since it last did
                                not exist, a merge drops that put and the deletion together (needs TIDESDB_OP_LOCK) */
  TIDESDB_INSERT = 4,        /* put; TIDESDB_DUPLICATE when a live entry exists (needs TIDESDB_OP_LOCK, unless the family
                                is nobody else's) */
  TIDESDB_PUT_ENTRY = 5,     /* put, for an index entry whose row is locked: with TIDESDB_OP_LOCK it waits for
                                ranges of others like any, and is not checked against the snapshot */
  TIDESDB_KEEP_ENTRY = 6     /* put that takes no lock, at the commit either: of an index entry that is committed like this,
                                whose row is locked (see tidesdb_txn_passed_snapshot), and of keys that no scan locks */
};
enum {
  TIDESDB_OP_LOCK = 1,       /* take an exclusive lock on the key first and check it against the snapshot */
  TIDESDB_OP_NEUTRAL = 2,    /* the number of the family's rows stays: a put of a key that exists, a deletion of one
                                that does not. Without it a put counts as a new row, a deletion as one less. What a
                                key was before is as the transaction sees it. Nobody checks it; not for
                                TIDESDB_INSERT. See tidesdb_count_rows. */
  TIDESDB_OP_PIECES = 4,     /* the value is in pieces: `value.data` points to `value.size` of tidesdb_slice. For one operation
                                of a call. A row of many megabytes is written to a file of the transaction from where it
                                is, without a copy in memory. */
  TIDESDB_OP_KEEP_REST = 8,  /* the value is in two parts (see first_size), and the second stays as the key's version has it:
                                after the first part stands the place that a read of that version gave (`place_size`), nothing
                                else. TIDESDB_CONFLICT when the key has another version by now. For a put. */
  TIDESDB_OP_UNLESS_AT = 16  /* with PIECES: the last piece is none of the value, but the place that a read of the key gave
                                (`place_size`). TIDESDB_UNCHANGED when the second part has the lengths and the checksum of the
                                one there: nearly always the same bytes, which a read tells. For a put. */
};

typedef struct tidesdb_op {
  tidesdb_family *family;
  tidesdb_slice key;   /* up to TIDESDB_MAX_KEY_SIZE */
  tidesdb_slice value;
  uint8_t kind;        /* TIDESDB_PUT ... */
  uint8_t flags;       /* TIDESDB_OP_* */
  /* Of a put: so many first bytes of the value (of its first piece) stay with the key when the rest is long enough for a value
     file. Reads can take them alone, and a put can leave the rest where it is. 0: all bytes go there. For one operation of a
     call, the one in pieces where there is one. */
  uint32_t first_size;
  /* of a put: first second since 1970, of the clock by which keys expire, without the key; or TIDESDB_NO_EXPIRY */
  uint64_t expiry;
} tidesdb_op;

/* Applies a row's changes, in order, all or none: on failure the batch is as before and *failed is the
 * index of the operation that failed. Locks taken stay. Writes are private until the commit. */
int tidesdb_write(tidesdb_txn *txn, const tidesdb_op *ops, size_t count, size_t *failed);

/* ---- loads of empty families ----------------------------------------------------------------- */

/* A load writes finished files of sorted rows, past log and memtable: for many rows the cheapest way in. All rows are
 * visible at once when it finishes, to later snapshots and not to older ones.
 *
 *   tidesdb_ingest_begin(db, 0, &load);
 *   tidesdb_ingest_add(load, ops, count, &failed);     again and again, best in the order of the keys
 *   tidesdb_ingest_finish(load);
 *
 * Families must be empty, deleted rows included: truncate them, or make new ones. Rows out of the order of their keys
 * are sorted on disk, family by family, which writes them twice or more. From its first row on a family is locked as a
 * whole, against its other writers and locking readers. The wait for that lock has no limit but tidesdb_ingest_kill(): a
 * thread whose own transaction has locks in the family waits for itself, so end that one first. */

enum {
  /* no locks: for families that nobody sees. Until the load has finished nobody else may write there, or deleted rows
     can come back */
  TIDESDB_INGEST_UNLOCKED = 1
};

int tidesdb_ingest_begin(tidesdb_db *db, unsigned flags, tidesdb_ingest **ingest);
/* Adds rows, of any families: TIDESDB_PUT, each of a new key; TIDESDB_OP_PIECES as in tidesdb_write(). On failure the
 * rows before *failed are in the load, and that one and all after it are not. TIDESDB_DUPLICATE: the key is in the load
 * already (perhaps tidesdb_ingest_finish() says so); TIDESDB_INVALID: the family has rows, or had some that no merge has
 * dropped; or no new key was said. The load goes on after these, but not after TIDESDB_DEADLOCK and failures of the disk. */
int tidesdb_ingest_add(tidesdb_ingest *ingest, const tidesdb_op *ops, size_t count, size_t *failed);
/* From any thread: the load ends with TIDESDB_INTERRUPTED. */
void tidesdb_ingest_kill(tidesdb_ingest *ingest);
/* Commits all rows, durably in every sync mode. Nothing of the load is left after a failure; after TIDESDB_READ_ONLY and
 * TIDESDB_OUTCOME_UNKNOWN a restart shows whether it is there. Frees the handle, whatever is returned. */
int tidesdb_ingest_finish(tidesdb_ingest *ingest);
/* Gives the load up, removes its files, and frees the handle. */
void tidesdb_ingest_abandon(tidesdb_ingest *ingest);

/* ---- reads ----------------------------------------------------------------------------------- */

enum {
  TIDESDB_READ_SNAPSHOT = 0,       /* as the isolation level says; at READ UNCOMMITTED the newest */
  TIDESDB_READ_LATEST = 1,         /* newest committed version, no lock */
  TIDESDB_READ_SHARED = 2,         /* locks, then reads the newest; TIDESDB_CONFLICT if newer than the */
  TIDESDB_READ_EXCLUSIVE = 3,      /*   transaction's snapshot (see tidesdb_txn_set_snapshot_isolation) */
  TIDESDB_READ_GAP = 4,            /* newest, no lock on keys; scans keep gaps: entries whose rows are locked */
  TIDESDB_READ_FIRST_PART = 8,     /* flag: of values in two parts the first alone */
  TIDESDB_READ_SKIP_LOCKED = 16,   /* flag: skip rows that others have locked */
  TIDESDB_READ_PEEK_LOCKED = 32,   /* flag: TIDESDB_PEEKED for rows that others have locked */
  TIDESDB_READ_BY_ENTRY = 64,      /* flag of tidesdb_cursor_get: the key comes from an index; a miss keeps no lock */
  TIDESDB_READ_BOTH_VERSIONS = 128 /* flag of tidesdb_cursor_seek, with SNAPSHOT: a key that the transaction has changed
                                      is given as changed, then as the snapshot has it, each unless it does not exist
                                      there: for unique indexes (see tidesdb_txn_passed_snapshot) */
};
/* Every read sees the transaction's own writes.
 * Scans in the modes SHARED, EXCLUSIVE and GAP keep others from inserting between the rows that they passed,
 * until the transaction ends: at REPEATABLE READ and SNAPSHOT unless it is optimistic, and at SERIALIZABLE;
 * not with SKIP_LOCKED. A point read in EXCLUSIVE that finds nothing keeps the gap around the key; below
 * REPEATABLE READ, and BY_ENTRY, it keeps no lock. */

typedef struct tidesdb_row {
  const uint8_t *key;
  const uint8_t *value;
  size_t key_size;
  size_t value_size;
  uint64_t expiry;           /* as in tidesdb_op */
  /* bytes directly after the value: the place of the second part of a value in two, for TIDESDB_OP_KEEP_REST; 0: the value
     is whole. They mean nothing to the caller. */
  size_t place_size;
} tidesdb_row;

/* A cursor on one family: point reads and scans. The fields may be read, never written, by the caller. */
typedef struct tidesdb_cursor {
  const tidesdb_row *rows;   /* the batch fetched ahead */
  uint32_t count;
  uint32_t position;         /* of the current row; meaningless after an error or TIDESDB_NOT_FOUND */
  const uint64_t *changes;   /* the transaction's change counter */
  uint64_t changes_seen;     /* its value when the batch was fetched */
  int32_t direction;         /* of the batch: TIDESDB_FORWARD, TIDESDB_BACKWARD; 0: there is no batch */
  uint64_t expiry;           /* of what the last tidesdb_cursor_get() found, as in tidesdb_op */
  size_t place_size;         /* the same, as in tidesdb_row */
} tidesdb_cursor;

int tidesdb_cursor_open(tidesdb_family *family, tidesdb_cursor **cursor);
void tidesdb_cursor_close(tidesdb_cursor *cursor);
/* Gives back pins and snapshot references; call at the end of a statement. The cursor stays usable. */
void tidesdb_cursor_reset(tidesdb_cursor *cursor);
/* The caller has copied the value that it got last, or that of the row on which the cursor stands: one of many megabytes
 * is freed. The cursor stands where it stood; pointers to key and value of the row are not valid any more. */
void tidesdb_cursor_free_value(tidesdb_cursor *cursor);

/* Point read. *value lives until the next call on this cursor. TIDESDB_NOT_FOUND when there is none (in
 * the locking modes the key is locked all the same). */
int tidesdb_cursor_get(tidesdb_cursor *cursor, tidesdb_txn *txn, const uint8_t *key, size_t key_size, int mode,
                       tidesdb_slice *value);

enum { TIDESDB_IS_MISSING = 0, TIDESDB_IS_THERE = 1, TIDESDB_EXPIRES = 2 };
/* Whether `count` keys of a family are there, as tidesdb_cursor_get() in TIDESDB_READ_LATEST would find them: sets
 * found[i] to one of the above for keys[i]. Keys that ascend are found several times faster than one by one. */
int tidesdb_find_keys(tidesdb_txn *txn, tidesdb_family *family, const tidesdb_slice *keys, size_t count, uint8_t *found);

enum {
  TIDESDB_SEEK_AT_OR_AFTER = 0,  /* first row with key >= `key` */
  TIDESDB_SEEK_AFTER = 1,        /* first row with key > `key` and not starting with it */
  TIDESDB_SEEK_AT_OR_BEFORE = 2, /* last row with key <= `key` or starting with it */
  TIDESDB_SEEK_BEFORE = 3,       /* last row with key < `key` */
  TIDESDB_SEEK_FIRST = 4,
  TIDESDB_SEEK_LAST = 5
};

typedef struct tidesdb_seek {
  const uint8_t *key;
  size_t key_size;
  size_t prefix_size;      /* rows that do not share so many first bytes of `key` are past the end; 0: none */
  const uint8_t *bound;    /* forward: first key that is past the end; backward: last key that is; NULL: none */
  size_t bound_size;
  uint8_t where;           /* TIDESDB_SEEK_* ; AT_OR_BEFORE, BEFORE and LAST fetch backward, else forward */
  uint8_t mode;            /* TIDESDB_READ_* */
  uint16_t batch_hint;     /* rows the caller expects to read; 0: unknown (adaptive) */
} tidesdb_seek;

/* Stands on a row: TIDESDB_OK and cursor->rows[cursor->position], or TIDESDB_NOT_FOUND. */
int tidesdb_cursor_seek(tidesdb_cursor *cursor, tidesdb_txn *txn, const tidesdb_seek *seek);
/* Steps; past the prefix, the bound (which holds in the direction of the seek) or the end:
 * TIDESDB_NOT_FOUND. TIDESDB_INVALID when the snapshot of the seek has ended (with its transaction; at
 * READ COMMITTED with its statement): seek again. Use the inline functions below. */
int tidesdb_cursor_fetch(tidesdb_cursor *cursor, int direction);

static inline int tidesdb_cursor_step(tidesdb_cursor *cursor, int direction) {
  if (cursor->direction == direction && cursor->position + 1 < cursor->count &&
      *cursor->changes == cursor->changes_seen) {
    cursor->position++;
    return TIDESDB_OK;
  }
  return tidesdb_cursor_fetch(cursor, direction);
}
/* Next and previous in key order. */
static inline int tidesdb_cursor_next(tidesdb_cursor *cursor) { return tidesdb_cursor_step(cursor, TIDESDB_FORWARD); }
static inline int tidesdb_cursor_prev(tidesdb_cursor *cursor) { return tidesdb_cursor_step(cursor, TIDESDB_BACKWARD); }

/* Sets *rows to the number of rows from the one on which the cursor stands to the end of its scan, several times faster
 * than steps, and the cursor stands on none. In TIDESDB_READ_SNAPSHOT alone; errors: as of steps. */
int tidesdb_cursor_count(tidesdb_cursor *cursor, uint64_t *rows);
/* After TIDESDB_PEEKED from a seek or step: the row again, waiting for its lock; the next one, or
 * TIDESDB_NOT_FOUND, when it is gone. */
int tidesdb_cursor_relock(tidesdb_cursor *cursor, tidesdb_txn *txn);
/* Rows that were fetched behind the one that the cursor stands on are old: the next step looks at what is committed then.
 * For a scan over entries that found the row of one changed: it may have an entry in front now. With at_key the next step
 * begins with the present key, for keys that may belong to another row now. */
void tidesdb_cursor_look_again(tidesdb_cursor *cursor, uint8_t at_key);
/* Gives back the lock that the last locking read of this cursor newly took; no effect on a row that the
 * transaction has written or had locked before. For READ COMMITTED. */
void tidesdb_cursor_unlock_row(tidesdb_cursor *cursor, tidesdb_txn *txn);

/* Numbers of the program, to which the work of reads is added. */
typedef struct tidesdb_read_work {
  uint64_t *blocks;      /* blocks of files that were looked at */
  uint64_t *blocks_read; /* of these, those that were not in the cache */
  uint64_t *read_time;   /* for which they were read, in the program's units */
  uint64_t *passed;      /* old versions and deleted rows that were passed over */
  double units;          /* of read_time in a microsecond */
} tidesdb_read_work;
/* What this cursor's reads do from now on is added there. The numbers stay in place as long as the cursor, or until the
 * next call. NULL: nobody asks (the default), and no time is taken. */
void tidesdb_cursor_set_work(tidesdb_cursor *cursor, const tidesdb_read_work *work);

/* ---- estimates, maintenance, insight ---------------------------------------------------------- */

/* Rows between two keys (NULL: open end), from index blocks and memtable counts; of a short range the blocks at its
 * ends are looked into. */
int tidesdb_estimate_range(tidesdb_family *family, tidesdb_slice lower, tidesdb_slice upper, uint64_t *rows);

/* A key at one of the family's places, for sampling: of all its entries, memtables and files one after the other, about so
 * large a `share` (0 to 1) stands before it. Places evenly apart are a fair sample of the entries; their keys come in no
 * order. At most `capacity` bytes of the key go into `key`, `*size` says how many: a cut key stands before the whole one.
 * TIDESDB_NOT_FOUND: there is no key. */
int tidesdb_key_at(tidesdb_family *family, double share, uint8_t *key, size_t capacity, size_t *size);

typedef struct tidesdb_family_stats {
  size_t struct_size;
  uint64_t entries;          /* live rows; exact where `counted` says so, else estimated */
  uint64_t tombstones;
  uint64_t data_bytes;       /* of tables on disk */
  uint64_t value_bytes;      /* of values in value files, as stored */
  uint64_t memtable_bytes;   /* keys and their newest values in memtables */
  uint64_t mean_row_bytes;   /* key and value, uncompressed; estimated */
  uint32_t runs;             /* that a read may have to visit */
  uint32_t levels;
  uint64_t counted;          /* not 0: `entries` is what operations said of all that is committed (TIDESDB_OP_NEUTRAL) */
} tidesdb_family_stats;
/* O(runs), no I/O. */
int tidesdb_family_get_stats(tidesdb_family *family, tidesdb_family_stats *stats);
/* Reads all keys at one moment and puts the family's count right, beside writers; `rows` is their number at that
 * moment. Families of a store that a build before the first that counts wrote are counted from then on. A kill of
 * `txn` (NULL: of nobody) ends it with TIDESDB_INTERRUPTED; nothing is done in that transaction. */
int tidesdb_count_rows(tidesdb_family *family, tidesdb_txn *txn, uint64_t *rows);

/* Seals the active memtable and waits until it is in files. */
int tidesdb_flush(tidesdb_db *db);
/* Flush, then merges all runs of the family into its last level. A kill of `txn` (NULL: of nobody) ends it with
   TIDESDB_INTERRUPTED; nothing is done in that transaction. */
int tidesdb_compact(tidesdb_family *family, tidesdb_txn *txn);
/* Reads every block of the family: checksums, order, counts. TIDESDB_CORRUPTION with its message. A kill of `txn`
   as above. */
int tidesdb_verify(tidesdb_family *family, tidesdb_txn *txn);

/* Bytes in files that were written under other options than the family has now, or by an earlier build that did not say
 * under which: tidesdb_compact() rewrites them. Reads the end of each file once; damaged ones are not among them. */
int tidesdb_family_old_form(tidesdb_family *family, uint64_t *bytes);

/* Bytes from which on a value that is written to the family now goes to a value file; 0: none does. */
uint64_t tidesdb_family_value_threshold(const tidesdb_family *family);

typedef struct tidesdb_stats {
  size_t struct_size;
  uint64_t column_families, global_sequence, memtable_bytes, txn_memory_bytes, memory_limit;
  uint64_t total_sstables, open_sstables, data_size_bytes, immutable_memtables, flush_pending, flush_queue,
      compaction_queue;
  uint64_t cache_entries, cache_bytes, cache_hits, cache_misses, cache_compressed_hits, cache_partitions,
      table_reads, table_read_bytes;
  uint64_t value_files, value_bytes, value_bytes_written, value_bytes_freed;
  uint64_t total_tombstones, total_entries;
  uint64_t backpressure_waits, backpressure_wait_us;
  uint64_t lock_waits, lock_wait_us, lock_deadlocks, lock_timeouts, lock_held, lock_entries, lock_chain_max;
  uint64_t wal_generation, wal_bytes_written, flush_bytes_written, compaction_bytes_written,
      compaction_bytes_read, user_bytes_written, flush_count, compaction_count, compaction_debt_bytes;
  uint64_t is_flushing, wal_syncs, wal_groups, commits, spilled_runs;
  uint64_t lock_waiting, lock_escalations, lock_entry_recycles;
  uint64_t conflicts;                  /* rows found newer than the snapshot of who wanted to change them */
  uint64_t snapshots;                  /* open now */
  uint64_t max_tombstones_per_million; /* of the table with most tombstones for each of its entries */
  uint64_t max_tombstones_level;       /* where it is */
  uint64_t expiry_clock_lag_seconds;   /* seconds by which the system's clock is behind the one of expiries */
  uint64_t wal_full;                   /* times that the log ran out of room */
  /* Bytes by holder, which are together memory_total: in use by the whole library. memory_rest has no figure of its own. */
  uint64_t memory_total, memory_block_cache, memory_memtables, memory_spare_memtables, memory_transactions,
      memory_locks, memory_read_ahead, memory_table_writers, memory_sorts, memory_rest;
  uint64_t memory_shortage; /* 0: none; 1: the cache is smaller than its option; 2: compactions wait, too; 3: writers, too */
  uint64_t cache_capacity;  /* bytes that the cache may have now */
  uint64_t memory_background_waits, memory_writer_waits; /* times that compactions, and writers, waited for memory */
  /* Searches for a key and commits (from their place in the order to the answer) that were measured, one of 256 and
   * one of 64, and microseconds that these took together. */
  uint64_t get_samples, get_sample_us, commit_samples, commit_sample_us;
  uint64_t wal_sync_us, flush_us, compaction_us, flush_failures, compaction_failures;
  uint64_t damage_met;              /* times that a call or background work met damaged data */
  uint64_t set_aside_families;      /* that merges pass over for a while, because one failed */
  uint64_t missing_files;
  uint64_t read_only;               /* 1: changes are refused */
  uint64_t oldest_snapshot_seconds; /* since the oldest transaction with a snapshot began; 0: none has one */
  uint64_t free_space_bytes;        /* where the store lies; TIDESDB_UNKNOWN */
  uint64_t disk_full;       /* 1: log, flushes or merges find no room on the disk */
  uint64_t disk_full_count; /* times that this began */
} tidesdb_stats;
int tidesdb_get_stats(tidesdb_db *db, tidesdb_stats *stats);

/* ---- pictures ------------------------------------------------------------------------------------
 * What there is and who is at work. Each list is copied first, in a time that holds nobody up, and then handed
 * out: `visit` is called for each row until it returns non-zero, without any latch held; what a row points to lives
 * until the call returns. A number that is not known is TIDESDB_UNKNOWN (TIDESDB_UNKNOWN32, TIDESDB_UNKNOWN8); names of
 * families that are gone are empty. */

/* Microseconds of a clock that never goes back, in which the times of transactions and compactions stand. */
uint64_t tidesdb_now_micros(const tidesdb_db *db);

typedef struct tidesdb_family_info {
  tidesdb_slice name;
  tidesdb_family_options options;
  tidesdb_family_stats stats;
  uint64_t created_seq; /* sequence before which snapshots may not read it */
  uint64_t old_form_bytes; /* tidesdb_family_old_form() */
  uint32_t id;
} tidesdb_family_info;
/* By number. */
int tidesdb_families(tidesdb_db *db, int (*visit)(void *context, const tidesdb_family_info *row), void *context);

/* One family's part of a table file. */
typedef struct tidesdb_table_info {
  tidesdb_slice name; /* of the family */
  tidesdb_key_part min_key, max_key;
  uint64_t file, file_bytes, offset, bytes;
  uint64_t entries, tombstones, keys, raw_bytes; /* raw: of keys and values as they came in */
  uint64_t min_seq, max_seq;
  uint32_t family, level;
} tidesdb_table_info;
/* By family, level and key; the dictionary's (family 0) first. */
int tidesdb_tables(tidesdb_db *db, int (*visit)(void *context, const tidesdb_table_info *row), void *context);

/* A file of values of `value_threshold` bytes and more. */
typedef struct tidesdb_value_file_info {
  uint64_t file, bytes;         /* bytes that it takes on disk, about */
  uint64_t values, value_bytes; /* that tables point to, dead versions included; as stored */
  uint64_t sstables;            /* that point to it */
  uint64_t other_holds;         /* memtables, transactions, readers, backups; until there is none, dead values stay */
  uint64_t takes_values;        /* 1: values are being written to it */
} tidesdb_value_file_info;
/* By number. */
int tidesdb_value_files(tidesdb_db *db, int (*visit)(void *context, const tidesdb_value_file_info *row), void *context);

/* At most `limit` grants and waits, locks that somebody waits for first and as they were at one moment;
 * *complete: whether these are all. Keys that a large transaction has in files appear when somebody waits for them. */
int tidesdb_locks(tidesdb_db *db, size_t limit, int (*visit)(void *context, const tidesdb_lock_info *row),
                  void *context, int *complete);

enum { TIDESDB_TXN_RUNS = 0, TIDESDB_TXN_WAITS = 1, TIDESDB_TXN_PREPARED = 2 };

typedef struct tidesdb_txn_info {
  tidesdb_slice xid;       /* of one without a session; else empty */
  uint64_t id, session;    /* session 0: prepared, and nobody's */
  uint64_t begun_us, waits_since_us;
  uint64_t blocking_txn, blocking_session;
  uint64_t snapshot;       /* sequence that it reads at */
  uint64_t changes;        /* rows and entries of indexes */
  uint64_t batch_bytes;    /* of its changes in memory */
  uint64_t locks, tables;  /* keys and ranges; tables, intentions included */
  uint8_t state;           /* TIDESDB_TXN_* */
  uint8_t isolation;       /* TIDESDB_READ_UNCOMMITTED ... */
  uint8_t optimistic;
} tidesdb_txn_info;
int tidesdb_transactions(tidesdb_db *db, int (*visit)(void *context, const tidesdb_txn_info *row), void *context);

enum { TIDESDB_COMPACTION_MERGES = 0, TIDESDB_COMPACTION_MOVES = 1, TIDESDB_COMPACTION_REWRITES = 2 };
enum {
  TIDESDB_COMPACTION_RUNS = 0,
  TIDESDB_COMPACTION_DONE = 1,
  TIDESDB_COMPACTION_FAILED = 2,
  TIDESDB_COMPACTION_INTERRUPTED = 3
};

typedef struct tidesdb_compaction_info {
  tidesdb_slice name;   /* of the family */
  tidesdb_slice reason; /* in capitals */
  uint64_t id;          /* ascending in the order of begin */
  uint64_t tables_in, tables_out, bytes_in, bytes_out;
  uint64_t raw_bytes;   /* keys and values merged so far */
  uint64_t entries_in, entries_out;
  uint64_t begun_us, ended_us;
  uint32_t family;      /* TIDESDB_UNKNOWN32: several */
  uint8_t action;       /* TIDESDB_COMPACTION_MERGES ... */
  uint8_t outcome;      /* TIDESDB_COMPACTION_RUNS ... */
  uint8_t from, to;     /* levels */
} tidesdb_compaction_info;
/* Those that run, then the last TIDESDB_COMPACTIONS_KEPT that ran, each the newest first. */
int tidesdb_compactions(tidesdb_db *db, int (*visit)(void *context, const tidesdb_compaction_info *row), void *context);

/* ---- backups --------------------------------------------------------------------------------- */

/* How a caller follows a long call; a null pointer, or null functions: not at all. Both are called by the calling
 * thread. `stop` is asked before each megabyte and while something is waited for; not 0 ends the call with
 * TIDESDB_INTERRUPTED. `progress` is told the bytes that are done and those there are. */
typedef struct tidesdb_watch {
  void *context;
  int (*stop)(void *context);
  void (*progress)(void *context, uint64_t done, uint64_t total);
} tidesdb_watch;

/* A backup being taken; used by one thread at a time. */
typedef struct tidesdb_backup_job tidesdb_backup_job;

/* Takes a backup of the store into the directory `to`, which is empty or not there yet, while others read and write;
 * returns when it is complete and durable. It has every commit that was ordered before its moment and nothing after
 * it; prepared transactions wait there for their decision. Writers are held up for no I/O. `links`: tables become
 * further names of the store's own files, which are never changed: quick, on one file system. One at a time
 * (TIDESDB_BUSY). TIDESDB_INVALID for a directory that is not empty, or in or around that of the store (but for
 * its directory "transfer", which the store leaves to the owner), or on another file system with `links`; TIDESDB_DISK_FULL, TIDESDB_IO, TIDESDB_READ_ONLY. After a failure nothing is left in `to`;
 * after a crash what is left is no backup, and refused. */
int tidesdb_backup(tidesdb_db *db, const char *to, int links, const tidesdb_watch *watch);

/* The same in steps, for owners with something of their own to add. begin checks the destination and makes it;
 * moment fixes what is in the backup (*sequence, which may be null, is the newest commit); add_file copies a file
 * of the owner's to `to`/data/`name` (relative, with '/'); note writes a line into `to`/tidesdb_backup_info (no
 * space in the name, one line of value); finish copies the store and completes the backup. finish gives the job up,
 * whatever it answers; abandon removes what was written. */
int tidesdb_backup_begin(tidesdb_db *db, const char *to, int links, tidesdb_backup_job **job);
/* Between begin and finish. set_rate: bytes that are read or written in a second at most; 0: no limit. set_base: an
 * earlier backup of the store; table files that are in both with the same content become hard links to its files
 * (TIDESDB_INVALID: it is no finished backup; from finish: it is on another file system). leave_out_damaged: finish
 * goes on without damaged table files, and tells each of them with each family that has tables in it, by its name up
 * to the first NUL; `left_out` may be null. */
int tidesdb_backup_set_rate(tidesdb_backup_job *job, uint64_t bytes_a_second);
int tidesdb_backup_set_base(tidesdb_backup_job *job, const char *base);
int tidesdb_backup_leave_out_damaged(tidesdb_backup_job *job,
                                     void (*left_out)(void *context, const char *file, const char *family),
                                     void *context);
int tidesdb_backup_point(tidesdb_backup_job *job, const tidesdb_watch *watch, uint64_t *sequence);
int tidesdb_backup_add_file(tidesdb_backup_job *job, const char *from, const char *name);
int tidesdb_backup_note(tidesdb_backup_job *job, const char *name, const char *value);
int tidesdb_backup_finish(tidesdb_backup_job *job, const tidesdb_watch *watch);
void tidesdb_backup_abandon(tidesdb_backup_job *job);

/* Reads a finished backup and checks every checksum: TIDESDB_CORRUPTION with file and offset, TIDESDB_INVALID for
 * what is not a finished backup. No store needs to be open. */
int tidesdb_backup_verify(const char *from, const tidesdb_watch *watch);
/* Verifies, then makes a store in the directory `store`, which is empty or not there yet. What the owner added goes
 * into the directory `data`, which exists (null: there is nothing of that kind); files that differ from those
 * that are there are TIDESDB_INVALID before anything is written. A file `data`/tidesdb_restored says that it was
 * done; the owner removes it. A restore that fails in the middle leaves a store that does not open. */
int tidesdb_backup_restore(const char *from, const char *store, const char *data, const tidesdb_watch *watch);

/* A readable report of the store (levels, queues, cache, locks). Free it with tidesdb_free_text. */
int tidesdb_status_text(tidesdb_db *db, char **text);
void tidesdb_free_text(char *text);

#ifdef __cplusplus
}
#endif
#endif /* TIDESDB_H */
