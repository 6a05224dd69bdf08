/*
  Positions and reading rows.

  A scan stands on the current row of its cursor, or after a key (Scan::saved_key): after a point read, and
  between the statements of HANDLER. Rows of a secondary index are found by their entry and read by their
  primary key; with a covering index the entry is enough. A locking read takes entries as they are now,
  locks the row, reads it, and skips it when the entry does not belong to it any more.

  A semi-consistent read returns a row that another has locked as it is committed (Scan::Peek). The server
  then either gives it back with unlock_row(), or asks for the next row, which is this one again, locked.
*/
#include "handler/ha_tidesdb.h"

#include <algorithm>

#include "log.h"
#include "sql_class.h"
#include "sql_lex.h"

using namespace tidesdb;

namespace {

/* Of return_current_row() and read_by_key(): this row is not part of the result, go on. */
constexpr int SKIP_ROW = -2;

/* The first key after all that start with `prefix`; false: there is none. */
bool successor(ByteBuffer *prefix) {
  size_t size = prefix->size();
  while (size > 0 && prefix->data()[size - 1] == 0xff) size--;
  if (size == 0) return false;
  prefix->truncate(size);
  prefix->data()[size - 1]++;
  return true;
}

/*
  Rows that the statement takes of a scan, as its LIMIT says; 0: nobody knows. No promise: a condition may
  pass over rows, and a sort needs all. Groups read one row here and one there, and of each partition a part
  is taken.
*/
uint16_t rows_by_limit(const TABLE *table) {
  const TABLE_LIST *named = table->pos_in_table_list;
  SELECT_LEX *block = named && !table->part_info ? named->select_lex : nullptr;
  if (!block || block->leaf_tables.elements != 1) return 0;
  if (block->with_sum_func || block->group_list.elements || (block->options & SELECT_DISTINCT)) return 0;
  const SELECT_LEX_UNIT *unit = block->master_unit();
  const ha_rows limit = unit ? unit->lim.get_select_limit() : HA_POS_ERROR;
  return limit > UINT16_MAX ? 0 : static_cast<uint16_t>(limit);
}

}  // namespace

/* --- cursors --- */

int ha_tidesdb::cursor_of(uint index, tidesdb_cursor **cursor) {
  const bool rows = is_primary(index) || index == MAX_KEY;
  CursorHandle &handle = cursors_.scans[rows ? table_share->keys : index];
  if (!handle) {
    const int status = open_cursor(rows ? open_table_->primary() : open_table_->index(index), &handle);
    if (status != TIDESDB_OK) return status;
    cursors_.count(handle.get());
  }
  cursors_.count_for(handler_stats);
  *cursor = handle.get();
  return TIDESDB_OK;
}

int ha_tidesdb::row_cursor(tidesdb_cursor **cursor) {
  if (!cursors_.rows) {
    const int status = open_cursor(open_table_->primary(), &cursors_.rows);
    if (status != TIDESDB_OK) return fail(status);
    cursors_.count(cursors_.rows.get());
  }
  cursors_.count_for(handler_stats);
  *cursor = cursors_.rows.get();
  return 0;
}

/* Entry and row are read as they are now, one after the other, so that they may not fit. */
bool ha_tidesdb::reads_current_entries() const {
  if (reads_latest()) return false;
  return !lock_choice_.locks_nothing() || session_->isolation() == TIDESDB_READ_UNCOMMITTED;
}

/*
  Plain reads of a transaction that has taken versions newer than its snapshot
  (tidesdb_snapshot_conflicts=OFF): a row of its own has its entries among its own changes, all of them
  (update_row), and the snapshot may have others that lead to it. Those of a unique index may stand under its
  own: one row's key is another row's now.
*/
bool ha_tidesdb::reads_over_newer() const {
  return lock_choice_.locks_nothing() && !reads_latest() && session_->passed_snapshot();
}

