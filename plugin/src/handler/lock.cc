/*
  Statements and locks: which reads lock rows, when a transaction is entered.

  A read that is part of a change, or asks for it (FOR UPDATE), locks its rows, and so does a plain read in
  a transaction at SERIALIZABLE; at REPEATABLE READ and above the engine keeps the gaps that such a scan
  passes free of others' insertions. The table's intention lock comes first.

  Entries of a secondary index: those of a unique one are locked before the row, so that an entry that moves
  from one row to another is not lost in between. Those of others carry their row's key and can only come
  and go with its lock; the scan keeps the gaps between them.
*/
#include "handler/ha_tidesdb.h"

#include "sql_class.h"
#include "sql_lex.h"

#include "ddl/table_path.h"
#include "handler/bulk_load.h"
#include "store/store.h"
#include "sysvars.h"

using namespace tidesdb;

/* The rules of InnoDB (ha_innodb.cc:store_lock), which users and the server's code rely on. */
void ha_tidesdb::choose_row_lock(THD *thd, thr_lock_type lock_type) {
  const int command = thd_sql_command(thd);
  const bool in_lock_tables = thd_in_lock_tables(thd);
  const int level = thd_tx_isolation(thd);
  skip_locked_ = lock_type == TL_READ_SKIP_LOCKED || lock_type == TL_WRITE_SKIP_LOCKED;

  if (lock_type >= TL_FIRST_WRITE) {
    row_lock_ = RowLock::EXCLUSIVE;
  } else if (command == SQLCOM_FLUSH) {
    row_lock_ = RowLock::NONE;
  } else if ((in_lock_tables && (lock_type == TL_READ || lock_type == TL_READ_HIGH_PRIORITY)) ||
             lock_type == TL_READ_WITH_SHARED_LOCKS || lock_type == TL_READ_SKIP_LOCKED ||
             lock_type == TL_READ_NO_INSERT || command != SQLCOM_SELECT) {
    const bool snapshot_will_do =
        command == SQLCOM_CHECKSUM || command == SQLCOM_ANALYZE || command == SQLCOM_CHECK ||
        command == SQLCOM_HA_OPEN || command == SQLCOM_HA_READ || command == SQLCOM_SHOW_FIELDS ||
        command == SQLCOM_ALTER_TABLE || command == SQLCOM_CREATE_INDEX || command == SQLCOM_DROP_INDEX ||
        command == SQLCOM_OPTIMIZE ||
        (level <= ISO_READ_COMMITTED && (lock_type == TL_READ || lock_type == TL_READ_NO_INSERT));
    row_lock_ = snapshot_will_do ? RowLock::NONE : RowLock::SHARED;
  } else {
    row_lock_ = RowLock::NONE;
  }
  stored_row_lock_ = row_lock_;
}

THR_LOCK_DATA **ha_tidesdb::store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) {
  const int command = thd_sql_command(thd);
  /* DROP comes here with handlers that another connection is using. */
  if (lock_type != TL_IGNORE && command != SQLCOM_DROP_TABLE && command != SQLCOM_DROP_SEQUENCE)
    choose_row_lock(thd, lock_type);
  return to;
}

/* Statements of which an ALTER by copy, or its like, may be a part. */
bool ha_tidesdb::may_copy_rows(int command) {
  return command == SQLCOM_ALTER_TABLE || command == SQLCOM_CREATE_INDEX || command == SQLCOM_DROP_INDEX ||
         command == SQLCOM_OPTIMIZE || command == SQLCOM_REPAIR;
}

