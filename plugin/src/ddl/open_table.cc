#include "ddl/open_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "log.h"

#include "ddl/index_expressions.h"
#include "ddl/index_rebuild.h"
#include "ddl/table_families.h"
#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "foreign/registry.h"
#include "row/row_ttl.h"
#include "server.h"
#include "store/store.h"
#include "sysvars.h"

namespace tidesdb {

namespace {

/* Guesses for an index that ANALYZE has not seen: rows for one value of the whole of a non-unique index,
   and how much each missing column multiplies them. */
constexpr ulong ROWS_OF_A_VALUE = 10;
constexpr ulong ROWS_FOR_EACH_MISSING_COLUMN = 10;

ulong guess_rows(const KEY &key, uint part) {
  const uint user_parts = key.user_defined_key_parts;
  const bool unique = key.flags & HA_NOSAME;
  if (part + 1 == key.ext_key_parts && part + 1 > user_parts) return 1;
  if (part + 1 >= user_parts) return unique ? 1 : ROWS_OF_A_VALUE;
  ulong rows = unique ? 1 : ROWS_OF_A_VALUE;
  for (uint missing = part + 1; missing < user_parts && rows < 1000000; missing++)
    rows *= ROWS_FOR_EACH_MISSING_COLUMN;
  return rows;
}

/* Of the table's definition: ALTER and RENAME make it anew, a restart does not. */
time_t definition_time(const TABLE_SHARE *share) {
  struct stat info;
  const std::string file = std::string(share->normalized_path.str) + reg_ext;
  return stat(file.c_str(), &info) == 0 ? info.st_ctime : 0;
}

}  // namespace

int OpenTable::refuse(const char *format, ...) const {
  char why[256];
  va_list arguments;
  va_start(arguments, format);
  my_vsnprintf(why, sizeof(why), format, arguments);
  va_end(arguments);
  sql_print_error("TidesDB: the table '%s' cannot be used: %s", name_.c_str(), why);
  my_printf_error(ER_UNKNOWN_ERROR, "TidesDB: the table '%s' cannot be used: %s", MYF(0), name_.c_str(), why);
  return REFUSED;
}

int OpenTable::open(const std::string &name, const TABLE *table) {
  name_ = name;
  if (const ha_table_option_struct *options = table->s->option_struct) {
    isolation_level_ = static_cast<int>(options->isolation_level);
    min_disk_space_ = options->min_disk_space;
    ttl_ = options->ttl;
    ttl_column_ = lifetime_column(table);
  }
  FamilyHandle rows;
  int status = open_family(plugin.db, primary_family(name), &rows);
  if (status != TIDESDB_OK) return status;
  std::vector<uint8_t> bytes;
  status = family_record(rows.get(), &bytes);
  if (status != TIDESDB_OK) return status;
  const TABLE_SHARE *share = table->s;
  if (!bytes.empty() && (bytes[0] == 0 || bytes[0] > TABLE_RECORD_VERSION))
    return refuse("its dictionary record has format version %u, this build knows versions up to %u", bytes[0],
                  TABLE_RECORD_VERSION);
  if (!record_.decode(bytes)) return refuse("its dictionary record cannot be read (%zu bytes)", bytes.size());
  if (record_.history.version != FIRST_ROW_LAYOUT + record_.history.older.size())
    return refuse("its rows have layout version %llu, its dictionary record explains versions up to %llu",
                  record_.history.version, FIRST_ROW_LAYOUT + record_.history.older.size());
  const bool has_primary = share->primary_key != MAX_KEY;
  if (record_.indexes.size() != share->keys || record_.has_primary_key != has_primary)
    return refuse("it has %zu indexes in the engine's dictionary and %u in the server's",
                  record_.indexes.size(), share->keys);
  if (record_.columns.size() != share->fields)
    return refuse("it has %zu columns in the engine's dictionary and %u in the server's",
                  record_.columns.size(), share->fields);
  sort_indexes(table);
  create_time_ = definition_time(share);
  row_log_ = row_log_of(record_.table_id);
  rebuild_indexes(table, rows.get());
  update_time_ =
      is_temporary(name) ? std::make_shared<std::atomic<time_t>>(0) : update_time_of(record_.table_id);
  /* An index that came after ANALYZE has no statistics yet. */
  const auto is_analyzed = [](const IndexRecord &index) { return !index.rows_per_key.empty(); };
  sampled_rows_ =
      !record_.indexes.empty() && std::all_of(record_.indexes.begin(), record_.indexes.end(), is_analyzed)
          ? record_.analyzed_rows
          : NEVER;
  return open_families(table, std::move(rows));
}

/* All or none: after an error these are those before, which a TRUNCATE has taken away. */
int OpenTable::open_families(const TABLE *table, FamilyHandle rows) {
  std::vector<Family> families;
  std::vector<tidesdb_family *> by_key(table->s->keys, rows.get());
  families.push_back({std::move(rows), MAX_KEY});
  for (const TableFamily &family : table_families(name_, record_)) {
    if (family.has_rows()) continue;
    FamilyHandle opened;
    const int status = open_family(plugin.db, family.name, &opened);
    if (status != TIDESDB_OK) {
      sql_print_error("TidesDB: no column family for index '%s' of '%s'",
                      record_.indexes[family.key].name.c_str(), name_.c_str());
      return status;
    }
    /* One that a recovered transaction has locked keeps a table lock of its own. */
    tidesdb_family_attach(opened.get(), families.front().get());
    if (families.back().key != family.key) by_key[family.key] = opened.get();
    families.push_back({std::move(opened), family.key});
  }
  known_families_.clear();
  for (const Family &family : families)
    known_families_.add(family.get(), name_, table, family.has_rows() ? table->s->primary_key : family.key);
  primary_ = families.front().get();
  families_ = std::move(families);
  by_key_ = std::move(by_key);
  return TIDESDB_OK;
}

/* The record stands in the order of the table that it was made for, and EXCHANGE PARTITION takes one for
   another whose keys have the same names in any order. */
void OpenTable::sort_indexes(const TABLE *table) {
  std::vector<IndexRecord> sorted;
  for (uint key = 0; key < table->s->keys; key++) {
    if (const IndexRecord *index = index_named(record_, table->key_info[key].name)) sorted.push_back(*index);
  }
  if (sorted.size() == record_.indexes.size()) record_.indexes = std::move(sorted);
}

/* Where nobody else has the table open: the row log would be theirs, too. What cannot be rebuilt now is
   hidden from the optimizer, and the next opening tries again. */
void OpenTable::rebuild_indexes(const TABLE *table, tidesdb_family *rows) {
  if (is_temporary(name_)) return;
  TABLE *opened = const_cast<TABLE *>(table);
  mark_other_expressions(opened, &record_);
  if (!plugin.ddl_recovery_done || row_log_.use_count() != 1 || !has_stale_indexes(table, record_)) return;
  rebuild_stale_indexes(table->in_use, opened, name_, rows, &record_);
}

std::vector<IndexRecord> OpenTable::indexes() {
  std::lock_guard<std::mutex> guard(record_mutex_);
  return record_.indexes;
}

TableRecord OpenTable::record() {
  TableRecord now, copy;
  const bool is_read = read_record(name_, &now);
  std::lock_guard<std::mutex> guard(record_mutex_);
  copy = record_;
  if (is_read) copy.take_links(now);
  return copy;
}

bool OpenTable::is_referenced() const {
  const uint64_t generation = foreign::generation();
  if (referenced_at_.load(std::memory_order_acquire) != generation) {
    referenced_.store(!foreign::keys_to(name_).empty(), std::memory_order_relaxed);
    referenced_at_.store(generation, std::memory_order_release);
  }
  return referenced_.load(std::memory_order_relaxed);
}

/* Statistics of a table that had `known` rows say little of one with `rows`. */
static bool differs(uint64_t known, uint64_t rows) {
  return (rows < known ? known - rows : rows - known) > known / 10 + 16;
}

void OpenTable::fill_rows_per_key(TABLE *table) {
  std::lock_guard<std::mutex> guard(record_mutex_);
  /* ANALYZE reads more than a sample for plans, which a new index has made necessary. */
  const bool holds = !differs(record_.analyzed_rows, sampled_rows_.load(std::memory_order_relaxed));
  for (uint number = 0; number < table->s->keys; number++) {
    KEY &key = table->key_info[number];
    const std::vector<uint64_t> &analyzed = record_.indexes[number].rows_per_key;
    const std::vector<uint64_t> &known =
        sample_.empty() || (holds && !analyzed.empty()) ? analyzed : sample_[number];
    for (uint part = 0; part < key.ext_key_parts; part++) {
      ulong rows = is_full_text(key) ? 0 : guess_rows(key, part); /* SHOW INDEX has no cardinality of words */
      if (part < known.size()) rows = static_cast<ulong>(std::max<uint64_t>(1, (known[part] + 50) / 100));
      key.rec_per_key[part] = rows;
    }
  }
}

bool OpenTable::begin_sample(uint64_t rows, bool for_display) {
  const uint64_t known = sampled_rows_.load(std::memory_order_relaxed);
  const bool is_due = known == NEVER ? rows != 0 : differs(known, rows);
  if (!is_due && !(for_display && is_rough_.load(std::memory_order_relaxed))) return false;
  const ulonglong now = my_interval_timer();
  if (!for_display && now < next_sample_.load(std::memory_order_relaxed)) return false;
  if (samples_.exchange(true)) return false;
  sample_began_ = now;
  return true;
}

void OpenTable::set_sample(uint64_t rows, RowsPerKey rows_per_key, bool is_rough) {
  if (!rows_per_key.empty()) {
    std::lock_guard<std::mutex> guard(record_mutex_);
    sample_ = std::move(rows_per_key);
    sampled_rows_ = rows;
    is_rough_ = is_rough;
  }
  const ulonglong now = my_interval_timer();
  next_sample_ = now + 20 * (now - sample_began_);
  samples_ = false;
}

int OpenTable::set_statistics(uint64_t rows, RowsPerKey rows_per_key) {
  const std::lock_guard<std::mutex> others(records_of_others());
  TableRecord now;
  const bool is_read = read_record(name_, &now);
  std::lock_guard<std::mutex> guard(record_mutex_);
  TableRecord changed = record_;
  if (is_read) changed.take_links(now);
  changed.analyzed_rows = rows;
  for (size_t i = 0; i < changed.indexes.size(); i++)
    changed.indexes[i].rows_per_key = std::move(rows_per_key[i]);
  DdlGroup group;
  int status = group.begin(plugin.db);
  if (status == TIDESDB_OK) status = group.set_record(primary_family(name_), changed.encode());
  if (status == TIDESDB_OK) status = group.commit();
  if (status != TIDESDB_OK) return status;
  /* Readers of rows hold on to the history. */
  record_.analyzed_rows = rows;
  record_.indexes = std::move(changed.indexes);
  sample_.clear();
  sampled_rows_ = rows;
  is_rough_ = false;
  return status;
}

}  // namespace tidesdb