/*
  With keyread on, the server leaves the index's virtual columns to us; so does its handler for partitions,
  which compares what it has read from each in buffers of its own.
*/
bool ha_tidesdb::computes_virtual_columns() { return keyread_enabled() || table->part_info; }

/*
  Before each first read of a scan.

  The server may read in a partition that the statement has not locked, in search of equal rows: it gets all
  of a table's partitions ready for the first INSERT (ha_partition::check_insert_or_replace_autoincrement). No
  row of the statement can go there, so that there is none for it.
*/
int ha_tidesdb::begin_read() {
  if (!session_) {
    if (is_left_out_of_statement()) return HA_ERR_END_OF_FILE;
    if (const int error = ensure_session(get_lock_type() == F_WRLCK)) return error;
  }
  return choose_columns();
}

int ha_tidesdb::choose_columns() {
  if (scan_.columns_chosen) return 0;
  const bool by_entry = scan_.index != MAX_KEY && !is_primary(scan_.index);
  const bool computes = by_entry && computes_virtual_columns() && virtual_columns_.index_has_any(scan_.index);
  scan_.whole_rows = changes_rows_ || checksums_ || computes || (by_entry && entries_may_not_fit());
  if (!keyread_enabled()) virtual_columns_.add_sources(table->read_set);
  /* MATCH finds a row's score by its key, also of one that was read before the search. */
  if (table->fulltext_searched && has_primary_key())
    for (const KeyPart &part : primary_codec_->parts()) bitmap_set_bit(table->read_set, part.field_index);
  if (!row_reader_->choose(scan_.whole_rows ? nullptr : table->read_set)) return HA_ERR_OUT_OF_MEM;
  scan_.first_parts = may_lack_blobs();
  scan_.columns_chosen = true;
  return 0;
}

int ha_tidesdb::seek(uchar where, Slice key, size_t prefix) {
  const bool rows = scans_rows();
  if (const int status = cursor_of(scan_.index, &scan_.cursor)) return status;
  tidesdb_seek seek;
  memset(&seek, 0, sizeof(seek));
  seek.key = key.data;
  seek.key_size = key.size;
  seek.prefix_size = prefix;
  if (scan_.end.bound) {
    seek.bound = scan_.end.bound->data();
    seek.bound_size = scan_.end.bound->size();
  }
  seek.where = where;
  if (scan_.peek == Peek::PEEKED) scan_.peek = Peek::RELOCKING;
  int mode = rows ? read_mode() : entry_mode();
  scan_.both_versions = !rows && reads_over_newer() && index_kinds_[scan_.index]->is_unique();
  if (scan_.both_versions) {
    mode |= TIDESDB_READ_BOTH_VERSIONS;
    scan_.given.clear();
  }
  scan_.placed_for_first_parts = rows && scan_.first_parts;
  if (scan_.placed_for_first_parts) mode |= TIDESDB_READ_FIRST_PART;
  seek.mode = static_cast<uint8_t>(mode);
  seek.batch_hint = rows_by_limit(table);
  scan_.position = Position::CURSOR;
  scan_.prefix_bounded = prefix != 0;
  scan_.passed.clear();
  note_lock();
  return tidesdb_cursor_seek(scan_.cursor, reading_txn(), &seek);
}

int ha_tidesdb::step(int direction) {
  if (scan_.position == Position::END) {
    if (direction > 0) return TIDESDB_NOT_FOUND;
    /* After the rows of one value, not after all. */
    return scan_.prefix_bounded ? seek(TIDESDB_SEEK_AT_OR_BEFORE, scan_.search.slice(), 0)
                                : seek(TIDESDB_SEEK_LAST, {nullptr, 0}, 0);
  }
  if (scan_.position == Position::START)
    return direction < 0 ? TIDESDB_NOT_FOUND : seek(TIDESDB_SEEK_FIRST, {nullptr, 0}, 0);
  if (scan_.position == Position::ANCHOR)
    return seek(direction > 0 ? TIDESDB_SEEK_AFTER : TIDESDB_SEEK_BEFORE, scan_.saved_key.slice(), 0);
  note_lock();
  if (scan_.peek == Peek::PEEKED) {
    if (scans_rows()) {
      scan_.peek = Peek::NONE;
      return tidesdb_cursor_relock(scan_.cursor, session_->txn());
    }
    scan_.peek = Peek::RELOCKING; /* the cursor stands on its entry still */
    return TIDESDB_OK;
  }
  return tidesdb_cursor_step(scan_.cursor, direction);
}

