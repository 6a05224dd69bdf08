/*
  Insert, update, delete: a row and all its index entries go to the engine as one call, all or none.

  Keys that decide uniqueness (the primary key, entries of unique indexes without NULL) are locked before
  they are checked and written, in key order, the row first. Other new entries are locked as well: that
  keeps them out of ranges that others have read. Other old entries need no lock: who reads them under a
  lock reads the row, which is locked.

  Each says what it does to the number of rows (or entries): what is put over a live one is neutral. The
  engine's count is the sum.
*/
#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "cluster/local_changes.h"
#include "handler/bulk_load.h"
#include "server.h"
#include "store/store.h"
#include "sysvars.h"

using namespace tidesdb;

void ha_tidesdb::encode_primary(const uchar *record, ByteBuffer *key) {
  key->clear();
  if (has_primary_key())
    primary_codec_->append_columns(record, key);
  else
    key->append(last_row_.number, HIDDEN_KEY_SIZE);
}

int ha_tidesdb::next_row_number() {
  uint64_t number;
  const int status =
      tidesdb_counter_take(open_table_->primary(), COUNTER_ROW_NUMBER, 1, 1, 1, ~0ULL, &number);
  if (status != TIDESDB_OK) return fail(status);
  store_hidden_key(last_row_.number, number);
  return 0;
}

/* Rows of a temporary table are nobody else's, and a transaction may have a snapshot that is older than they.
 */
void ha_tidesdb::add_write(tidesdb_family *family, Slice key, Slice value, int kind, bool lock, uint index,
                           bool replaces) {
  if (is_temporary_) {
    lock = false;
    if (kind == TIDESDB_PUT || kind == TIDESDB_PUT_ENTRY) kind = TIDESDB_KEEP_ENTRY;
  }
  const int flags = (lock ? TIDESDB_OP_LOCK : 0) | (replaces ? TIDESDB_OP_NEUTRAL : 0);
  writer_.add(family, key, value, kind, flags, index);
}

void ha_tidesdb::log_change(Slice primary_key) {
  writer_.log(open_table_->row_log(), primary_key, table_share->primary_key);
}

int ha_tidesdb::apply_writes() {
  if (entries_may_be_cut_short()) return HA_ERR_ABORTED_BY_USER;
  size_t failed = 0;
  const int status = writer_.apply(session_->txn(), &failed);
  if (status == TIDESDB_OK) {
    note_changed_table();
    if (unlikely(handler_stats != nullptr)) handler_stats->pages_updated++;
    return 0;
  }
  if (status == TIDESDB_DUPLICATE) {
    writer_.note_duplicate(failed);
    session_->set_duplicate_key(writer_.index_of(failed));
    return HA_ERR_FOUND_DUPP_KEY;
  }
  if (status == TIDESDB_UNCHANGED) return HA_ERR_RECORD_IS_THE_SAME;
  return fail(status);
}

/* Once for each transaction, unless a rollback takes it back. */
void ha_tidesdb::note_changed_table() {
  ChangedTables &changed = session_->changed_tables();
  if (noted_change_ == changed.epoch()) return;
  changed.add(open_table_->update_time());
  noted_change_ = changed.epoch();
}

