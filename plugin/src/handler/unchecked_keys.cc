/*
  UNIQUE over long columns and WITHOUT OVERLAPS, where the server does not find the other row.

  The server checks both before a row comes here: it looks up the hash of the columns, or the next period of
  the columns before it (docs/server-contract.md 5.11). It looks
    - not at all for the row of another table that an action of a foreign key changes;
    - in the partitions of the statement's WHERE alone: an UPDATE may move a row to another one;
    - by the hash that it computed before the BEFORE triggers, where these change the columns;
    - for the next period in the first partition that has any, whatever the values before it;
    - and compares more of a text than the prefix that the key is over, on 11.8.
  The handler looks there itself, and only there. A key that is unique has the columns of the partitioning in
  it: an equal row is in the row's own partition.

  As for the server's look, the hash or the columns before the period are locked first, so that nobody adds an
  equal row meanwhile; then the other row is, which a transaction may be about to take away.
*/
#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "ha_partition.h"
#include "partition_info.h"
#include "row/row_end.h"
#include "row/same_value.h"
#include "store/store.h"

using namespace tidesdb;

/* Of ha_partition: its number stands before the row's reference. */
constexpr size_t PARTITION_NUMBER_SIZE = 2;

/* The columns of UNIQUE over long columns: they stand before the part with the hash. */
static const KEY_PART_INFO *hashed_columns(KEY *key) { return key->key_part - fields_in_hash_keyinfo(key); }

static bool has_prefix(KEY *key) {
  for (const KEY_PART_INFO *part = hashed_columns(key); part < key->key_part; part++)
    if (part->key_part_flag & HA_PART_KEY_SEG) return true;
  return false;
}

bool ha_tidesdb::is_partition() const { return table->part_info && table->file->ht != plugin.hton; }

/* The number among the table's partitions; MY_BIT_NONE: one that an ALTER makes. A clone has that of its
 * original. */
uint ha_tidesdb::partition_number() {
  if (partition_number_ != MY_BIT_NONE) return partition_number_;
  handler **partitions = static_cast<ha_partition *>(table->file)->get_child_handlers();
  for (uint i = 0; partitions[i]; i++)
    if (static_cast<ha_tidesdb *>(partitions[i])->open_table_ == open_table_) return partition_number_ = i;
  return MY_BIT_NONE;
}

bool ha_tidesdb::is_left_out_of_statement() {
  if (!is_partition()) return false;
  const uint number = partition_number();
  return number != MY_BIT_NONE && !bitmap_is_set(&table->part_info->lock_partitions, number);
}

/* Whether all that the index's key is made of is the same in both records. */
bool ha_tidesdb::has_same_columns(uint index, const uchar *old_record, const uchar *new_record) const {
  const my_ptrdiff_t to_old = old_record - table->record[0], to_new = new_record - table->record[0];
  for (Field **field = table->field; *field; field++)
    if ((*field)->stored_in_db() && bitmap_is_set(&index_columns_[index], (*field)->field_index) &&
        !has_same_value(*field, to_old, to_new))
      return false;
  return true;
}

/* `old_record`: of a row that is changed, with its key; nullptr: the row is new. */
int ha_tidesdb::check_unchecked_keys(const uchar *old_record, const uchar *new_record, Slice old_key) {
  for (const uint index : server_checked_keys_) {
    if (old_record && has_same_columns(index, old_record, new_record)) continue;
    if (!looks_itself(index, !old_record, new_record)) continue;
    const KeyCodec &codec = is_primary(index) ? *primary_codec_ : *index_codecs_[index];
    if (codec.has_null(row_of_index(index, new_record))) continue;
    if (const int error = look_at_other_rows(index, new_record, old_key)) return error;
  }
  return 0;
}

/* The row with the virtual columns of the index, the hash among them. Valid until the next one. */
const uchar *ha_tidesdb::row_of_index(uint index, const uchar *record) {
  return virtual_columns_.index_has_any(index) ? virtual_columns_.row_with(index, record) : record;
}