/* The scan's cursor is about to lock a row or an entry. */
void ha_tidesdb::note_lock() {
  scan_.locked.forget();
  if (lock_choice_.row != RowLock::NONE && !reads_latest())
    (scans_rows() ? scan_.locked.row : scan_.locked.entry) = scan_.cursor;
}

/* --- rows --- */

void ha_tidesdb::remember_row_number(Slice primary_key) {
  if (!has_primary_key() && primary_key.size == HIDDEN_KEY_SIZE)
    memcpy(last_row_.number, primary_key.data, HIDDEN_KEY_SIZE);
}

int ha_tidesdb::undecodable_row(Slice value) const {
  const std::string layout = row_codec_->unknown_layout(value);
  if (layout.empty()) {
    sql_print_error("TidesDB: a row of '%s' cannot be decoded (%zu bytes)", open_table_->name().c_str(),
                    value.size);
    return HA_ERR_CRASHED;
  }
  /* The table is whole: REPAIR would do harm. */
  sql_print_error("TidesDB: table '%s': %s", open_table_->name().c_str(), layout.c_str());
  return session_ ? session_->refuse(layout) : HA_ERR_CRASHED;
}

int ha_tidesdb::read_by_key(Slice primary_key, uchar *buf, int none, int flags) {
  tidesdb_cursor *cursor;
  if (const int error = row_cursor(&cursor)) return error;
  if (lock_choice_.row != RowLock::NONE && !reads_latest()) scan_.locked.row = cursor;
  Slice value;
  if (scan_.first_parts) flags |= TIDESDB_READ_FIRST_PART;
  const int status = tidesdb_cursor_get(cursor, reading_txn(), primary_key.data, primary_key.size,
                                        read_mode() | flags, &value);
  if (status == TIDESDB_SKIPPED && scan_.locked.entry) {
    /* SKIP LOCKED passes over the row: at no level is its entry of use, and the row's holder may want it. */
    tidesdb_cursor_unlock_row(scan_.locked.entry, session_->txn());
    scan_.locked.entry = nullptr;
  }
  if (status == TIDESDB_NOT_FOUND || status == TIDESDB_SKIPPED) return none;
  if (status == TIDESDB_PEEKED)
    scan_.peek = Peek::PEEKED;
  else if (status != TIDESDB_OK)
    return fail(status);
  if (!row_reader_->read(primary_key, value, buf, scan_.first_parts)) return undecodable_row(value);
  note_parts(*row_reader_, primary_key, {value.data + value.size, cursor->place_size});
  remember_row_number(primary_key);
  note_expiry(cursor->expiry);
  if (value.size > LARGE_ROW) tidesdb_cursor_free_value(cursor);
  return 0;
}

/* The server has asked for a BLOB since the scan was placed: the whole row, without a lock of its own. */
int ha_tidesdb::read_whole_row(Slice primary_key, uchar *buf) {
  CursorHandle cursor;
  Slice value;
  const int mode = lock_choice_.locks_nothing() ? read_mode() : TIDESDB_READ_LATEST;
  int status = open_cursor(open_table_->primary(), &cursor);
  if (status == TIDESDB_OK)
    status =
        tidesdb_cursor_get(cursor.get(), reading_txn(), primary_key.data, primary_key.size, mode, &value);
  if (status == TIDESDB_NOT_FOUND) return SKIP_ROW;
  if (status != TIDESDB_OK) return fail(status);
  if (!row_reader_->read(primary_key, value, buf)) return undecodable_row(value);
  note_parts(*row_reader_, primary_key, {value.data + value.size, cursor->place_size});
  return 0;
}

