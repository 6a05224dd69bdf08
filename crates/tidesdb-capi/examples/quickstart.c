/*
 * A tour of the C interface; valid as C11 and as C++17.
 *
 *   sudo make install
 *   cc quickstart.c $(pkg-config --cflags --libs tidesdb) -o quickstart && ./quickstart /tmp/store
 */
#include "tidesdb.h"

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the message of a failed call. */
static void must(int status, const char *what) {
  if (status != TIDESDB_OK) {
    fprintf(stderr, "%s: %s: %s\n", what, tidesdb_strerror(status), tidesdb_last_error());
    exit(1);
  }
}

static void print(const char *before, tidesdb_slice key, tidesdb_slice value) {
  printf("%s%.*s=%.*s", before, (int)key.size, (const char *)key.data, (int)value.size, (const char *)value.data);
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

  /* A column family, an ordered map: opened, or made. NULL: default options. */
  tidesdb_family *planets;
  must(tidesdb_family_open_or_create(db, tidesdb_text("planets"), NULL, &planets), "open family");

  /* Single operations are transactions of their own: committed and on disk when they return. */
  must(tidesdb_put(planets, tidesdb_text("earth"), tidesdb_text("1")), "put");
  must(tidesdb_put(planets, tidesdb_text("jupiter"), tidesdb_text("95")), "put");
  must(tidesdb_put(planets, tidesdb_text("mars"), tidesdb_text("2")), "put");
  must(tidesdb_put(planets, tidesdb_text("pluto"), tidesdb_text("5")), "put");
  must(tidesdb_delete(planets, tidesdb_text("pluto")), "delete");

  /* A value that was read is the caller's to free. */
  tidesdb_slice value;
  must(tidesdb_get(planets, tidesdb_text("mars"), &value), "get");
  printf("mars has %.*s moons\n", (int)value.size, (const char *)value.data);
  tidesdb_slice_free(&value);

  /* An iterator over a range stands on its first row; it reads at the moment when it was made. */
  tidesdb_iter *iter;
  int status = TIDESDB_OK;
  must(tidesdb_iter_new(planets, NULL, tidesdb_text("j"), tidesdb_text("n"), &iter), "iterate");
  printf("from j to n:");
  while (tidesdb_iter_valid(iter)) {
    print(" ", tidesdb_iter_key(iter), tidesdb_iter_value(iter));
    status = tidesdb_iter_next(iter);
  }
  printf("\n");
  if (status != TIDESDB_NOT_FOUND)
    must(status, "next");
  tidesdb_iter_free(iter);

  /* A transaction is there whole or not at all; one object serves many of them. */
  tidesdb_txn *txn;
  must(tidesdb_txn_create(db, &txn), "create transaction");
  must(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_DEFAULT), "begin");
  must(tidesdb_txn_get_for_update(txn, planets, tidesdb_text("mars"), &value), "lock");
  must(tidesdb_txn_put(txn, planets, tidesdb_text("mars"), value), "put");
  tidesdb_slice_free(&value);
  must(tidesdb_txn_put(txn, planets, tidesdb_text("saturn"), tidesdb_text("146")), "put");
  must(tidesdb_txn_commit(txn), "commit");

  /* All rows backward, as the next transaction sees them. */
  must(tidesdb_txn_begin(txn, TIDESDB_REPEATABLE_READ, TIDESDB_TXN_DEFAULT), "begin");
  must(tidesdb_iter_new(planets, txn, tidesdb_text(NULL), tidesdb_text(NULL), &iter), "iterate");
  printf("backward:");
  for (status = tidesdb_iter_last(iter); status == TIDESDB_OK; status = tidesdb_iter_prev(iter))
    print(" ", tidesdb_iter_key(iter), tidesdb_iter_value(iter));
  printf("\n");
  if (status != TIDESDB_NOT_FOUND)
    must(status, "prev");

  /* It sees the transaction's own changes; a rollback undoes them. */
  must(tidesdb_txn_put(txn, planets, tidesdb_text("neptune"), tidesdb_text("16")), "put");
  must(tidesdb_iter_seek(iter, tidesdb_text("n")), "seek");
  print("before the rollback: ", tidesdb_iter_key(iter), tidesdb_iter_value(iter));
  printf("\n");
  tidesdb_iter_free(iter);
  must(tidesdb_txn_rollback(txn), "rollback");
  if (tidesdb_get(planets, tidesdb_text("neptune"), &value) == TIDESDB_NOT_FOUND)
    printf("after the rollback neptune has no moons\n");

  /* Everything goes before the store does. */
  tidesdb_txn_free(txn);
  tidesdb_family_close(planets);
  must(tidesdb_close(db), "close");
  printf("closed\n");
  return 0;
}
