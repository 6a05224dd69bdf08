/*
  Rows in two parts: which statements read the first alone, and what an UPDATE of such a row does.

  Reads of a statement lack long BLOBs where neither the server asks for one (read_set) nor anything of the
  table needs one. Then an UPDATE leaves the second part where it is, or gives all of its columns others. It
  may also leave a column that it names: UNREAD_BLOB tells.
*/
#include <algorithm>

#include "handler/ha_tidesdb.h"

#include "log.h"
#include "partition_info.h"
#include "sql_class.h"

#include "row/same_value.h"
#include "store/store.h"

using namespace tidesdb;

namespace {

/* An UPDATE of several tables, with subqueries too, copies columns that it changes from the row that it has
   read: it needs those of write_set as well as those of read_set. */
bool updates_one_table(THD *thd) {
  return thd_sql_command(thd) == SQLCOM_UPDATE && !thd->lex->all_selects_list->next_select_in_list();
}

/* Whether the row was read without this BLOB, and nobody has given it bytes since; `to`: the record's
   distance from record[0]. */
bool is_unread(const Field *field, my_ptrdiff_t to) {
  return field->flags & BLOB_FLAG &&
         static_cast<const Field_blob *>(field)->get_ptr(field->ptr + to) == &UNREAD_BLOB;
}

}  // namespace

/* Whether neither the server nor the handler wants a BLOB of the rows to be read. */
bool ha_tidesdb::may_lack_blobs() const {
  if (!row_codec_->has_blobs() || checksums_ || (scan_.whole_rows && !nothing_needs_blobs_)) return false;
  const auto count_in = [this](const MY_BITMAP *columns) {
    const uint *const blobs = table_share->blob_field;
    return std::count_if(blobs, blobs + table_share->blob_fields,
                         [columns](uint field) { return bitmap_is_set(columns, field); });
  };
  if (count_in(table->read_set) != 0) return false;
  if (!changes_rows_) return true;
  /* The row is written anew. Its second part stays, and so does the row; or all BLOBs are others. */
  const int command = thd_sql_command(ha_thd());
  const bool changes_in_place = command == SQLCOM_UPDATE || command == SQLCOM_UPDATE_MULTI;
  if (!changes_in_place && command != SQLCOM_DELETE && command != SQLCOM_DELETE_MULTI) return false;
  if (table->versioned() || table_share->period.name.str) return false;
  const auto changed = count_in(table->write_set);
  if (changed != 0 && (changed != table_share->blob_fields || !updates_one_table(ha_thd()))) return false;
  if (!changes_in_place) return true;
  const bool changes_partition =
      table->part_info && bitmap_is_overlapping(&table->part_info->full_part_field_set, table->write_set);
  const bool changes_key =
      has_primary_key() && bitmap_is_overlapping(&index_columns_[table_share->primary_key], table->write_set);
  return (changed != 0 || row_codec_->keeps_all_rests()) && !changes_partition && !changes_key;
}

/* The row that was read, for an update of it. */
void ha_tidesdb::note_parts(const RowReader &reader, Slice primary_key, Slice place) {
  if (!changes_rows_ || !row_codec_->has_blobs()) return;
  lacked_rests_ = lacked_rests_ || reader.lacked_rest();
  last_row_.key.assign(primary_key);
  last_row_.place.assign(place);
  last_row_.apart = reader.columns_apart();
  last_row_.lacked_rest = reader.lacked_rest();
}

/*
  Every stored column has the same value in both records; with `unread`, values in place of those that the row
  was read without are left out, and it tells whether there are any. The bytes of a record also hold what is
  not part of the row: virtual columns, pointers to blobs, what a longer text left behind a shorter one.
*/
bool ha_tidesdb::is_same_row(const uchar *old_record, const uchar *new_record, bool *unread) const {
  if (new_record != table->record[0]) return false;
  const my_ptrdiff_t offset = old_record - new_record;
  for (Field **next = table->field; *next; next++) {
    const Field *field = *next;
    if (!field->stored_in_db()) continue;
    if (unread && !field->is_real_null() && is_unread(field, offset))
      *unread = *unread || !is_unread(field, 0);
    else if (!has_same_value(field, offset, 0))
      return false;
  }
  return true;
}