/* The row's own entry with this key, until the next row; nullptr: it has none (any more). */
const EntrySet::Entry *ha_tidesdb::own_entry(const uchar *buf, Slice entry_key, Slice primary_key) {
  make_entries(scan_.index, buf, primary_key, &buffers_.entries);
  return buffers_.entries.find(entry_key);
}

/* Whether the row has this entry, and was not given already: by its own entry under the same key of a unique
   index. */
bool ha_tidesdb::fits_over_newer(Slice entry_key, Slice primary_key, uchar *buf) {
  virtual_columns_.complete(scan_.index, buf);
  if (!own_entry(buf, entry_key, primary_key)) return false;
  if (!scan_.both_versions) return true;
  buffers_.entry_key.assign(entry_key);
  buffers_.entry_key.append(primary_key.data, primary_key.size);
  if (same_bytes(buffers_.entry_key.slice(), scan_.given.slice())) return false;
  scan_.given.assign(buffers_.entry_key.slice());
  return true;
}

/* The row of an entry was locked and has another entry now. What the scan has learned of it, that the one is
   gone, the range over the entry keeps where the level asks for it: no level needs the row's lock, and with
   it workers on one queue would stand in each other's way. */
void ha_tidesdb::give_back_other_row() {
  if (scan_.peek != Peek::PEEKED && scan_.locked.row) {
    tidesdb_cursor_unlock_row(scan_.locked.row, session_->txn());
    scan_.locked.row = nullptr;
  }
  unlock_row();
}

/* Another transaction has taken the entry from its row: the row may have one after it, and a value of a
   unique index may be another row's. An entry that still leads to the same row is passed. */
void ha_tidesdb::look_again(Slice key, Slice primary_key) {
  bool at_key = false;
  if (index_kinds_[scan_.index]->is_unique() && !scan_.point && !lock_choice_.skip_locked) {
    buffers_.entry_key.assign(key);
    buffers_.entry_key.append(primary_key.data, primary_key.size);
    at_key = !same_bytes(buffers_.entry_key.slice(), scan_.passed.slice());
    scan_.passed.assign(buffers_.entry_key.slice());
  }
  tidesdb_cursor_look_again(scan_.cursor, at_key);
}

