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

#include "cluster/local_changes.h"
#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "errors.h"
#include "handler/bulk_load.h"
#include "search/full_text_kind.h"
#include "server.h"
#include "store/store.h"
#include "sysvars.h"

using namespace tidesdb;

THR_LOCK_DATA **ha_tidesdb::store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) {
  const int command = thd_sql_command(thd);
  /* DROP comes here with handlers that another connection is using. */
  if (lock_type != TL_IGNORE && command != SQLCOM_DROP_TABLE && command != SQLCOM_DROP_SEQUENCE)
    lock_choice_.choose(thd, lock_type);
  return to;
}

int ha_tidesdb::enter_statement(THD *thd, bool may_write) {
  session_ = Session::get(thd);
  if (!session_) return HA_ERR_OUT_OF_MEM;
  if (const int error =
          cluster::refuse_statement(session_, table, open_table_->name(), may_write, rows_for_cluster(thd)))
    return error;
  if (truncations_ != open_table_->truncations()) {
    leave_families();
    truncations_ = open_table_->truncations();
  }
  const int command = thd_sql_command(thd);
  if (const int error = enter_virtual_columns(thd, may_write)) return error;
  lifetimes_.copy = may_copy_rows(command) ? CopyRole::SOURCE : CopyRole::NONE;
  unique_lookups_ = UniqueLookups::UNDECIDED;
  /* A copy is of one moment, the statement's; what others commit meanwhile is brought into it then, and is
     newer than that. */
  const int of_table = open_table_->isolation_level();
  const int level = lifetimes_.copies_rows() ? TIDESDB_READ_COMMITTED : Session::level_for(thd, of_table);
  if (const int error = session_->enter_statement(level, may_write)) return error;
  if (may_write || command != SQLCOM_SELECT) enter_expiry(thd);
  if (may_write)
    if (const int error = enter_foreign_keys()) return error;
  scan_.outlives_statement = command == SQLCOM_HA_READ;
  changes_rows_ = may_write && command != SQLCOM_SELECT;
  /* SERIALIZABLE of the session, or of this table at REPEATABLE READ. */
  const bool serializable = session_->isolation() == TIDESDB_SERIALIZABLE || level == TIDESDB_SERIALIZABLE;
  lock_choice_.serializable_read = serializable && lock_choice_.row == RowLock::NONE &&
                                   command == SQLCOM_SELECT &&
                                   thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
  offer_rowid_filters();
  /* A copy has one snapshot for all partitions, which the first of them takes. */
  return table->part_info && is_shut_for_copy(may_write) ? watch_source_of_copy() : 0;
}

/*
  Whether the server has shut the table to writers, as it does before each copy, and only reads it.
  Administration of partitions (ANALYZE, CHECK, OPTIMIZE) copies nothing and lets them in; TRUNCATE and the
  first step of REPAIR write.
*/
bool ha_tidesdb::is_shut_for_copy(bool may_write) const {
  return !may_write && table->mdl_ticket && table->mdl_ticket->get_type() >= MDL_SHARED_NO_WRITE;
}