/* Whether the server has looked for others with what are not the row's values, if at all. */
bool ha_tidesdb::has_other_values(uint index, const uchar *record) {
  if (!virtual_columns_.index_has_any(index)) return false;
  const KEY &key = table->key_info[index];
  bool known = !checks_all_keys_;
  for (uint part = 0; known && part < key.user_defined_key_parts; part++)
    known = bitmap_is_set(table->read_set, key.key_part[part].fieldnr - 1);
  if (!known) return true;
  ByteBuffer &given = buffers_.entry_key, &own = buffers_.scratch;
  const KeyCodec &codec = is_primary(index) ? *primary_codec_ : *index_codecs_[index];
  given.clear();
  codec.append_columns(record, &given);
  own.clear();
  codec.append_columns(row_of_index(index, record), &own);
  return !same_bytes(given.slice(), own.slice());
}

bool ha_tidesdb::looks_itself(uint index, bool is_new, const uchar *record) {
  const bool is_hash = is_long_unique(index);
  /* The server lets periods of the past overlap. */
  if (!is_hash && is_history_row(table, record)) return false;
  if (checks_all_keys_ || has_other_values(index, record) || (is_hash && has_prefix(&table->key_info[index])))
    return true;
  if (!is_partition()) return false;
  const uint number = partition_number();
  if (number == MY_BIT_NONE) return false;
  return !is_hash || (is_new && !bitmap_is_set(&table->part_info->read_partitions, number));
}

/* Where in the index the row's equals stand: after or at `search`, and with so many first bytes of it. */
int ha_tidesdb::lock_search(uint index, const uchar *record, size_t *prefix) {
  ByteBuffer &search = other_rows_->search;
  const KeyCodec &codec = is_primary(index) ? *primary_codec_ : *index_codecs_[index];
  const std::vector<KeyPart> &parts = codec.parts();
  const bool is_hash = is_long_unique(index);
  const size_t equal = is_hash ? parts.size() : parts.size() - 2;
  const uchar *row = row_of_index(index, record);
  search.clear();
  for (size_t part = 0; part < equal; part++) append_part(parts[part], row, &search, &other_rows_->scratch);
  *prefix = search.size();
  if (!reads_latest())
    if (const int error = lock_key(open_table_->index(index), search.slice())) return error;
  /* Periods are in the order of their ends: the first that ends after the row's begins. */
  if (!is_hash)
    append_value(parts[equal], record_value(parts[equal + 1], record), &search, &other_rows_->scratch);
  return 0;
}

int ha_tidesdb::look_at_other_rows(uint index, const uchar *record, Slice own_key) {
  if (!other_rows_) {
    other_rows_.reset(new (std::nothrow) OtherRows(table, *row_codec_));
    if (!other_rows_ || !other_rows_->reader.choose(nullptr)) {
      other_rows_.reset();
      return HA_ERR_OUT_OF_MEM;
    }
  }
  OtherRows &other = *other_rows_;
  size_t prefix;
  if (const int error = lock_search(index, record, &prefix)) return error;
  if (other.index != index) {
    other.index = MAX_KEY;
    const int status = open_cursor(open_table_->index(index), &other.entries);
    if (status != TIDESDB_OK) return fail(status);
    other.index = index;
  }
  tidesdb_seek seek{};
  seek.key = other.search.data();
  seek.key_size = other.search.size();
  seek.prefix_size = prefix;
  seek.where = is_long_unique(index) ? TIDESDB_SEEK_AT_OR_AFTER : TIDESDB_SEEK_AFTER;
  seek.mode = TIDESDB_READ_LATEST;
  tidesdb_cursor *entries = other.entries.get();
  int status = tidesdb_cursor_seek(entries, reading_txn(), &seek);
  for (; status == TIDESDB_OK; status = tidesdb_cursor_step(entries, 1)) {
    const tidesdb_row &entry = entries->rows[entries->position];
    Slice key{entry.key, entry.key_size};
    if (!is_primary(index) &&
        !index_kinds_[index]->primary_key({entry.key, entry.key_size}, {entry.value, entry.value_size}, &key))
      return HA_ERR_CRASHED;
    if (same_bytes(key, own_key)) continue;
    bool is_there;
    if (const int error = read_other_row(index, key, &is_there)) return error;
    if (!is_there) continue;
    if (is_same_value(index, record, other.record.data())) return refuse_duplicate(index, key);
    /* The lock of the search keeps out who would make it equal. */
    if (!reads_latest()) tidesdb_cursor_unlock_row(other.rows.get(), session_->txn());
    /* Of the periods that end later the first one begins first; unless it is another by now. */
    if (!is_long_unique(index) && has_entry(index, {entry.key, entry.key_size}, other.record.data()))
      return 0;
  }
  return status == TIDESDB_NOT_FOUND ? 0 : fail(status);
}