int ha_tidesdb::return_entry(const tidesdb_row &entry, uchar *buf) {
  const KeyCodec *codec = index_codecs_[scan_.index];
  const Slice key{entry.key, entry.key_size}, value{entry.value, entry.value_size};
  Slice primary_key;
  if (!index_kinds_[scan_.index]->primary_key(key, value, &primary_key)) {
    sql_print_error("TidesDB: an entry of index %u of '%s' cannot be decoded", scan_.index,
                    open_table_->name().c_str());
    return HA_ERR_CRASHED;
  }
  const bool over_newer = reads_over_newer();
  if (over_newer && !scan_.whole_rows) { /* since the scan began, by a function that changed another table */
    if (!row_reader_->choose(nullptr)) return HA_ERR_OUT_OF_MEM;
    scan_.whole_rows = true;
    scan_.first_parts = false;
  }
  const bool entry_is_enough = scan_.entries_only && lock_choice_.locks_nothing() && !over_newer && codec &&
                               codec->is_covering() && (!primary_codec_ || primary_codec_->is_covering());
  const bool has_condition = has_pushed_condition();
  if (codec && (has_condition || entry_is_enough)) {
    if ((entry_is_enough || judging_needs_columns()) &&
        !codec->decode_entry(key, value, has_condition ? condition_columns() : table->read_set, buf))
      return HA_ERR_CRASHED;
    const int judged = has_condition ? judge(primary_key, buf) : 0;
    if (judged == SKIP_ROW || judged == HA_ERR_END_OF_FILE) unlock_row();
    if (judged) return judged;
    if (entry_is_enough) {
      remember_row_number(primary_key);
      return 0;
    }
  }
  const bool current_entry = reads_current_entries();
  const int error = read_by_key(primary_key, buf, SKIP_ROW, TIDESDB_READ_BY_ENTRY);
  if (over_newer && (error == 0 || error == SKIP_ROW)) {
    if (error == SKIP_ROW || !fits_over_newer(key, primary_key, buf)) return SKIP_ROW;
    /* The entry was the snapshot's: the row's own one may have other bytes of the same weights. */
    return has_condition && check_pushed_condition(primary_key, buf) != CHECK_POS ? SKIP_ROW : 0;
  }
  if (error == SKIP_ROW) {
    if (!current_entry) {
      if (passes_over_entry()) return SKIP_ROW;
      sql_print_error("TidesDB: index %u of '%s' has an entry without a row; CHECK TABLE says more",
                      scan_.index, open_table_->name().c_str());
      return HA_ERR_CRASHED;
    }
    unlock_row();
    look_again(key, primary_key);
    return SKIP_ROW;
  }
  if (error == 0 && ((current_entry && has_condition) || computes_virtual_columns()))
    virtual_columns_.complete(scan_.index, buf);
  const EntrySet::Entry *own = nullptr;
  if (error == 0 && current_entry && !(own = own_entry(buf, key, primary_key))) {
    give_back_other_row();
    look_again(key, primary_key);
    return SKIP_ROW;
  }
  /* The entry was judged before the row was locked, which has other bytes of the same weights by now; or it
     has no columns to judge. */
  if (error == 0 && has_condition && (!codec || (own && !same_bytes(own->value.slice(), value)))) {
    const int judged = judge(primary_key, buf);
    if (judged == SKIP_ROW || judged == HA_ERR_END_OF_FILE) {
      give_back_other_row();
      return SKIP_ROW;
    }
    return judged;
  }
  return error;
}

/* What the pushed condition says of the row or entry in `buf`: 0, SKIP_ROW, or an error. */
int ha_tidesdb::judge(Slice primary_key, const uchar *buf) {
  switch (check_pushed_condition(primary_key, buf)) {
    case CHECK_POS:
      return 0;
    case CHECK_NEG:
      return SKIP_ROW;
    case CHECK_OUT_OF_RANGE:
      return HA_ERR_END_OF_FILE;
    case CHECK_ABORTED_BY_USER:
      return HA_ERR_ABORTED_BY_USER;
    default:
      return HA_ERR_INTERNAL_ERROR;
  }
}

int ha_tidesdb::return_current_row(const tidesdb_row &row, uchar *buf) {
  if (scan_.index != MAX_KEY && !is_primary(scan_.index)) return return_entry(row, buf);
  const Slice key{row.key, row.key_size};
  if (!row_reader_->read(key, {row.value, row.value_size}, buf, scan_.placed_for_first_parts))
    return undecodable_row({row.value, row.value_size});
  note_parts(*row_reader_, key, {row.value + row.value_size, row.place_size});
  if (unlikely(row_reader_->lacked_rest() && !scan_.first_parts))
    if (const int error = read_whole_row(key, buf)) return error;
  remember_row_number(key);
  note_expiry(row.expiry);
  if (row.value_size > LARGE_ROW) tidesdb_cursor_free_value(scan_.cursor);
  return 0;
}

/* A step of index_next() and index_prev(): beyond the rows of the value that was searched, too. */
int ha_tidesdb::step_past_value(int direction) {
  const int status = step(direction);
  if (status != TIDESDB_NOT_FOUND || !scan_.prefix_bounded) return status;
  return seek(direction > 0 ? TIDESDB_SEEK_AFTER : TIDESDB_SEEK_BEFORE, scan_.search.slice(), 0);
}

/* Before a row is read that may not belong to the result: the server goes on with the one before it where
   there is no other (QUICK_GROUP_MIN_MAX_SELECT). */
