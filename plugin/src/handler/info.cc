/*
  What the optimizer asks: sizes, rows for a key value, rows in a range.

  info() is called for every table of every query: it reads counters of the engine, no more.
*/
#include "handler/ha_tidesdb.h"

#include "sql_class.h"

using namespace tidesdb;

void ha_tidesdb::fill_variable_statistics(bool all) {
  tidesdb_family_stats rows;
  memset(&rows, 0, sizeof(rows));
  rows.struct_size = sizeof(rows);
  if (tidesdb_family_get_stats(open_table_->primary(), &rows) != TIDESDB_OK) return;
  stats.records = rows.entries;
  stats.deleted = rows.tombstones;
  stats.mean_rec_length =
      static_cast<ulong>(rows.mean_row_bytes ? rows.mean_row_bytes : table_share->reclength);
  /* What a scan reads: rows in memory count as if they were in blocks. */
  stats.data_file_length = std::max<ulonglong>(rows.data_bytes + rows.memtable_bytes, IO_SIZE);
  stats.delete_length = 0;
  stats.block_size = IO_SIZE;
  if (!all) return;
  stats.index_file_length = 0;
  for (uint i = 0; i < table_share->keys; i++) {
    if (is_primary(i)) continue;
    tidesdb_family_stats entries;
    memset(&entries, 0, sizeof(entries));
    entries.struct_size = sizeof(entries);
    if (tidesdb_family_get_stats(open_table_->index(i), &entries) == TIDESDB_OK)
      stats.index_file_length += entries.data_bytes + entries.memtable_bytes;
  }
}

/* What an entry takes, for the cost of reading an index; the server would guess from the columns' widths. */
void ha_tidesdb::fill_entry_sizes() {
  for (uint i = 0; i < table_share->keys; i++) {
    tidesdb_family_stats entries;
    memset(&entries, 0, sizeof(entries));
    entries.struct_size = sizeof(entries);
    tidesdb_family *family = is_primary(i) ? open_table_->primary() : open_table_->index(i);
    if (tidesdb_family_get_stats(family, &entries) == TIDESDB_OK)
      table->key_info[i].stat_storage_length = static_cast<size_t>(entries.mean_row_bytes);
  }
}

int ha_tidesdb::info(uint flag) {
  if (flag & HA_STATUS_VARIABLE) {
    fill_variable_statistics(flag & (HA_STATUS_VARIABLE_EXTRA | HA_STATUS_TIME | HA_STATUS_OPEN));
    /* A table that may hold rows must not look empty to the optimizer. */
    if (stats.records == 0 && !(flag & (HA_STATUS_TIME | HA_STATUS_OPEN))) stats.records = 1;
  }
  if (flag & HA_STATUS_CONST) {
    stats.max_data_file_length = stats.max_index_file_length = ~0ULL >> 1;
    stats.create_time = 0;
    stats.mrr_length_per_rec = ref_length + sizeof(range_id_t);
    open_table_->fill_rows_per_key(table);
    fill_entry_sizes();
  }
  if (flag & HA_STATUS_ERRKEY) {
    /* A row that moves to another partition fails there, and the server asks the one that it comes from. */
    errkey = session_ ? session_->duplicate_key() : MAX_KEY;
  }
  if ((flag & HA_STATUS_AUTO) && table->found_next_number_field)
    stats.auto_increment_value = tidesdb_counter_peek(open_table_->primary(), COUNTER_AUTO_INCREMENT);
  return 0;
}

ha_rows ha_tidesdb::records_in_range(uint index, const key_range *min, const key_range *max, page_range *) {
  const KeyCodec &codec = is_primary(index) ? *primary_codec_ : *index_codecs_[index];
  tidesdb_family *family = is_primary(index) ? open_table_->primary() : open_table_->index(index);
  ByteBuffer &lower = entry_key_, &upper = entry_value_;
  lower.clear();
  upper.clear();
  /* The first key behind all that start with the buffer's bytes; an open end where there is none. */
  const auto move_behind = [](ByteBuffer *key) {
    size_t size = key->size();
    while (size > 0 && key->data()[size - 1] == 0xff) size--;
    key->truncate(size);
    if (size) key->data()[size - 1]++;
  };
  KeyCodec::Search search{false, true};
  if (min) search = codec.append_search(min->key, min->keypart_map, &lower);
  if (max) codec.append_search(max->key, max->keypart_map, &upper);
  /* A lower end "at the key" comes as HA_READ_KEY_EXACT too, so that only equal ends make a point. */
  if (codec.is_unique() && search.all_columns && !search.has_null && lower.size() == upper.size() &&
      !memcmp(lower.data(), upper.data(), lower.size()))
    return 1;
  if (min && min->flag == HA_READ_AFTER_KEY) move_behind(&lower);
  if (max && max->flag != HA_READ_BEFORE_KEY) move_behind(&upper);
  uint64_t rows = 0;
  const int status = tidesdb_estimate_range(family, lower.empty() ? Slice{nullptr, 0} : lower.slice(),
                                            upper.empty() ? Slice{nullptr, 0} : upper.slice(), &rows);
  if (status != TIDESDB_OK) return 10;
  return std::max<ha_rows>(1, std::min<ha_rows>(rows, std::max<ha_rows>(stats.records, 1)));
}
