/*
  What the optimizer asks: sizes, rows for a key value, rows in a range.

  info() is called for every table of every query: it reads counters of the engine, and now and then a sample.
*/
#include "handler/ha_tidesdb.h"

#include "ha_partition.h"
#include "sql_class.h"

#include "ddl/table_path.h"
#include "handler/index_sample.h"
#include "handler/snapshot_reader.h"
#include "store/store.h"

using namespace tidesdb;

namespace {

/* What a statement reads of an index when it finds statistics out of date; InnoDB reads 20 pages. Of a
   partition less: there may be hundreds. */
constexpr SampleSize SMALL_SAMPLE{2000, 20}, PARTITION_SAMPLE{500, 5};

ulonglong old_form_bytes(tidesdb_family *family) {
  uint64_t bytes = 0;
  return tidesdb_family_old_form(family, &bytes) == TIDESDB_OK ? bytes : 0;
}

/* Whether what is asked for is shown to somebody (SHOW TABLE STATUS, INFORMATION_SCHEMA). Of a partitioned
   table the partitions are asked with VARIABLE_EXTRA alone. */
bool is_shown(uint flag) { return flag & (HA_STATUS_TIME | HA_STATUS_OPEN | HA_STATUS_VARIABLE_EXTRA); }

}  // namespace

/*
  Rows: counted by the engine. Lengths: bytes of the table's files, however old what is in them, and what is
  in memory, which is not in files yet; a key there counts with its newest value. Files have no room to be
  filled again. Free is what OPTIMIZE TABLE would rewrite, because it was written under other options: neither
  Create_options nor Comment of SHOW TABLE STATUS ask the engine.
*/
void ha_tidesdb::fill_variable_statistics(bool shown) {
  const tidesdb_family_stats rows = stats_of(open_table_->primary());
  if (rows.struct_size == 0) return;
  stats.records = rows.entries;
  stats.deleted = rows.tombstones;
  stats.data_file_length = rows.data_bytes + rows.value_bytes + rows.memtable_bytes;
  const uint64_t mean = rows.entries ? stats.data_file_length / rows.entries : 0;
  stats.mean_rec_length = static_cast<ulong>(mean);
  stats.delete_length = 0;
  stats.block_size = IO_SIZE;
  if (shown) {
    stats.index_file_length = 0;
    for (const OpenTable::Family &of_table : open_table_->families()) {
      stats.delete_length += old_form_bytes(of_table.get());
      if (of_table.has_rows()) continue;
      const tidesdb_family_stats entries = stats_of(of_table.get());
      stats.index_file_length += entries.data_bytes + entries.memtable_bytes;
    }
    return;
  }
  /* For the optimizer: a table that may hold rows does not look empty, and a scan reads a block. */
  stats.records = std::max<ha_rows>(stats.records, 1);
  stats.data_file_length = std::max<ulonglong>(stats.data_file_length, IO_SIZE);
  if (!stats.mean_rec_length) stats.mean_rec_length = table_share->reclength;
}

void ha_tidesdb::fill_entry_sizes() {
  for (uint i = 0; i < table_share->keys; i++) {
    const tidesdb_family_stats entries = stats_of(open_table_->index(i));
    if (entries.struct_size) set_entry_size(&table->key_info[i], static_cast<size_t>(entries.mean_row_bytes));
  }
}

int ha_tidesdb::sample_indexes(tidesdb_txn *txn, uint64_t rows, const SampleSize &size,
                               RowsPerKey *rows_per_key) {
  rows_per_key->resize(table_share->keys);
  for (uint i = 0; i < table_share->keys; i++) {
    const KeyCodec *codec = columns_of(i);
    if (!codec) continue; /* no value of a column ends between two entries */
    const SampledIndex index{open_table_->index(i), &codec->parts(),
                             is_primary(i) || !primary_codec_ ? nullptr : &primary_codec_->parts(),
                             table->key_info[i].ext_key_parts};
    const int status = sample_index(index, txn, rows, size, ha_thd(), &(*rows_per_key)[i]);
    if (status != TIDESDB_OK) return status;
  }
  return TIDESDB_OK;
}

/*
  Samples the indexes when the table has grown or shrunk by a tenth, so that plans are good without ANALYZE,
  too. The statement that finds it so does it: less than a millisecond for an index in memory, and 20 blocks
  to read for one that is not.
*/
void ha_tidesdb::refresh_statistics(bool for_display) {
  if (!open_table_->begin_sample(stats.records, for_display)) return;
  const bool is_partition = !partition_suffix(open_table_->name()).empty();
  const SampleSize size = for_display ? LARGE_SAMPLE : is_partition ? PARTITION_SAMPLE : SMALL_SAMPLE;
  SnapshotReader reader;
  RowsPerKey sample;
  int status = reader.begin();
  if (status == TIDESDB_OK) status = sample_indexes(reader.txn(), stats.records, size, &sample);
  if (status != TIDESDB_OK) sample.clear();
  const bool is_rough = !for_display && stats.records > size.entries;
  open_table_->set_sample(stats.records, std::move(sample), is_rough);
  if (is_largest_partition()) open_table_->fill_rows_per_key(table);
}