int ha_tidesdb::enter_statement(THD *thd, bool may_write) {
  session_ = Session::get(thd);
  if (!session_) return HA_ERR_OUT_OF_MEM;
  const int command = thd_sql_command(thd);
  copies_rows_ = may_copy_rows(command);
  unique_lookups_ = UniqueLookups::UNDECIDED;
  /* A copy is of one moment, the statement's; what others commit meanwhile is brought into it then, and is
     newer than that. */
  const int of_table = open_table_->isolation_level();
  const int level = copies_rows_ ? TIDESDB_READ_COMMITTED : Session::level_for(thd, of_table);
  if (const int error = session_->enter_statement(level, may_write)) return error;
  if (may_write || command != SQLCOM_SELECT) enter_expiry(thd);
  keep_position_ = command == SQLCOM_HA_READ;
  changes_rows_ = may_write && command != SQLCOM_SELECT;
  /* SERIALIZABLE of the session, or of this table at REPEATABLE READ. */
  const bool serializable = session_->isolation() == TIDESDB_SERIALIZABLE || level == TIDESDB_SERIALIZABLE;
  serializable_read_ = serializable && row_lock_ == RowLock::NONE && command == SQLCOM_SELECT &&
                       thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
  offer_rowid_filters();
  /* The copy has one snapshot for all partitions, which the first of them takes. */
  return table->part_info ? watch_source_of_copy() : 0;
}

/*
  A table that is copied to take its place by another (ALTER by copy): a prepared transaction whose connection
  is gone would commit into the table that the copy replaces, and the server's locks do not wait for it. Now
  there is none, and while writers are kept out there will be none; where they are let in, the watch tells.
*/
int ha_tidesdb::watch_source_of_copy() {
  if (!copies_rows_ || takes_over_ || is_temporary_) return 0;
  return session_->watch_copied(primary_family(open_table_->name()));
}

/* Whether less is free than the table's MIN_DISK_SPACE and the statement would add to what is used. */
bool ha_tidesdb::disk_is_short_of(THD *thd) const {
  const ulonglong least = open_table_->min_disk_space();
  const int command = thd_sql_command(thd);
  if (least == 0 || command == SQLCOM_DELETE || command == SQLCOM_DELETE_MULTI ||
      command == SQLCOM_TRUNCATE || command == SQLCOM_SELECT)
    return false;
  return tidesdb_free_space(plugin.db) < least;
}

int ha_tidesdb::external_lock(THD *thd, int lock_type) {
  if (lock_type == F_UNLCK) {
    if (position_ == Position::CURSOR) position_ = keep_position_ ? Position::ANCHOR : Position::NONE;
    int error = 0;
    if (bulk_) {
      error = bulk_->finish();
      bulk_.reset();
    }
    return error;
  }
  if (lock_type == F_WRLCK) row_lock_ = stored_row_lock_ = RowLock::EXCLUSIVE;
  if (lock_type == F_WRLCK && disk_is_short_of(thd)) return HA_ERR_DISK_FULL;
  return enter_statement(thd, lock_type == F_WRLCK);
}

int ha_tidesdb::start_stmt(THD *thd, thr_lock_type lock_type) {
  const bool writes = lock_type >= TL_FIRST_WRITE;
  /* In a function this is not its first statement on the table: reset() has been here. */
  skip_locked_ = lock_type == TL_READ_SKIP_LOCKED || lock_type == TL_WRITE_SKIP_LOCKED;
  if (writes && disk_is_short_of(thd)) return HA_ERR_DISK_FULL;
  if (writes)
    row_lock_ = RowLock::EXCLUSIVE;
  else if (thd_sql_command(thd) == SQLCOM_SELECT && lock_type == TL_READ)
    row_lock_ = RowLock::NONE;
  else
    row_lock_ = stored_row_lock_;
  return enter_statement(thd, writes);
}

void ha_tidesdb::init_table_handle_for_HANDLER() {
  row_lock_ = stored_row_lock_ = RowLock::NONE;
  skip_locked_ = false;
  keep_position_ = true;
}