/*
  A table that is copied to take its place by another (ALTER by copy): a prepared transaction whose connection
  is gone would commit into the table that the copy replaces, and the server's locks do not wait for it. Now
  there is none, and while writers are kept out there will be none; where they are let in, the watch tells.
*/
int ha_tidesdb::watch_source_of_copy() {
  if (lifetimes_.copy != CopyRole::SOURCE || is_temporary_) return 0;
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

int ha_tidesdb::note_short_disk(THD *thd) const {
  note_once(thd, ER_DISK_FULL,
            "TidesDB: fewer bytes are free for the store than MIN_DISK_SPACE=" +
                std::to_string(open_table_->min_disk_space()) +
                " of the table (ALTER TABLE ... MIN_DISK_SPACE=n)");
  return HA_ERR_DISK_FULL;
}

int ha_tidesdb::external_lock(THD *thd, int lock_type) {
  if (lock_type == F_RDLCK && thd_sql_command(thd) == SQLCOM_FLUSH && (thd->lex->type & REFRESH_FOR_EXPORT))
    return refuse_own_files();
  if (lock_type == F_UNLCK) {
    scan_.leave_statement();
    rows_of_statement_.end(thd->thread_id, counted_reads(*this), counted_changes(*this));
    const int error = finish_copy();
    session_ = nullptr;
    return error;
  }
  rows_of_statement_.begin(counted_reads(*this), counted_changes(*this));
  if (lock_type == F_WRLCK) lock_choice_.choose_both(RowLock::EXCLUSIVE);
  if (lock_type == F_WRLCK && disk_is_short_of(thd)) return note_short_disk(thd);
  if (const int error = enter_statement(thd, lock_type == F_WRLCK)) return error;
  return lock_type == F_WRLCK ? append_table_keys(thd) : 0;
}

int ha_tidesdb::start_stmt(THD *thd, thr_lock_type lock_type) {
  const bool writes = lock_type >= TL_FIRST_WRITE;
  /* In a function this is not its first statement on the table: reset() has been here. */
  lock_choice_.choose_skipping(lock_type);
  if (writes && disk_is_short_of(thd)) return note_short_disk(thd);
  if (writes)
    lock_choice_.row = RowLock::EXCLUSIVE;
  else if (thd_sql_command(thd) == SQLCOM_SELECT && lock_type == TL_READ)
    lock_choice_.row = RowLock::NONE;
  else
    lock_choice_.row = lock_choice_.stored;
  return enter_statement(thd, writes);
}

void ha_tidesdb::init_table_handle_for_HANDLER() {
  lock_choice_.choose_both(RowLock::NONE);
  lock_choice_.skip_locked = false;
  scan_.outlives_statement = true;
}

int ha_tidesdb::reset() {
  ds_mrr_.dsmrr_close();
  scan_.entries_only = false;
  cursors_.reset();
  if (row_reader_) row_reader_->end_statement();
  if (whole_reader_) whole_reader_->end_statement();
  writer_.end_statement();
  if (!full_text_kinds_.empty()) {
    for (const FullTextKind *kind : full_text_kinds_) kind->release();
    search_figures_.clear();
    match_scan_.forget();
  }
  buffers_.end_statement();
  if (row_checks_) row_checks_->reset();
  if (parent_keys_) parent_keys_->reset();
  inserts_ = {};
  put_off_words_.clear();
  for (const auto &[number, child] : child_tables_)
    if (child) child->end();
  if (other_rows_) other_rows_->reset();
  scan_.leave_statement();
  scan_.locked.forget();
  scan_.peek = Peek::NONE;
  lock_choice_.semi_consistent = false;
  lock_choice_.skip_locked = false;
  scan_.columns_chosen = false;
  lacked_rests_ = false;
  last_row_.forget();
  hidden_.assign(hidden_.size(), false);
  session_ = nullptr;
  return 0;
}

int ha_tidesdb::extra(ha_extra_function operation) {
  switch (operation) {
    case HA_EXTRA_KEYREAD:
    case HA_EXTRA_NO_KEYREAD:
      scan_.entries_only = operation == HA_EXTRA_KEYREAD;
      scan_.columns_chosen = false;
      break;
    case HA_EXTRA_IGNORE_DUP_KEY:
    case HA_EXTRA_NO_IGNORE_DUP_KEY:
      inserts_.ignores_duplicates = operation == HA_EXTRA_IGNORE_DUP_KEY;
      /* The last call of a copy before its commit: one with IGNORE has no END_COPY. */
      if (operation == HA_EXTRA_NO_IGNORE_DUP_KEY) return finish_copy();
      break;
    case HA_EXTRA_PREPARE_FOR_ALTER_TABLE: /* ALTER by copy, with IGNORE too */
    case EXTRA_BEGIN_COPY:                 /* and CREATE TABLE ... SELECT */
      if (bulk_ || is_sequence()) break;
      bulk_.reset(new (std::nothrow) BulkLoad(this));
      return bulk_ ? bulk_->begin() : HA_ERR_OUT_OF_MEM;
    case EXTRA_END_COPY:
      return finish_copy();
    case EXTRA_ABORT_COPY:
      bulk_.reset();
      break;
    default:
      break;
  }
  return 0;
}

/*
  The server looks at the answer of neither a partition nor of a copy with IGNORE: the commit fails, too.
  After an error of the statement the server drops the table, and nothing needs to be durable.
*/
int ha_tidesdb::finish_copy() {
  if (!bulk_) return 0;
  THD *thd = table->in_use;
  const int error = thd->is_error() ? 0 : bulk_->finish();
  bulk_.reset();
  if (error != 0)
    if (Session *session = Session::find(thd)) session->note_failed_copy(error, tidesdb_last_error());
  return error;
}

void ha_tidesdb::column_bitmaps_signal() { scan_.columns_chosen = false; }

int ha_tidesdb::lock_table(int mode) {
  if (table_locks_.cover(session_->transaction_number(), mode)) return 0;
  const int status = tidesdb_lock_table(session_->txn(), open_table_->primary(), mode);
  if (status != TIDESDB_OK) return fail(status);
  table_locks_.add(mode);
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
    const tidesdb_op deletion{family, key, {nullptr, 0}, TIDESDB_DELETE, TIDESDB_OP_NEUTRAL, 0, 0};
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
  if (lock_choice_.row != RowLock::EXCLUSIVE || reads_latest()) return 0;
  const KEY &info = table->key_info[scan_.index];
  tidesdb_family *family = scans_rows() ? open_table_->primary() : open_table_->index(scan_.index);
  if (is_long_unique(scan_.index)) return lock_key(family, scan_.search.slice());
  const uint parts = info.user_defined_key_parts;
  if (!info.without_overlaps || find != HA_READ_AFTER_KEY || map != make_prev_keypart_map(parts - 1))
    return 0;
  const KeyCodec &codec = scans_rows() ? *primary_codec_ : *index_codecs_[scan_.index];
  buffers_.entry_key.clear();
  codec.append_search(key, make_prev_keypart_map(parts - 2), &buffers_.entry_key);
  return lock_key(family, buffers_.entry_key.slice());
}

tidesdb_txn *ha_tidesdb::reading_txn() const { return bulk_ ? bulk_->reading_txn() : session_->txn(); }

int ha_tidesdb::lock_for_read() {
  if (reads_latest()) return 0;
  switch (lock_choice_.row) {
    case RowLock::NONE:
      return lock_choice_.serializable_read ? lock_table(TIDESDB_LOCK_INTENT_SHARED) : 0;
    case RowLock::SHARED:
      return lock_table(TIDESDB_LOCK_INTENT_SHARED);
    case RowLock::EXCLUSIVE:
      return lock_table(TIDESDB_LOCK_INTENT_EXCLUSIVE);
  }
  return 0;
}

int ha_tidesdb::read_mode() const {
  if (reads_latest()) return TIDESDB_READ_LATEST;
  return lock_choice_.row_mode(scan_);
}

int ha_tidesdb::entry_mode() const {
  if (reads_latest()) return TIDESDB_READ_LATEST;
  if (lock_choice_.locks_nothing()) return TIDESDB_READ_SNAPSHOT;
  /* Nobody adds an entry while the hash is locked (lock_for_check). */
  if (lock_choice_.row == RowLock::EXCLUSIVE && is_long_unique(scan_.index)) return TIDESDB_READ_LATEST;
  const bool alone = index_kinds_[scan_.index]->is_unique() && !lock_choice_.semi_consistent;
  return alone ? lock_choice_.row_mode(scan_) : lock_choice_.gap_mode();
}

void ha_tidesdb::unlock_row() {
  if (scan_.peek == Peek::PEEKED) { /* nothing was locked */
    scan_.peek = Peek::NONE;
    return;
  }
  if (!session_ || session_->isolation() > TIDESDB_READ_COMMITTED) return;
  scan_.locked.give_back(session_->txn());
}

/* UPDATE at READ COMMITTED (the server does not ask in DELETE): a row that another has locked and whose
   committed version does not match is passed over without a wait. */
void ha_tidesdb::try_semi_consistent_read(bool yes) {
  lock_choice_.semi_consistent = yes && session_ && session_->isolation() <= TIDESDB_READ_COMMITTED &&
                                 lock_choice_.row == RowLock::EXCLUSIVE && !lock_choice_.skip_locked;
  scan_.peek = Peek::NONE;
}