/* For SHOW INDEX. */
void ha_tidesdb::show_statistics() {
  if (!is_largest_partition()) return;
  refresh_statistics(true);
  open_table_->fill_rows_per_key(table);
}

/* SHOW INDEX asks so. Of a partitioned table, the partitions are asked for the time alone, after they were
   asked for their rows. */
bool ha_tidesdb::keys_are_shown(uint flag) const {
  if (!(flag & HA_STATUS_TIME) || flag & HA_STATUS_VARIABLE_EXTRA) return false;
  return flag & HA_STATUS_VARIABLE || table->part_info;
}

/* The partitions of a table have one place for rows of a value: the largest one's stand there. */
bool ha_tidesdb::is_largest_partition() const {
  if (!table->part_info || table->file->ht == plugin.hton) return true;
  handler **partitions = static_cast<ha_partition *>(table->file)->get_child_handlers();
  for (; *partitions; partitions++)
    if ((*partitions)->stats.records > stats.records) return false;
  return true;
}

int ha_tidesdb::info(uint flag) {
  if (flag & HA_STATUS_VARIABLE) fill_variable_statistics(is_shown(flag));
  if (session_ && flag & HA_STATUS_VARIABLE && !is_shown(flag)) hide_indexes();
  /* Who opens a table may want to show it, and calls with CONST. */
  const bool plans = flag & HA_STATUS_VARIABLE && !(flag & HA_STATUS_CONST) && !is_shown(flag);
  if (plans && table_share->keys) refresh_statistics(false);
  if (keys_are_shown(flag) && table_share->keys) show_statistics();
  if (flag & HA_STATUS_TIME) stats.update_time = open_table_->update_time()->load(std::memory_order_relaxed);
  if (flag & HA_STATUS_CONST) {
    stats.max_data_file_length = stats.max_index_file_length = ~0ULL >> 1;
    stats.create_time = open_table_->create_time();
    stats.mrr_length_per_rec = ref_length + sizeof(range_id_t);
    open_table_->fill_rows_per_key(table);
    fill_entry_sizes();
  }
  if (flag & HA_STATUS_ERRKEY) {
    /* A row that moves to another partition fails there, and the server asks the one that it comes from. */
    const Session *session = session_of_error();
    errkey = session ? session->duplicate_key() : MAX_KEY;
  }
  if ((flag & HA_STATUS_AUTO) && table->found_next_number_field)
    stats.auto_increment_value = tidesdb_counter_peek(open_table_->primary(), COUNTER_AUTO_INCREMENT);
  return 0;
}

ha_rows ha_tidesdb::records_in_range(uint index, const key_range *min, const key_range *max, page_range *) {
  const KeyCodec *codec = columns_of(index);
  if (!codec) return HA_POS_ERROR;
  tidesdb_family *family = open_table_->index(index);
  ByteBuffer &lower = buffers_.entry_key, &upper = buffers_.scratch;
  lower.clear();
  upper.clear();
  /* The first key after all that start with the buffer's bytes; an open end where there is none. */
  const auto move_behind = [](ByteBuffer *key) {
    size_t size = key->size();
    while (size > 0 && key->data()[size - 1] == 0xff) size--;
    key->truncate(size);
    if (size) key->data()[size - 1]++;
  };
  KeyCodec::Search search{false, true};
  if (min) search = codec->append_search(min->key, min->keypart_map, &lower);
  if (max) codec->append_search(max->key, max->keypart_map, &upper);
  /* A lower end "at the key" comes as HA_READ_KEY_EXACT too, so that only equal ends make a point. */
  if (codec->is_unique() && search.all_columns && !search.has_null &&
      same_bytes(lower.slice(), upper.slice()))
    return 1;
  if (min && min->flag == HA_READ_AFTER_KEY) move_behind(&lower);
  if (max && max->flag != HA_READ_BEFORE_KEY) move_behind(&upper);
  uint64_t rows = 0;
  const int status = tidesdb_estimate_range(family, lower.empty() ? Slice{nullptr, 0} : lower.slice(),
                                            upper.empty() ? Slice{nullptr, 0} : upper.slice(), &rows);
  if (status != TIDESDB_OK) return 10;
  return std::max<ha_rows>(1, std::min<ha_rows>(rows, std::max<ha_rows>(stats.records, 1)));
}
