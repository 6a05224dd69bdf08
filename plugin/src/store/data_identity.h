/*
  The identity of the server's data directory: 32 hexadecimal digits in its file `tidesdb_identity`, drawn
  when a store is first opened for it. It moves and is copied with the data directory and is gone with it,
  while the store may lie next to it; so a new data directory does not meet the tables of the old one.

  The file `tidesdb_store` records that the identity has a store, and where it was opened last. A store that
  is missing (its disk is not mounted) is not made anew: what would be created meanwhile would be gone when
  the old store comes back. A record of another identity does not count: a restore brings one of its own.

  It also remembers the store's mark at its newest opening (tidesdb_mark). An old copy of the store in the
  place where the server looks, because the option with the new place is lost, is refused by it, and so is any
  other store. Without a mark (of an earlier build, removed by its owner, or after a restore) the store that
  is met is the one, and gets an id of its own.
*/
#ifndef TIDESDB_STORE_DATA_IDENTITY_H
#define TIDESDB_STORE_DATA_IDENTITY_H

#include <string>

namespace tidesdb {

/* Written into the data directory by a restore of a backup; removed at the end of the next start. */
constexpr const char RESTORED_FILE[] = "tidesdb_restored";

/* What the data directory says of its store, and what an opening may do. */
struct DataIdentity {
  std::string identity;
  bool drawn = false;       /* now: no file has it yet */
  bool makes_store = false; /* there is none, and one may be made */
  bool recorded = false;    /* the record says that the store was made */
  std::string place;        /* of the record; empty: there is none */
  std::string mark;         /* of the record; empty: nothing is remembered */
};

/* Reads or draws the identity. `home`: where the store is looked for; `replaced`: identity of a missing store
   that another may replace, or "". Errors are written to the error log; true: failed. */
bool choose_data_identity(const std::string &data_directory, const std::string &home,
                          const std::string &replaced, DataIdentity *data);

/* Before the store in `home` is opened: writes what is not in files yet. Reports errors as above. */
bool keep_data_identity(const std::string &data_directory, const std::string &home, const DataIdentity &data);

/* For tidesdb_options.remembered; empty: nothing is remembered. */
std::string remembered_store(const std::string &data_directory, const DataIdentity &data);

/* After it was opened. A failure is a warning in the error log. */
void record_store(const std::string &data_directory, const std::string &home, const DataIdentity &data,
                  const std::string &mark);

}  // namespace tidesdb
#endif