int ha_tidesdb::reset() {
  ds_mrr_.dsmrr_close();
  entries_only_ = false;
  for (const CursorHandle &cursor : cursors_)
    if (cursor) tidesdb_cursor_reset(cursor.get());
  if (row_cursor_) tidesdb_cursor_reset(row_cursor_.get());
  for (const EntryBuffers &entry : entries_)
    if (entry.cursor) tidesdb_cursor_reset(entry.cursor.get());
  if (position_ == Position::CURSOR) position_ = keep_position_ ? Position::ANCHOR : Position::NONE;
  locked_by_ = entry_locked_by_ = nullptr;
  peeked_ = relocking_ = semi_consistent_ = false;
  skip_locked_ = false;
  ignore_duplicates_ = false;
  columns_chosen_ = false;
  return 0;
}

int ha_tidesdb::extra(ha_extra_function operation) {
  switch (operation) {
    case HA_EXTRA_IGNORE_DUP_KEY:
      ignore_duplicates_ = true;
      break;
    case HA_EXTRA_NO_IGNORE_DUP_KEY:
      ignore_duplicates_ = false;
      break;
    case HA_EXTRA_KEYREAD:
    case HA_EXTRA_NO_KEYREAD:
      entries_only_ = operation == HA_EXTRA_KEYREAD;
      columns_chosen_ = false;
      break;
    case HA_EXTRA_PREPARE_FOR_ALTER_TABLE: /* ALTER by copy, with IGNORE too */
    case HA_EXTRA_BEGIN_ALTER_COPY:        /* and CREATE TABLE ... SELECT */
      if (bulk_ || is_sequence()) break;
      bulk_.reset(new (std::nothrow) BulkLoad(this));
      return bulk_ ? bulk_->begin() : HA_ERR_OUT_OF_MEM;
    case HA_EXTRA_END_ALTER_COPY:
      if (bulk_) {
        const int error = bulk_->finish();
        bulk_.reset();
        return error;
      }
      break;
    case HA_EXTRA_ABORT_ALTER_COPY:
      bulk_.reset();
      break;
    default:
      break;
  }
  return 0;
}

void ha_tidesdb::column_bitmaps_signal() { columns_chosen_ = false; }

int ha_tidesdb::lock_table(int mode) {
  if (locks_of_ != session_->transaction_number()) {
    locks_of_ = session_->transaction_number();
    table_locks_ = 0;
  }
  constexpr uint IS = 1 << TIDESDB_LOCK_INTENT_SHARED, IX = 1 << TIDESDB_LOCK_INTENT_EXCLUSIVE,
                 S = 1 << TIDESDB_LOCK_SHARED, X = 1 << TIDESDB_LOCK_EXCLUSIVE;
  static constexpr uint enough[] = {IS | IX | S | X, IX | X, S | X, X};
  if (table_locks_ & enough[mode]) return 0;
  const int status = tidesdb_lock_table(session_->txn(), open_table_->primary(), mode);
  if (status != TIDESDB_OK) return fail(status);
  table_locks_ |= 1U << mode;
  return 0;
}

/*
  Locks a key that no row or entry has, to the transaction's end. A restart locks what was written: a
  transaction that XA PREPARE may leave to one deletes what is not there.
*/
int ha_tidesdb::lock_key(tidesdb_family *family, Slice key) {
  tidesdb_txn *txn = session_->txn();
  int status = tidesdb_lock_key(txn, family, key.data, key.size);
  if (status == TIDESDB_OK && table->in_use->transaction->xid_state.is_explicit_XA()) {
    const tidesdb_op deletion{family, key, {nullptr, 0}, TIDESDB_DELETE, TIDESDB_OP_NEUTRAL, 0};
    size_t failed = 0;
    status = tidesdb_write(txn, &deletion, 1, &failed);
  }
  return status == TIDESDB_OK ? 0 : fail(status);
}

bool ha_tidesdb::is_long_unique(uint index) const {
  return index < table_share->keys && table->key_info[index].algorithm == HA_KEY_ALG_LONG_HASH;
}

