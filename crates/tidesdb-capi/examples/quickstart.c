/*
 * A tour of the C interface; valid as C11 and as C++17.
 *
 *   cargo build --release -p tidesdb-capi
 *   cc -std=c11 -Icrates/tidesdb-capi/include crates/tidesdb-capi/examples/quickstart.c \
 *      target/release/libtidesdb_capi.a -lpthread -ldl -lm -o quickstart && ./quickstart /tmp/store
 */
#include "tidesdb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with the message of a failed call. */
static void must(int status, const char *what) {
  if (status != TIDESDB_OK) {
    fprintf(stderr, "%s: %s: %s\n", what, tidesdb_strerror(status), tidesdb_last_error());
    exit(1);
  }
}

static tidesdb_slice text(const char *string) {
  tidesdb_slice slice;
  slice.data = (const uint8_t *)string;
  slice.size = strlen(string);
  return slice;
}

static void put(tidesdb_txn *txn, tidesdb_family *family, const char *key, const char *value) {
  tidesdb_op op;
  memset(&op, 0, sizeof op);
  op.family = family;
  op.key = text(key);
  op.value = text(value);
  op.kind = TIDESDB_PUT;
  op.flags = TIDESDB_OP_LOCK;
  must(tidesdb_write(txn, &op, 1, NULL), "put");
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  tidesdb_options options;
  tidesdb_db *db;
  tidesdb_options_init(&options);
  must(tidesdb_open(argv[1], &options, &db), "open");
  printf("opened %s with version %s\n", argv[1], tidesdb_version());

  /* A column family, unless an earlier run made it. */
  tidesdb_family *planets;
  int status = tidesdb_family_open(db, text("planets"), &planets);
  if (status == TIDESDB_NO_SUCH_FAMILY) {
    tidesdb_family_options family_options;
    tidesdb_ddl *ddl;
    tidesdb_family_options_init(&family_options);
    must(tidesdb_ddl_begin(db, &ddl), "begin DDL");
    must(tidesdb_ddl_create(ddl, text("planets"), &family_options, text("")), "create family");
    must(tidesdb_ddl_commit(ddl), "commit DDL");
    status = tidesdb_family_open(db, text("planets"), &planets);
  }
  must(status, "open family");

  /* One transaction object serves many transactions. */
  tidesdb_txn *txn;
  must(tidesdb_txn_create(db, &txn), "create transaction");
  must(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0), "begin");
  put(txn, planets, "earth", "1");
  put(txn, planets, "jupiter", "95");
  put(txn, planets, "mars", "2");
  put(txn, planets, "saturn", "146");
  must(tidesdb_txn_commit(txn), "commit");
  printf("committed four planets\n");

  /* A point read. */
  tidesdb_cursor *cursor;
  tidesdb_slice value;
  must(tidesdb_cursor_open(planets, &cursor), "open cursor");
  must(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, 0), "begin");
  must(tidesdb_get(cursor, txn, (const uint8_t *)"mars", 4, TIDESDB_READ_SNAPSHOT, &value), "get");
  printf("mars has %.*s moons\n", (int)value.size, (const char *)value.data);

  /* A scan: rows come in batches, which the inline step functions walk through. */
  tidesdb_seek seek;
  memset(&seek, 0, sizeof seek);
  seek.where = TIDESDB_SEEK_LAST;
  seek.mode = TIDESDB_READ_SNAPSHOT;
  printf("backward:");
  for (status = tidesdb_cursor_seek(cursor, txn, &seek); status == TIDESDB_OK; status = tidesdb_cursor_prev(cursor)) {
    const tidesdb_row *row = &cursor->rows[cursor->position];
    printf(" %.*s=%.*s", (int)row->key_size, (const char *)row->key, (int)row->value_size, (const char *)row->value);
  }
  printf("\n");
  if (status != TIDESDB_NOT_FOUND)
    must(status, "scan");

  /* A cursor sees its transaction's own changes; a rollback undoes them. */
  put(txn, planets, "neptune", "16");
  must(tidesdb_get(cursor, txn, (const uint8_t *)"neptune", 7, TIDESDB_READ_SNAPSHOT, &value), "get");
  printf("before the rollback neptune has %.*s moons\n", (int)value.size, (const char *)value.data);
  tidesdb_cursor_reset(cursor);
  must(tidesdb_txn_rollback(txn), "rollback");

  /* Everything goes before the store does. */
  tidesdb_cursor_close(cursor);
  tidesdb_txn_free(txn);
  tidesdb_family_close(planets);
  must(tidesdb_close(db), "close");
  printf("closed\n");
  return 0;
}