void ha_tidesdb::keep_record(const uchar *buf) {
  buffers_.kept_record.clear();
  if (!scans_rows() && entries_may_not_fit()) buffers_.kept_record.assign({buf, table_share->reclength});
}

void ha_tidesdb::bring_record_back(uchar *buf) {
  if (buffers_.kept_record.size() == 0) return;
  memcpy(buf, buffers_.kept_record.data(), table_share->reclength);
  buffers_.kept_record.clear();
}

/* Turns the status of a seek or step into the row it stands on, or the next one that belongs to the result.
 */
int ha_tidesdb::return_row(int status, int direction, uchar *buf, int none, bool past_value) {
  keep_record(buf);
  for (;;) {
    if (status == TIDESDB_NOT_FOUND) {
      bring_record_back(buf);
      if (scan_.outlives_statement) scan_.position = direction > 0 ? Position::END : Position::START;
      return none;
    }
    if (status != TIDESDB_SKIPPED) {
      if (status == TIDESDB_PEEKED)
        scan_.peek = Peek::PEEKED;
      else if (status != TIDESDB_OK)
        return fail(status);
      const int error = return_current_row(scan_.cursor->rows[scan_.cursor->position], buf);
      scan_.end_relocking();
      if (error != SKIP_ROW) {
        if (error == 0 && scan_.outlives_statement) {
          /* Another place than before where the value was freed. */
          const tidesdb_row &row = scan_.cursor->rows[scan_.cursor->position];
          scan_.saved_key.assign({row.key, row.key_size});
        }
        return error;
      }
      if (thd_kill_level(table->in_use) >= THD_ABORT_SOFTLY) return HA_ERR_ABORTED_BY_USER;
    }
    status = past_value ? step_past_value(direction) : step(direction);
  }
}

/* --- table scans --- */

int ha_tidesdb::rnd_init(bool scan) {
  /* The server's handler for sequences does not pass start_stmt() on, under LOCK TABLES. */
  if (is_sequence())
    if (const int error = enter_statement(table->in_use, false)) return error;
  if (!table->part_info)
    if (const int error = watch_source_of_copy()) return error;
  if (scan)
    if (const int error = refuse_unfit_rows()) return error;
  scan_.begin(table_share->primary_key);
  return 0;
}

/* Rows of a multi-range read come by rnd_pos(): its second handler stands on an index, and the next range may
   be of another one. */
int ha_tidesdb::rnd_end() {
  ds_mrr_.dsmrr_close();
  match_scan_.forget();
  scan_.finish();
  return 0;
}

int ha_tidesdb::rnd_next(uchar *buf) {
  if (scan_.position == Position::CURSOR && scan_.columns_chosen)
    return return_row(step(1), 1, buf, HA_ERR_END_OF_FILE);
  if (const int error = begin_read()) return error;
  if (const int error = lock_for_read()) return error;
  if (match_scan_.may_begin()) {
    if (!match_scan_.search) match_scan_.search = choose_search();
    if (match_scan_.search) return next_match(buf);
    match_scan_.forget();
  }
  const int status = scan_.position == Position::NONE ? seek(TIDESDB_SEEK_FIRST, {nullptr, 0}, 0) : step(1);
  return return_row(status, 1, buf, HA_ERR_END_OF_FILE);
}

int ha_tidesdb::rnd_pos(uchar *buf, uchar *pos) {
  if (const int error = begin_read()) return error;
  if (const int error = lock_for_read()) return error;
  buffers_.row_key.clear();
  if (has_primary_key())
    primary_codec_->append_ref(pos, &buffers_.row_key);
  else
    buffers_.row_key.append(pos, HIDDEN_KEY_SIZE);
  scan_.point = true;
  const int error = read_by_key(buffers_.row_key.slice(), buf, HA_ERR_KEY_NOT_FOUND, TIDESDB_READ_BY_ENTRY);
  scan_.point = false;
  return error;
}