/*
  The server hands out numbers of a sequence from memory, and stores here how far it may go. That is not part
  of the statement's transaction, which may be rolled back, nor of its binary log's group: it is durable, as
  the sync mode says, before anybody sees a number.
*/
int ha_tidesdb::write_sequence(const uchar *record, bool replaces) {
  if (const int error = ensure_session(false)) return error;
  TxnHandle txn;
  int status = create_txn(plugin.db, &txn);
  if (status != TIDESDB_OK) return fail(status);
  tidesdb_txn_set_cookie(txn.get(), table->in_use);
  store_hidden_key(last_row_.number, 1);
  encode_primary(record, &writer_.new_primary);
  writer_.begin();
  writer_.encode(*row_codec_, record, 0);
  status = tidesdb_txn_begin(txn.get(), TIDESDB_READ_COMMITTED, TIDESDB_TXN_UNLOCKED);
  if (status != TIDESDB_OK) return fail(status);
  status = tidesdb_txn_statement_begin(txn.get(), 1, sysvars::backpressure_wait_timeout_ms(table->in_use));
  const tidesdb_op op{open_table_->primary(),
                      writer_.new_primary.slice(),
                      writer_.row_value.slice(),
                      TIDESDB_PUT,
                      static_cast<uint8_t>(replaces ? TIDESDB_OP_NEUTRAL : 0),
                      0,
                      0};
  size_t failed = 0;
  if (status == TIDESDB_OK) status = tidesdb_write(txn.get(), &op, 1, &failed);
  if (status == TIDESDB_OK) {
    tidesdb_txn_statement_end(txn.get());
    status = tidesdb_txn_commit(txn.get());
    if (status == TIDESDB_OK) set_update_time(open_table_->update_time());
  } else {
    tidesdb_txn_rollback(txn.get());
  }
  return status == TIDESDB_OK ? 0 : fail(status);
}

/*
  An ALTER that copies the table beside its writers repeats their changes in the order in which they commit.
  Locks are kept to the commit's end, so that one of two changes of a row comes before the other there too. An
  optimistic transaction has none.
*/
int ha_tidesdb::begin_change() {
  if (const int error = ensure_session(true)) return error;
  if (is_copied_beside_writers(table_share) && session_->optimistic())
    return session_->refuse(
        "an ALTER copies the table, and an optimistic transaction cannot change it meanwhile; repeat the "
        "statement when that has ended, or set tidesdb_pessimistic_locking=ON");
  return lock_table(TIDESDB_LOCK_INTENT_EXCLUSIVE);
}

int ha_tidesdb::refuse_rows_in_cluster() {
  if (!WSREP_PROVIDER_EXISTS_) return 0;
  return cluster::refuse_rows(session_, table, open_table_->name(), rows_for_cluster(ha_thd()));
}

cluster::RowsOf ha_tidesdb::rows_for_cluster(THD *thd) const {
  if (is_sequence()) return cluster::RowsOf::SEQUENCE;
  return open_table_->rows_expire() || sysvars::ttl(thd) != 0 ? cluster::RowsOf::EXPIRING_TABLE
                                                              : cluster::RowsOf::PLAIN_TABLE;
}

int ha_tidesdb::write_row(const uchar *record) {
  const int error = with_keys(write_any_row(record), nullptr, record);
  if (error != HA_ERR_FOUND_DUPP_KEY || thd_sql_command(ha_thd()) != SQLCOM_REPAIR) return error;
  /* The copy of a partitioned table asks no partition whether a duplicate ends it (is_fatal_error). */
  print_error(error, MYF(0));
  return ERROR_IS_GIVEN;
}

int ha_tidesdb::write_any_row(const uchar *record) {
  if (const int error = refuse_rows_in_cluster()) return error;
  if (is_sequence()) return write_sequence(record, false);
  if (table->next_number_field && record == table->record[0])
    if (const int error = update_auto_increment()) return error;
  if (const int error = raise_auto_increment(record)) return error;
  if (const int error = choose_expiry(record)) return error;
  if (!bulk_) return write_row_now(record);
  if (const int error = check_unchecked_keys(nullptr, record, {nullptr, 0})) return error;
  return bulk_->write(record);
}