/* Reads these parts of a row, which is locked, alongside the scan: into a record that lives until the next
   such read. */
int ha_tidesdb::read_alongside(Slice primary_key, int parts, RowReader *reader, uchar **record) {
  tidesdb_cursor *cursor;
  if (const int error = row_cursor(&cursor)) return error;
  Slice value;
  const int mode = (reads_latest() ? TIDESDB_READ_LATEST : TIDESDB_READ_EXCLUSIVE) | parts;
  const int status =
      tidesdb_cursor_get(cursor, session_->txn(), primary_key.data, primary_key.size, mode, &value);
  /* It has expired since, and is left as it is. */
  if (status == TIDESDB_NOT_FOUND) return HA_ERR_RECORD_IS_THE_SAME;
  if (status != TIDESDB_OK) return fail(status);
  buffers_.kept_record.clear();
  *record = buffers_.kept_record.reserve(table_share->reclength);
  if (!reader->choose(nullptr)) return HA_ERR_OUT_OF_MEM;
  if (!reader->read(primary_key, value, *record, parts != 0)) return undecodable_row(value);
  note_parts(*reader, primary_key, {value.data + value.size, cursor->place_size});
  if (value.size > LARGE_ROW) tidesdb_cursor_free_value(cursor);
  return 0;
}

/* The same; its BLOBs live as long. */
int ha_tidesdb::read_whole_alongside(Slice primary_key, uchar **record) {
  if (!whole_reader_) whole_reader_.reset(new (std::nothrow) RowReader(*row_codec_));
  return whole_reader_ ? read_alongside(primary_key, 0, whole_reader_.get(), record) : HA_ERR_OUT_OF_MEM;
}

/* BLOBs that the update names and leaves as they are: the binary log has them, too. */
int ha_tidesdb::fill_unset_blobs(const uchar *old_record, const uchar *new_record) {
  uchar *const records[2] = {const_cast<uchar *>(old_record), const_cast<uchar *>(new_record)};
  const uint *const blobs = table_share->blob_field, *const end = blobs + table_share->blob_fields;
  const auto is_unset = [&](uint number) {
    return bitmap_is_set(table->write_set, number) &&
           is_unread(table->field[number], new_record - table->record[0]);
  };
  if (std::none_of(blobs, end, is_unset)) return 0;
  encode_primary(old_record, &writer_.old_primary);
  uchar *whole;
  if (const int error = read_whole_alongside(writer_.old_primary.slice(), &whole)) return error;
  for (const uint *number = blobs; number != end; number++) {
    const Field *field = table->field[*number];
    const my_ptrdiff_t at = field->ptr - table->record[0];
    for (uchar *record : records)
      if (is_unread(field, record - table->record[0])) memcpy(record + at, whole + at, field->pack_length());
  }
  return 0;
}

/* BLOBs of so many bytes are written to the second part of a row; 0: none are. */
size_t ha_tidesdb::second_part_threshold() const {
  return row_codec_->has_blobs() ? tidesdb_family_value_threshold(open_table_->primary()) : 0;
}

/* Whether the update leaves the second part of its row as it is: that was read last, and no column of it
 * changes. */
bool ha_tidesdb::keeps_rest(const uchar *old_record, const uchar *new_record, Slice old_key) const {
  const std::vector<ColumnApart> &columns = last_row_.apart;
  if (last_row_.place.empty() || !was_read_last(old_key) || !row_codec_->can_keep(columns)) return false;
  for (const ColumnApart &column : columns) {
    if (last_row_.lacked_rest) {
      if (!row_codec_->is_unread(column, new_record)) return false;
      continue;
    }
    const Slice before = row_codec_->value_of(column, old_record),
                after = row_codec_->value_of(column, new_record);
    if (!same_bytes(before, after)) return false;
  }
  return last_row_.lacked_rest ||
         !row_codec_->has_other_long_blobs(new_record, second_part_threshold(), columns);
}

