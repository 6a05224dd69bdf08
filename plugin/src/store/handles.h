/*
  Owners of the engine's objects: what is opened is closed when its owner goes out of scope.

  Everything here is a thin wrapper over include/tidesdb.h; statuses are the engine's (TIDESDB_OK is 0).
*/
#ifndef TIDESDB_STORE_HANDLES_H
#define TIDESDB_STORE_HANDLES_H

#include <memory>
#include <string>
#include <vector>

#include "key/bytes.h"

namespace tidesdb {

struct FamilyCloser {
  void operator()(tidesdb_family *family) const { tidesdb_family_close(family); }
};
using FamilyHandle = std::unique_ptr<tidesdb_family, FamilyCloser>;

struct CursorCloser {
  void operator()(tidesdb_cursor *cursor) const { tidesdb_cursor_close(cursor); }
};
using CursorHandle = std::unique_ptr<tidesdb_cursor, CursorCloser>;

struct TxnFreer {
  void operator()(tidesdb_txn *txn) const { tidesdb_txn_free(txn); }
};
using TxnHandle = std::unique_ptr<tidesdb_txn, TxnFreer>;

inline int open_family(tidesdb_db *db, const std::string &name, FamilyHandle *family) {
  tidesdb_family *opened = nullptr;
  const int status = tidesdb_family_open(db, slice_of(name), &opened);
  if (status == TIDESDB_OK) family->reset(opened);
  return status;
}

inline int open_cursor(tidesdb_family *family, CursorHandle *cursor) {
  tidesdb_cursor *opened = nullptr;
  const int status = tidesdb_cursor_open(family, &opened);
  if (status == TIDESDB_OK) cursor->reset(opened);
  return status;
}

inline int create_txn(tidesdb_db *db, TxnHandle *txn) {
  tidesdb_txn *created = nullptr;
  const int status = tidesdb_txn_create(db, &created);
  if (status == TIDESDB_OK) txn->reset(created);
  return status;
}

/* Of a dropped family nothing is known: all is 0. */
tidesdb_family_stats stats_of(tidesdb_family *family);

/* The record that stands with a family in the dictionary. */
int family_record(const tidesdb_family *family, std::vector<uint8_t> *record);

/* The second of the clock by which rows expire. */
uint64_t expiry_second(tidesdb_db *db);

/* Names of the families that start with `prefix`, in order. */
int list_families(tidesdb_db *db, const std::string &prefix, std::vector<std::string> *names);

/* A load of families that nobody sees, by finished tables: given up unless finish() was called. */
class Ingest {
 public:
  Ingest() = default;
  ~Ingest() { tidesdb_ingest_abandon(load_); }
  Ingest(const Ingest &) = delete;
  Ingest &operator=(const Ingest &) = delete;

  /* The first call begins the load. */
  int add(tidesdb_db *db, const tidesdb_op *rows, size_t count) {
    const int status = load_ ? TIDESDB_OK : tidesdb_ingest_begin(db, TIDESDB_INGEST_UNLOCKED, &load_);
    return status == TIDESDB_OK ? tidesdb_ingest_add(load_, rows, count, nullptr) : status;
  }
  /* All rows are there, durably, when this has returned TIDESDB_OK; without any it does nothing. */
  int finish() {
    tidesdb_ingest *load = load_;
    load_ = nullptr;
    return load ? tidesdb_ingest_finish(load) : TIDESDB_OK;
  }

 private:
  tidesdb_ingest *load_ = nullptr;
};

/* A group of dictionary changes: aborted unless commit() was called. */
class DdlGroup {
 public:
  DdlGroup() = default;
  ~DdlGroup() {
    if (ddl_) tidesdb_ddl_abort(ddl_);
  }
  DdlGroup(const DdlGroup &) = delete;
  DdlGroup &operator=(const DdlGroup &) = delete;

  int begin(tidesdb_db *db) { return tidesdb_ddl_begin(db, &ddl_); }
  int create(const std::string &name, const tidesdb_family_options &options,
             const std::vector<uint8_t> &record) {
    return tidesdb_ddl_create(ddl_, slice_of(name), &options, {record.data(), record.size()});
  }
  int drop(const std::string &name) { return tidesdb_ddl_drop(ddl_, slice_of(name)); }
  int rename(const std::string &from, const std::string &to) {
    return tidesdb_ddl_rename(ddl_, slice_of(from), slice_of(to));
  }
  int truncate(const std::string &name) { return tidesdb_ddl_truncate(ddl_, slice_of(name)); }
  int set_record(const std::string &name, const std::vector<uint8_t> &record) {
    return tidesdb_ddl_set_record(ddl_, slice_of(name), {record.data(), record.size()});
  }
  int set_options(const std::string &name, const tidesdb_family_options &options) {
    return tidesdb_ddl_set_options(ddl_, slice_of(name), &options);
  }
  int bump(const std::string &name) { return tidesdb_ddl_bump(ddl_, slice_of(name)); }
  int set_counter(const std::string &name, uint32_t counter, uint64_t next) {
    return tidesdb_ddl_set_counter(ddl_, slice_of(name), counter, next);
  }
  int commit() {
    tidesdb_ddl *ddl = ddl_;
    ddl_ = nullptr;
    return tidesdb_ddl_commit(ddl);
  }

 private:
  tidesdb_ddl *ddl_ = nullptr;
};

}  // namespace tidesdb
#endif