int ha_tidesdb::write_row_now(const uchar *record) {
  if (const int error = begin_change()) return error;
  if (const int error = check_unchecked_keys(nullptr, record, {nullptr, 0})) return error;
  if (!has_primary_key())
    if (const int error = next_row_number()) return error;
  if (unique_lookups_ == UniqueLookups::UNDECIDED)
    if (const int error = decide_unique_lookups()) return error;
  if (inserts_.words_begin) begin_putting_words_off();
  encode_primary(record, &writer_.new_primary);
  writer_.begin();
  writer_.encode(*row_codec_, record, second_part_threshold());
  add_write(open_table_->primary(), writer_.new_primary.slice(), writer_.row_value.slice(),
            has_primary_key() ? insertion(table_share->keys, writer_.new_primary.slice()) : TIDESDB_PUT, true,
            table_share->primary_key);
  insert_entries(record);
  log_change(writer_.new_primary.slice());
  const int error = apply_checked(nullptr, record);
  return error == 0 && !put_off_words_.empty() ? put_off_words(record) : error;
}

int ha_tidesdb::update_row(const uchar *old_record, const uchar *new_record) {
  if (const int error = refuse_rows_in_cluster()) return error;
  if (is_sequence()) return write_sequence(new_record, true);
  if (lacked_rests_)
    if (const int error = fill_unset_blobs(old_record, new_record)) return error;
  bool unread = false;
  const bool may_be_same = is_same_row(old_record, new_record, &unread);
  if (may_be_same && !unread) return HA_ERR_RECORD_IS_THE_SAME;
  if (const int error = begin_change()) return error;
  if (table->found_next_number_field &&
      bitmap_is_set(table->write_set, table->found_next_number_field->field_index))
    if (const int error = raise_auto_increment(new_record)) return error;
  if (const int error = choose_expiry(new_record)) return error;
  const RowChange change{last_row_.expiry, writer_.expiry, session_->passed_snapshot()};
  unique_lookups_ = UniqueLookups::MADE; /* inserted_keys_ does not know the keys of this row */

  encode_primary(old_record, &writer_.old_primary);
  if (const int error = check_unchecked_keys(old_record, new_record, writer_.old_primary.slice()))
    return error;
  bool moves = false;
  const bool may_move = has_primary_key() && may_change(table_share->primary_key, old_record, new_record);
  if (may_move) {
    encode_primary(new_record, &writer_.new_primary);
    moves = !same_bytes(writer_.old_primary.slice(), writer_.new_primary.slice());
  }
  const Slice old_key = writer_.old_primary.slice(), new_key = moves ? writer_.new_primary.slice() : old_key;
  writer_.begin();
  if (const int error = encode_update(old_record, new_record, old_key, moves, may_be_same)) return error;
  if (moves) {
    add_write(open_table_->primary(), old_key, {nullptr, 0}, TIDESDB_DELETE, true, table_share->primary_key);
    add_write(open_table_->primary(), new_key, writer_.row_value.slice(), TIDESDB_INSERT, true,
              table_share->primary_key);
  } else {
    add_write(open_table_->primary(), new_key, writer_.row_value.slice(), TIDESDB_PUT, true,
              table_share->primary_key, true);
  }
  if (const int error = update_entries(change, old_record, old_key, new_record, new_key, may_move))
    return error;
  log_change(old_key);
  if (moves) log_change(new_key);
  const int error = apply_checked(old_record, new_record, moves);
  return with_keys(
      error == HA_ERR_RECORD_IS_THE_SAME ? apply_if_other(old_record, new_record, old_key) : error,
      old_record, new_record);
}

int ha_tidesdb::delete_row(const uchar *record) {
  if (const int error = refuse_rows_in_cluster()) return error;
  if (const int error = begin_change()) return error;
  last_row_.forget();
  encode_primary(record, &writer_.old_primary);
  writer_.begin();
  add_write(open_table_->primary(), writer_.old_primary.slice(), {nullptr, 0},
            sysvars::single_delete_primary(table->in_use) ? TIDESDB_SINGLE_DELETE : TIDESDB_DELETE, true,
            table_share->primary_key);
  if (const int error = delete_entries(record)) return error;
  log_change(writer_.old_primary.slice());
  return with_keys(apply_checked(record, nullptr), record, nullptr);
}