void ha_tidesdb::position(const uchar *record) {
  if (has_primary_key())
    primary_codec_->make_ref(record, ref);
  else
    memcpy(ref, last_row_.number, HIDDEN_KEY_SIZE);
}

int ha_tidesdb::cmp_ref(const uchar *a, const uchar *b) {
  return primary_codec_ ? primary_codec_->compare_refs(a, b) : memcmp(a, b, HIDDEN_KEY_SIZE);
}

/* --- index scans --- */

int ha_tidesdb::index_init(uint index, bool) {
  if (const int error = refuse_hidden_index(index)) return error;
  scan_.begin(index);
  return 0;
}

int ha_tidesdb::index_end() {
  ds_mrr_.dsmrr_close();
  scan_.finish();
  return 0;
}

/* The one row of a unique key that is given in full. */
int ha_tidesdb::read_unique(uchar *buf, int none) {
  scan_.stand_at(scan_.search.slice());
  if (is_primary(scan_.index)) return read_by_key(scan_.search.slice(), buf, none, 0);
  if (const int status = cursor_of(scan_.index, &scan_.cursor)) return fail(status);
  note_lock();
  Slice value;
  const int status = tidesdb_cursor_get(scan_.cursor, reading_txn(), scan_.search.data(), scan_.search.size(),
                                        read_mode(), &value);
  if (status == TIDESDB_NOT_FOUND || status == TIDESDB_SKIPPED) return none;
  if (status != TIDESDB_OK) return fail(status);
  keep_record(buf);
  const int error = return_entry(
      {scan_.search.data(), value.data, scan_.search.size(), value.size, scan_.cursor->expiry, 0}, buf);
  if (error == SKIP_ROW) bring_record_back(buf);
  return error == SKIP_ROW ? none : error;
}

int ha_tidesdb::index_read_map(uchar *buf, const uchar *key, key_part_map map, ha_rkey_function find) {
  if (const int error = begin_read()) return error;
  const KeyCodec *codec = columns_of(scan_.index);
  if (!codec) return HA_ERR_UNSUPPORTED;
  scan_.search.clear();
  KeyCodec::Search search;
  if (!search_own_entry(buf, map, find, &search)) search = codec->append_search(key, map, &scan_.search);
  scan_.point = (find == HA_READ_KEY_EXACT || find == HA_READ_PREFIX || find == HA_READ_PREFIX_LAST) &&
                codec->is_unique() && search.all_columns && !search.has_null &&
                /* Two entries may be under the key. */
                (is_primary(scan_.index) || !reads_over_newer());
  if (scan_.point) {
    if (const int error = lock_for_read()) return error;
    return read_unique(buf, HA_ERR_KEY_NOT_FOUND);
  }
  if (const int error = lock_for_read()) return error;
  if (const int error = lock_for_check(key, map, find)) return error;
  uchar where;
  size_t prefix = 0;
  int direction = 1;
  switch (find) {
    case HA_READ_KEY_EXACT:
    case HA_READ_PREFIX:
      where = TIDESDB_SEEK_AT_OR_AFTER;
      prefix = scan_.search.size();
      break;
    case HA_READ_KEY_OR_NEXT:
      where = TIDESDB_SEEK_AT_OR_AFTER;
      break;
    case HA_READ_AFTER_KEY:
      where = TIDESDB_SEEK_AFTER;
      break;
    case HA_READ_BEFORE_KEY:
      where = TIDESDB_SEEK_BEFORE;
      direction = -1;
      break;
    case HA_READ_PREFIX_LAST:
      where = TIDESDB_SEEK_AT_OR_BEFORE;
      prefix = scan_.search.size();
      direction = -1;
      break;
    case HA_READ_KEY_OR_PREV:
    case HA_READ_PREFIX_LAST_OR_PREV:
      where = TIDESDB_SEEK_AT_OR_BEFORE;
      direction = -1;
      break;
    default:
      return HA_ERR_UNSUPPORTED;
  }
  const int error =
      return_row(seek(where, scan_.search.slice(), prefix), direction, buf, HA_ERR_KEY_NOT_FOUND);
  if (error == HA_ERR_KEY_NOT_FOUND && scan_.outlives_statement && prefix) {
    /* HANDLER goes on from where the key would be. */
    scan_.stand_at(scan_.search.slice());
  }
  return error;
}