/* Whether the update gives all columns of the row's second part, as it was read. */
bool ha_tidesdb::replaces_rest(const uchar *new_record) const {
  return std::none_of(last_row_.apart.begin(), last_row_.apart.end(), [&](const ColumnApart &column) {
    return column.variable != MAX_KEY && row_codec_->is_unread(column, new_record);
  });
}

/* What is known of a second part that was not read, and the one in place of it: other lengths; the same, so
   that the engine can compare them; nothing, after a change of the layout or the threshold. */
ha_tidesdb::OtherRest ha_tidesdb::compare_lengths(const uchar *new_record) const {
  const size_t threshold = second_part_threshold();
  bool fits = row_codec_->can_keep(last_row_.apart) &&
              !row_codec_->has_other_long_blobs(new_record, threshold, last_row_.apart);
  for (const ColumnApart &column : last_row_.apart) {
    if (column.variable == MAX_KEY) continue;
    if (row_codec_->value_of(column, new_record).size != column.size) return OtherRest::SURE;
    fits = fits && threshold != 0 && column.size >= threshold;
  }
  return fits ? OtherRest::CHECKSUM_TELLS : OtherRest::READ_TELLS;
}

/* The server gives a record of an update whose columns it did not ask for. */
int ha_tidesdb::refuse_unread_columns() const {
  sql_print_error("TidesDB: an update of '%s' lacks columns that it has not read",
                  open_table_->name().c_str());
  return HA_ERR_INTERNAL_ERROR;
}

/* The first part of a locked row. The records of the update point into the memory of the scan's reader. */
int ha_tidesdb::read_parts_again(Slice primary_key) {
  RowReader reader(*row_codec_);
  uchar *record;
  return read_alongside(primary_key, TIDESDB_READ_FIRST_PART, &reader, &record);
}

/* Whether the row has the values of the record. */
int ha_tidesdb::compare_whole(Slice primary_key, const uchar *new_record, bool *same) {
  uchar *whole;
  const int error = read_whole_alongside(primary_key, &whole);
  *same = !error && is_same_row(whole, new_record, nullptr);
  return error;
}

/* An update left the row as it is, to all appearance: a read tells. Else it is made. */
int ha_tidesdb::apply_if_other(const uchar *old_record, const uchar *new_record, Slice primary_key) {
  bool same;
  const int error = compare_whole(primary_key, new_record, &same);
  last_row_.forget();
  if (error || same) {
    writer_.begin();
    return error ? error : HA_ERR_RECORD_IS_THE_SAME;
  }
  writer_.compare_no_more();
  return apply_checked(old_record, new_record);
}

int ha_tidesdb::encode_update(const uchar *old_record, const uchar *new_record, Slice old_key, bool moves,
                              bool may_be_same) {
  bool keeps = !moves && keeps_rest(old_record, new_record, old_key);
  if (!keeps && (lacked_rests_ || may_lack_blobs())) {
    if (!was_read_last(old_key)) {
      if (const int error = read_parts_again(old_key)) return error;
      keeps = !moves && keeps_rest(old_record, new_record, old_key);
    }
    if (!keeps && last_row_.lacked_rest && !replaces_rest(new_record)) return refuse_unread_columns();
  }
  Slice unless_at{nullptr, 0};
  if (!keeps && may_be_same && last_row_.lacked_rest) {
    const OtherRest other = compare_lengths(new_record);
    if (other == OtherRest::CHECKSUM_TELLS) unless_at = last_row_.place.slice();
    bool same = false;
    if (other == OtherRest::READ_TELLS)
      if (const int error = compare_whole(old_key, new_record, &same)) return error;
    if (same) return HA_ERR_RECORD_IS_THE_SAME;
  }
  if (keeps) {
    writer_.encode_keeping(*row_codec_, new_record, last_row_.apart, last_row_.place.slice());
  } else {
    writer_.encode(*row_codec_, new_record, second_part_threshold(), unless_at);
  }
  /* What was read is the version that this one replaces. */
  last_row_.forget();
  return 0;
}