/*
  The server itself checks UNIQUE over long columns (the index is on a hash of them) and WITHOUT OVERLAPS: it
  reads the index before it writes the row. Two transactions must not do so for one hash, or for one value of
  the columns before the period, at a time: the first locks that, the second waits for the first one's end.
*/
int ha_tidesdb::lock_for_check(const uchar *key, key_part_map map, ha_rkey_function find) {
  if (row_lock_ != RowLock::EXCLUSIVE || reads_latest()) return 0;
  const KEY &info = table->key_info[scan_index_];
  tidesdb_family *family = scans_rows() ? open_table_->primary() : open_table_->index(scan_index_);
  if (is_long_unique(scan_index_)) return lock_key(family, search_.slice());
  const uint parts = info.user_defined_key_parts;
  if (!info.without_overlaps || find != HA_READ_AFTER_KEY || map != make_prev_keypart_map(parts - 1))
    return 0;
  const KeyCodec &codec = scans_rows() ? *primary_codec_ : *index_codecs_[scan_index_];
  entry_key_.clear();
  codec.append_search(key, make_prev_keypart_map(parts - 2), &entry_key_);
  return lock_key(family, entry_key_.slice());
}

tidesdb_txn *ha_tidesdb::reading_txn() const { return bulk_ ? bulk_->txn() : session_->txn(); }

int ha_tidesdb::lock_for_read() {
  if (reads_latest()) return 0;
  switch (row_lock_) {
    case RowLock::NONE:
      return serializable_read_ ? lock_table(TIDESDB_LOCK_INTENT_SHARED) : 0;
    case RowLock::SHARED:
      return lock_table(TIDESDB_LOCK_INTENT_SHARED);
    case RowLock::EXCLUSIVE:
      return lock_table(TIDESDB_LOCK_INTENT_EXCLUSIVE);
  }
  return 0;
}

int ha_tidesdb::read_mode() const {
  if (reads_latest()) return TIDESDB_READ_LATEST;
  int mode = TIDESDB_READ_SNAPSHOT;
  switch (row_lock_) {
    case RowLock::NONE:
      return serializable_read_ ? TIDESDB_READ_SHARED : TIDESDB_READ_SNAPSHOT;
    case RowLock::SHARED:
      mode = TIDESDB_READ_SHARED;
      break;
    case RowLock::EXCLUSIVE:
      mode = TIDESDB_READ_EXCLUSIVE;
      break;
  }
  if (skip_locked_)
    mode |= TIDESDB_READ_SKIP_LOCKED;
  else if (semi_consistent_ && !point_ && !relocking_)
    mode |= TIDESDB_READ_PEEK_LOCKED;
  return mode;
}

int ha_tidesdb::entry_mode() const {
  if (reads_latest()) return TIDESDB_READ_LATEST;
  if (row_lock_ == RowLock::NONE && !serializable_read_) return TIDESDB_READ_SNAPSHOT;
  /* Nobody adds an entry while the hash is locked (lock_for_check). */
  if (row_lock_ == RowLock::EXCLUSIVE && is_long_unique(scan_index_)) return TIDESDB_READ_LATEST;
  const bool alone = index_codecs_[scan_index_]->is_unique() && !semi_consistent_;
  return alone ? read_mode() : TIDESDB_READ_GAP | (skip_locked_ ? TIDESDB_READ_SKIP_LOCKED : 0);
}

void ha_tidesdb::unlock_row() {
  if (peeked_) { /* nothing was locked */
    peeked_ = false;
    return;
  }
  if (session_->isolation() > TIDESDB_READ_COMMITTED) return;
  for (tidesdb_cursor **cursor : {&locked_by_, &entry_locked_by_}) {
    if (*cursor) tidesdb_cursor_unlock_row(*cursor, session_->txn());
    *cursor = nullptr;
  }
}

/* UPDATE at READ COMMITTED (the server does not ask in DELETE): a row that another has locked and whose
   committed version does not match is passed over without a wait. */
void ha_tidesdb::try_semi_consistent_read(bool yes) {
  semi_consistent_ = yes && session_ && session_->isolation() <= TIDESDB_READ_COMMITTED &&
                     row_lock_ == RowLock::EXCLUSIVE && !skip_locked_;
  peeked_ = relocking_ = false;
}
