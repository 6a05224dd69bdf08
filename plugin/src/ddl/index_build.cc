#include "ddl/index_build.h"

#include <algorithm>

#include <mysql/plugin.h>

#include "sql_class.h"

#include "ddl/definition.h"
#include "ddl/index_kinds.h"
#include "ddl/table_families.h"
#include "ddl/table_path.h"
#include "errors.h"
#include "row/row_ttl.h"
#include "store/chunked_load.h"
#include "store/store.h"
#include "sysvars.h"

namespace tidesdb {

namespace {

/* Remaining changes are applied alongside the writers until they are so few, or so often. */
constexpr ulonglong FEW_CHANGES = 2000;
constexpr uint MOST_ROUNDS = 8;

}  // namespace

int IndexBuild::View::open() {
  int status = create_txn(plugin.db, &txn_);
  if (status == TIDESDB_OK)
    status = tidesdb_txn_begin(txn(), TIDESDB_REPEATABLE_READ, TIDESDB_TXN_OLDEST_VIEW);
  if (status != TIDESDB_OK) return status;
  open_ = true;
  status = tidesdb_txn_statement_begin(txn(), 0, 0);
  return status == TIDESDB_OK ? tidesdb_txn_take_snapshot(txn()) : status;
}

bool IndexBuild::killed() const { return thd_kill_level(thd_) >= THD_ABORT_SOFTLY; }

int IndexBuild::fail(int status) const { return plain_error(status, "ALTER TABLE"); }

int IndexBuild::undecodable_row(Slice value) const {
  const std::string layout = row_codec_->unknown_layout(value);
  if (layout.empty()) return HA_ERR_CRASHED;
  my_printf_error(ER_UNKNOWN_ERROR, "TidesDB: ALTER TABLE: %s", MYF(0), layout.c_str());
  return HA_ERR_GENERIC;
}

int IndexBuild::prepare(const HA_CREATE_INFO *info, RowLog *log) {
  if (const int error = make_kinds()) return error;
  if (const int error = choose_columns()) return error;
  if (const int error = make_families(info, log != nullptr)) return error;
  if (!log) return 0;
  FamilyHandle changes;
  const int status = open_family(plugin.db, changes_family(shadow_), &changes);
  if (status != TIDESDB_OK) return fail(status);
  log->open(std::move(changes));
  log_ = log;
  return 0;
}

int IndexBuild::run() {
  thd_progress_init(thd_, static_cast<uint>(1 + plan_.added.size()));
  int error = read_rows();
  Ingest tables;
  for (size_t i = 0; error == 0 && i < plan_.added.size(); i++) {
    thd_progress_next_stage(thd_);
    error = write_entries(i, &tables);
  }
  if (error == 0) {
    const int status = tables.finish();
    if (status != TIDESDB_OK) error = fail(status);
  }
  for (uint round = 0; error == 0 && has_log() && round < MOST_ROUNDS; round++) {
    ulonglong changes = 0;
    error = apply_row_log(&changes);
    if (changes < FEW_CHANGES) break;
  }
  thd_progress_end(thd_);
  return error;
}

int IndexBuild::make_kinds() {
  const uint primary = altered_->s->primary_key;
  if (primary != MAX_KEY) {
    primary_codec_ = KeyCodec::make(altered_, primary, nullptr);
    if (!primary_codec_) return HA_ERR_OUT_OF_MEM;
  }
  row_codec_ = RowCodec::make(altered_, primary_codec_.get(), plan_.record.history);
  if (!row_codec_) return HA_ERR_OUT_OF_MEM;
  reader_.reset(new RowReader(*row_codec_));
  if (!virtual_columns_.compile(altered_, plan_.record.indexes)) return HA_ERR_OUT_OF_MEM;
  std::string why;
  if (!virtual_columns_.prepare(thd_, &why)) {
    my_printf_error(ER_UNKNOWN_ERROR, "TidesDB: %s", MYF(0), why.c_str());
    return HA_ERR_GENERIC;
  }
  for (size_t i = 0; i < plan_.added.size(); i++) {
    const uint key = plan_.added[i].key;
    kinds_.push_back(make_index_kind(altered_, key, primary_codec_.get(), plan_.record.indexes[key]));
    if (!kinds_.back()) return HA_ERR_OUT_OF_MEM;
    EntryLoad::Owner owner{[this] { return killed(); }, [this](int status) { return fail(status); },
                           [this, i](Slice key, Slice value) { return duplicate(i, key, value); }};
    loads_.emplace_back(new EntryLoad(*kinds_.back(), plan_.added.size(), std::move(owner)));
  }
  return 0;
}

int IndexBuild::make_families(const HA_CREATE_INFO *info, bool with_log) {
  DdlGroup group;
  int status = group.begin(plugin.db);
  std::vector<std::string> leftovers;
  if (status == TIDESDB_OK) status = list_families(plugin.db, families_of(shadow_), &leftovers);
  for (const std::string &name : leftovers)
    if (status == TIDESDB_OK) status = group.drop(name);
  for (const AlterPlan::AddedIndex &index : plan_.added) {
    tidesdb_family_options options;
    fill_family_options(altered_->s, info, &altered_->key_info[index.key], &options);
    for (const TableFamily &family : index_families(shadow_, index.key, index.id))
      if (status == TIDESDB_OK) status = group.create(family.name, options, {});
  }
  if (with_log && status == TIDESDB_OK) {
    tidesdb_family_options options;
    fill_family_options(altered_->s, info, nullptr, &options);
    status = group.create(changes_family(shadow_), options, {});
  }
  if (status == TIDESDB_OK) status = group.commit();
  return status == TIDESDB_OK ? 0 : fail(status);
}

/* The columns that the entries are made of. */
int IndexBuild::choose_columns() {
  for (const AlterPlan::AddedIndex &index : plan_.added) {
    const KEY &key = altered_->key_info[index.key];
    for (uint part = 0; part < key.user_defined_key_parts; part++)
      bitmap_set_bit(&altered_->tmp_set, key.key_part[part].fieldnr - 1U);
    virtual_columns_.add_dependencies(index.key, &altered_->tmp_set);
  }
  if (primary_codec_)
    for (const KeyPart &part : primary_codec_->parts()) bitmap_set_bit(&altered_->tmp_set, part.field_index);
  const TABLE_SHARE &share = *altered_->s;
  first_parts_ = std::none_of(share.blob_field, share.blob_field + share.blob_fields,
                              [this](uint field) { return bitmap_is_set(&altered_->tmp_set, field); });
  const bool chosen = reader_->choose(&altered_->tmp_set);
  bitmap_clear_all(&altered_->tmp_set);
  return chosen ? 0 : HA_ERR_OUT_OF_MEM;
}

int IndexBuild::read_rows() {
  view_.reset(new View);
  int status = view_->open();
  CursorHandle cursor;
  if (status == TIDESDB_OK) status = open_cursor(rows_, &cursor);
  if (status != TIDESDB_OK) return fail(status);

  const tidesdb_family_stats stats = stats_of(rows_);

  tidesdb_seek first;
  memset(&first, 0, sizeof(first));
  first.where = TIDESDB_SEEK_FIRST;
  first.mode = TIDESDB_READ_SNAPSHOT | (first_parts_ ? TIDESDB_READ_FIRST_PART : 0);
  ulonglong rows = 0;
  for (status = tidesdb_cursor_seek(cursor.get(), view_->txn(), &first); status == TIDESDB_OK;
       status = tidesdb_cursor_next(cursor.get())) {
    if (++rows % ROWS_BETWEEN_LOOKS == 0) {
      if (killed()) return HA_ERR_ABORTED_BY_USER;
      if (stats.struct_size) thd_progress_report(thd_, rows, std::max<ulonglong>(rows, stats.entries));
    }
    const tidesdb_row &row = cursor->rows[cursor->position];
    const Slice primary_key{row.key, row.key_size};
    const Slice value{row.value, row.value_size};
    if (!reader_->read(primary_key, value, altered_->record[0], first_parts_)) return undecodable_row(value);
    for (size_t i = 0; i < plan_.added.size(); i++)
      if (const int error = loads_[i]->add_row(record_for(i), primary_key, row.expiry)) return error;
  }
  /* An expression may have ended with NULL because of that. */
  if (virtual_columns_.has_any() && killed()) return HA_ERR_ABORTED_BY_USER;
  return status == TIDESDB_NOT_FOUND ? 0 : fail(status);
}

const uchar *IndexBuild::record_for(size_t place) {
  const uint number = plan_.added[place].key;
  const uchar *record = altered_->record[0];
  return virtual_columns_.index_has_any(number) ? virtual_columns_.row_with(number, record) : record;
}

void IndexBuild::make_entries(size_t place, Slice primary_key, EntrySet *entries) {
  kinds_[place]->entries(record_for(place), primary_key, entries);
}

int IndexBuild::write_entries(size_t index, Ingest *tables) {
  FamilyHandle family;
  int status = open_family(plugin.db, entries_family(shadow_, plan_.added[index].id), &family);
  if (status != TIDESDB_OK) return fail(status);
  const int error = loads_[index]->write(thd_, family.get(), tables);
  loads_[index].reset();
  return error;
}

/* Two rows have this key of a unique index: the client is told, with the columns of one of them. */
int IndexBuild::duplicate(size_t index, Slice key, Slice value) {
  Slice primary_key, row;
  CursorHandle cursor;
  if (!kinds_[index]->primary_key(key, value, &primary_key)) return HA_ERR_CRASHED;
  int status = open_cursor(rows_, &cursor);
  if (status == TIDESDB_OK)
    status = tidesdb_cursor_get(cursor.get(), view_->txn(), primary_key.data, primary_key.size,
                                TIDESDB_READ_SNAPSHOT, &row);
  if (status != TIDESDB_OK) return fail(status);
  if (!reader_->read(primary_key, row, altered_->record[0])) return undecodable_row(row);
  const uint number = plan_.added[index].key;
  virtual_columns_.complete(number, altered_->record[0]);
  print_keydup_error(altered_, &altered_->key_info[number], MYF(0));
  return HA_ERR_FOUND_DUPP_KEY;
}

}  // namespace tidesdb