int ha_tidesdb::index_next(uchar *buf) {
  if (const int error = begin_read()) return error;
  scan_.point = false;
  return return_row(step_past_value(1), 1, buf, HA_ERR_END_OF_FILE, true);
}

int ha_tidesdb::index_next_same(uchar *buf, const uchar *key, uint length) {
  if (scan_.point) {
    /* HANDLER stands behind the row now. */
    if (scan_.outlives_statement) {
      scan_.position = Position::END;
      scan_.prefix_bounded = true;
    }
    return HA_ERR_END_OF_FILE;
  }
  if (!scan_.prefix_bounded || scan_.position != Position::CURSOR)
    return handler::index_next_same(buf, key, length);
  return return_row(step(1), 1, buf, HA_ERR_END_OF_FILE);
}

int ha_tidesdb::index_prev(uchar *buf) {
  if (const int error = begin_read()) return error;
  scan_.point = false;
  return return_row(step_past_value(-1), -1, buf, HA_ERR_END_OF_FILE, true);
}

int ha_tidesdb::index_first(uchar *buf) {
  if (const int error = begin_read()) return error;
  if (const int error = lock_for_read()) return error;
  scan_.point = false;
  return return_row(seek(TIDESDB_SEEK_FIRST, {nullptr, 0}, 0), 1, buf, HA_ERR_END_OF_FILE);
}

int ha_tidesdb::index_last(uchar *buf) {
  if (const int error = begin_read()) return error;
  if (const int error = lock_for_read()) return error;
  scan_.point = false;
  return return_row(seek(TIDESDB_SEEK_LAST, {nullptr, 0}, 0), -1, buf, HA_ERR_END_OF_FILE);
}

/*
  Ranges: the engine ends them, so that no row is compared here. An end that the server describes in
  another way than "up to the key, or with it" is left to the server's own comparison.
*/
int ha_tidesdb::read_range_first(const key_range *start, const key_range *end, bool eq_range_arg,
                                 bool sorted) {
  scan_.end.exact = !end;
  if (end && (end->flag == HA_READ_BEFORE_KEY || end->flag == HA_READ_AFTER_KEY)) {
    const KeyCodec *codec = columns_of(scan_.index);
    if (!codec) return HA_ERR_UNSUPPORTED;
    scan_.end.key.clear();
    codec->append_search(end->key, end->keypart_map, &scan_.end.key);
    scan_.end.exact = true;
    if (end->flag == HA_READ_BEFORE_KEY || successor(&scan_.end.key)) scan_.end.bound = &scan_.end.key;
  }
  int result;
  if (scan_.end.exact) {
    eq_range = eq_range_arg;
    set_end_range(end);
    range_key_part = table->key_info[active_index].key_part;
    result = start ? ha_index_read_map(table->record[0], start->key, start->keypart_map, start->flag)
                   : ha_index_first(table->record[0]);
    if (result == HA_ERR_KEY_NOT_FOUND) result = HA_ERR_END_OF_FILE;
  } else {
    result = handler::read_range_first(start, end, eq_range_arg, sorted);
  }
  scan_.end.bound = nullptr;
  return result;
}

int ha_tidesdb::read_range_next() {
  if (!scan_.end.exact) return handler::read_range_next();
  if (eq_range) return ha_index_next_same(table->record[0], end_range->key, end_range->length);
  return ha_index_next(table->record[0]);
}

/* The server takes STORED columns into the sum, and does not ask for them. */
int ha_tidesdb::calculate_checksum() {
  checksums_ = true;
  const int error = handler::calculate_checksum();
  checksums_ = false;
  return error;
}