/* Whether the row of another has this entry (of the primary key: this key) still. */
bool ha_tidesdb::has_entry(uint index, Slice entry_key, const uchar *other_record) {
  ByteBuffer &columns = other_rows_->columns;
  columns.clear();
  (is_primary(index) ? *primary_codec_ : *index_codecs_[index]).append_columns(other_record, &columns);
  return columns.size() <= entry_key.size && memcmp(columns.data(), entry_key.data, columns.size()) == 0;
}

int ha_tidesdb::read_other_row(uint index, Slice key, bool *is_there) {
  OtherRows &other = *other_rows_;
  if (!other.rows) {
    const int status = open_cursor(open_table_->primary(), &other.rows);
    if (status != TIDESDB_OK) return fail(status);
  }
  const int mode = reads_latest() ? TIDESDB_READ_LATEST : TIDESDB_READ_EXCLUSIVE;
  Slice value;
  const int status = tidesdb_cursor_get(other.rows.get(), reading_txn(), key.data, key.size,
                                        mode | TIDESDB_READ_BY_ENTRY, &value);
  *is_there = status == TIDESDB_OK;
  if (status == TIDESDB_NOT_FOUND) return 0;
  if (status != TIDESDB_OK) return fail(status);
  if (!other.reader.read(key, value, other.record.data())) return undecodable_row(value);
  virtual_columns_.complete(index, other.record.data());
  return 0;
}

/* Whether a column of UNIQUE over long columns has the same value in two records. */
static bool has_equal_value(Field *field, const KEY_PART_INFO &part, const uchar *row, const uchar *other) {
  if (field->is_null_in_record(row) || field->is_null_in_record(other)) return false;
  const uchar *value = field->ptr_in_record(row), *other_value = field->ptr_in_record(other);
  if (part.key_part_flag & HA_PART_KEY_SEG)
    return !field->cmp_prefix(value, other_value, part.length / field->charset()->mbmaxlen);
  if (field->real_type() != MYSQL_TYPE_BIT) return !field->cmp(value, other_value);
  /* Bits may stand beside the NULLs. */
  const auto bits = [&](const uchar *record) {
    const my_ptrdiff_t distance = record - field->table->record[0];
    field->move_field_offset(distance);
    const longlong got = field->val_int();
    field->move_field_offset(-distance);
    return got;
  };
  return bits(row) == bits(other);
}

bool ha_tidesdb::is_same_value(uint index, const uchar *record, const uchar *other_record) {
  KEY &key = table->key_info[index];
  const uchar *row = row_of_index(index, record);
  if (!is_long_unique(index)) return table->check_period_overlaps(key, row, other_record);
  for (const KEY_PART_INFO *part = hashed_columns(&key); part < key.key_part; part++)
    if (!has_equal_value(table->field[part->fieldnr - 1], *part, row, other_record)) return false;
  return true;
}

/* The server finds the row by its reference: for REPLACE, IGNORE and ON DUPLICATE KEY UPDATE. */
int ha_tidesdb::refuse_duplicate(uint index, Slice key) {
  session_->set_duplicate_key(index);
  handler *const whole = table->file;
  whole->lookup_errkey = index;
  uchar *reference = whole->dup_ref;
  if (is_partition()) {
    const uint number = partition_number();
    int2store(reference, number);
    reference += PARTITION_NUMBER_SIZE;
  }
  if (has_primary_key())
    primary_codec_->make_ref(other_rows_->record.data(), reference);
  else
    memcpy(reference, key.data, HIDDEN_KEY_SIZE);
  return HA_ERR_FOUND_DUPP_KEY;
}
