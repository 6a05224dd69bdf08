/*
  Flags, open and close, and the DDL calls of the handler.
*/
#include "handler/ha_tidesdb.h"

#include "log.h"
#include "sql_class.h"

#include "cluster/local_changes.h"
#include "ddl/index_kinds.h"
#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "errors.h"
#include "handler/bulk_load.h"
#include "server.h"
#include "store/store.h"
#include "sysvars.h"

using namespace tidesdb;

ha_tidesdb::ha_tidesdb(handlerton *hton, TABLE_SHARE *share) : ServerHandler(hton, share) {}

ha_tidesdb::~ha_tidesdb() = default;

handler::Table_flags ha_tidesdb::table_flags() const {
  /* Called with a share that is half made, or none: only an open table's may be looked at. */
  constexpr Table_flags always =
      HA_NULL_IN_KEY | HA_CAN_INDEX_BLOBS | HA_PARTIAL_COLUMN_READ | HA_TABLE_SCAN_ON_INDEX |
      HA_REC_NOT_IN_SEQ | HA_REQUIRES_KEY_COLUMNS_FOR_DELETE | HA_PRIMARY_KEY_IN_READ_INDEX |
      HA_PRIMARY_KEY_REQUIRED_FOR_POSITION | HA_CAN_SQL_HANDLER | HA_BINLOG_ROW_CAPABLE |
      HA_CAN_VIRTUAL_COLUMNS | HA_ONLINE_ANALYZE | HA_CONCURRENT_OPTIMIZE | HA_CAN_SKIP_LOCKED |
      HA_CAN_TABLES_WITHOUT_ROLLBACK | HA_CAN_GEOMETRY | HA_CAN_ONLINE_BACKUPS | HA_CAN_REPAIR |
      HA_CAN_FULLTEXT | HA_CAN_FULLTEXT_EXT | HA_HAS_RECORDS;
  Table_flags flags = may_be_filled_beside_writers() ? always : always | NO_ONLINE_ALTER;
  if (!full_text_kinds_.empty()) flags |= HA_CAN_TABLE_CONDITION_PUSHDOWN;
  /* Statements that are repeated see rows that have expired meanwhile, or not yet. */
  if (open_table_ && open_table_->rows_expire()) return flags;
  return locks_keep_statement_order() ? flags | HA_BINLOG_STMT_CAPABLE : flags;
}

/*
  Whether an ALTER by copy may fill this new table while others write to the old one. The server brings their
  changes in as rows, which do not tell when they expire; begin_change() says why not beside optimistic ones.
  What REPAIR cannot read those changes would look for.
*/
bool ha_tidesdb::may_be_filled_beside_writers() const {
  THD *thd = current_thd;
  const int command = thd ? thd_sql_command(thd) : SQLCOM_END;
  /* The server asks for the flags at each statement: others have their answer here. */
  if (!open_table_ || !may_copy_rows(command) || command == SQLCOM_REPAIR) return false;
  return !open_table_->rows_expire() && sysvars::pessimistic_locking() &&
         tidesdb_has_expiring_keys(plugin.db) != TIDESDB_OK;
}

/*
  Whether statements repeated in the order of their commits do the same again: everything that a change
  reads, found or missing, must stay locked to the transaction's end. At READ COMMITTED and in optimistic
  transactions it does not; there, as with InnoDB, changes are logged as rows or refused with 1665.
*/
bool ha_tidesdb::locks_keep_statement_order() const {
  THD *thd = current_thd;
  if (!thd) return false;
  const int of_table = open_table_ ? open_table_->isolation_level() : TIDESDB_REPEATABLE_READ;
  if (Session::level_for(thd, of_table) < TIDESDB_REPEATABLE_READ) return false;
  const Session *session = Session::find(thd);
  return session && session->is_active() ? !session->optimistic() : sysvars::pessimistic_locking();
}

/* The server uses HA_KEYREAD_ONLY for parts over a whole column that is no BLOB: those can be read back. It
   asks for MIN and MAX before it asks for the number of rows, when hidden indexes are in its notes still. */
ulong ha_tidesdb::index_flags(uint index, uint, bool all_parts) const {
  const bool gives_no_order = !all_parts && index < hidden_.size() && hidden_[index];
  const ulong flags = HA_READ_NEXT | HA_READ_PREV | (gives_no_order ? 0 : HA_READ_ORDER) | HA_READ_RANGE;
  if (!table_share) return flags | HA_KEYREAD_ONLY;
  if (is_clustered(index)) return flags | HA_CLUSTERED_INDEX;
  if (table_share->key_info && (is_full_text(table_share->key_info[index]) ||
                                table_share->key_info[index].algorithm == HA_KEY_ALG_RTREE))
    return 0;
  return flags | HA_KEYREAD_ONLY | HA_DO_INDEX_COND_PUSHDOWN |
         (rowid_filters_offered_ ? HA_DO_RANGE_FILTER_PUSHDOWN : 0);
}

/* The type in SHOW INDEX is InnoDB's: applications look for BTREE, and pass over an index of a name that they
   do not know. UNIQUE over long columns keeps hashes; a key that is asked for USING HASH has that name too.
 */
const char *ha_tidesdb::index_type(uint index) {
  if (is_full_text(table->key_info[index])) return "FULLTEXT";
  const ha_key_alg algorithm = table->key_info[index].algorithm;
  return algorithm == HA_KEY_ALG_HASH || algorithm == HA_KEY_ALG_LONG_HASH ? "HASH" : "BTREE";
}

OpenTable *ha_tidesdb::find_open_table(const char *name, int *error) {
  lock_shared_ha_data();
  OpenTable *found = static_cast<OpenTable *>(get_ha_share_ptr());
  if (!found) {
    std::unique_ptr<OpenTable> made(new (std::nothrow) OpenTable);
    if (!made) {
      *error = HA_ERR_OUT_OF_MEM;
    } else {
      const int status = made->open(canonical_table(name), table);
      if (status == TIDESDB_OK) {
        found = made.release();
        set_ha_share_ptr(found);
      } else {
        *error = status == TIDESDB_NO_SUCH_FAMILY ? HA_ERR_NO_SUCH_TABLE
                 : status == OpenTable::REFUSED   ? HA_ERR_GENERIC
                                                  : plain_error(status, "open");
      }
    }
  }
  unlock_shared_ha_data();
  return found;
}

int ha_tidesdb::open(const char *name, int, uint) {
  int error = 0;
  open_table_ = find_open_table(name, &error);
  if (!open_table_) return error;
  is_temporary_ = is_temporary(open_table_->name());
  truncations_ = open_table_->truncations();

  const uint keys = table_share->keys;
  if (has_primary_key()) {
    primary_codec_ = KeyCodec::make(table, table_share->primary_key, nullptr);
    if (!primary_codec_) return HA_ERR_OUT_OF_MEM;
  }
  const std::vector<IndexRecord> indexes = open_table_->indexes();
  if (!virtual_columns_.compile(table, indexes)) return HA_ERR_OUT_OF_MEM;
  opened_settings_ = virtual_columns_.has_any() ? ExpressionSettings::of(ha_thd()) : ExpressionSettings();
  hidden_.assign(keys, false);
  index_kinds_.resize(keys);
  index_codecs_.assign(keys, nullptr);
  const size_t bitmap_words = bitmap_buffer_size(table_share->fields) / sizeof(my_bitmap_map);
  index_columns_.resize(keys);
  index_columns_memory_.resize(keys * bitmap_words);
  for (uint i = 0; i < keys; i++) {
    my_bitmap_init(&index_columns_[i], &index_columns_memory_[i * bitmap_words], table_share->fields);
    const KEY &key = table->key_info[i];
    for (uint part = 0; part < key.user_defined_key_parts; part++)
      bitmap_set_bit(&index_columns_[i], key.key_part[part].fieldnr - 1);
    virtual_columns_.add_dependencies(i, &index_columns_[i]);
    if (is_long_unique(i) || key.without_overlaps) server_checked_keys_.push_back(i);
    if (is_primary(i)) continue;
    index_kinds_[i] = make_index_kind(table, i, primary_codec_.get(), indexes[i]);
    if (!index_kinds_[i]) return HA_ERR_OUT_OF_MEM;
    index_codecs_[i] = index_kinds_[i]->columns();
    if (const FullTextKind *words = index_kinds_[i]->full_text()) full_text_kinds_.push_back(words);
  }
  row_codec_ = RowCodec::make(table, primary_codec_.get(), open_table_->history());
  if (!row_codec_) return HA_ERR_OUT_OF_MEM;
  row_reader_.reset(new (std::nothrow) RowReader(*row_codec_));
  if (!row_reader_) return HA_ERR_OUT_OF_MEM;

  nothing_needs_blobs_ = needs_no_blobs();
  ref_length = has_primary_key() ? primary_codec_->ref_length() : static_cast<uint>(HIDDEN_KEY_SIZE);
  key_used_on_scan = table_share->primary_key;
  cursors_.scans.resize(keys + 1);
  writer_.open(keys);
  memset(last_row_.number, 0, sizeof(last_row_.number));
  stats.block_size = IO_SIZE;
  open_table_->fill_rows_per_key(table);
  return info(HA_STATUS_NO_LOCK | HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_OPEN);
}

/* Neither entries nor computed columns need a BLOB of their row. (The server names what defaults read.) */
bool ha_tidesdb::needs_no_blobs() const {
  /* A row without a key is certified by all of it. */
  if (cluster::takes_part() && !has_primary_key()) return false;
  for (uint i = 0; i < table_share->fields; i++)
    if (!table->field[i]->stored_in_db()) return false;
  for (uint i = 0; i < table_share->keys; i++) {
    const KEY &key = table->key_info[i];
    for (uint part = 0; part < key.user_defined_key_parts; part++)
      if (key.key_part[part].field->flags & BLOB_FLAG) return false;
  }
  return true;
}

int ha_tidesdb::close() {
  ds_mrr_.dsmrr_close();
  scan_.cursor = nullptr;
  scan_.locked.forget();
  cursors_.close();
  writer_.close_cursors();
  bulk_.reset();
  other_rows_.reset();
  row_reader_.reset();
  whole_reader_.reset();
  row_codec_.reset();
  index_codecs_.clear();
  full_text_kinds_.clear();
  index_kinds_.clear();
  primary_codec_.reset();
  virtual_columns_.clear();
  child_tables_.clear();
  row_checks_.reset();
  server_checked_keys_.clear();
  partition_number_ = MY_BIT_NONE;
  open_table_ = nullptr;
  return 0;
}

handler *ha_tidesdb::clone(const char *name, MEM_ROOT *mem_root) {
  ha_tidesdb *copy = static_cast<ha_tidesdb *>(handler::clone(name, mem_root));
  if (!copy) return nullptr;
  copy->lock_choice_ = lock_choice_;
  copy->lock_choice_.semi_consistent = false; /* each handler is asked itself */
  copy->changes_rows_ = changes_rows_;
  copy->session_ = session_;
  copy->opened_settings_ = opened_settings_;
  return copy;
}

int ha_tidesdb::create(const char *name, TABLE *form, HA_CREATE_INFO *info) {
  THD *thd = ha_thd();
  if (const int error = tidesdb::create_table(thd, name, form, info)) return error;
  ref_length = static_cast<uint>(HIDDEN_KEY_SIZE);
  if (form->s->primary_key != MAX_KEY) {
    const std::unique_ptr<KeyCodec> primary = KeyCodec::make(form, form->s->primary_key, nullptr);
    if (!primary) return HA_ERR_OUT_OF_MEM;
    ref_length = primary->ref_length();
  }
  return 0;
}

int ha_tidesdb::delete_table(const char *name) { return tidesdb::drop_table(name); }

int ha_tidesdb::rename_table(const char *from, const char *to) { return tidesdb::rename_table(from, to); }

void ha_tidesdb::leave_families() {
  scan_.cursor = nullptr;
  scan_.locked.forget();
  scan_.position = Scan::Position::NONE;
  cursors_.close();
  writer_.close_cursors();
  other_rows_.reset();
  table_locks_.forget();
}

/* The families are others then: who truncates a partition goes on with this handler, and under LOCK TABLES
   with those of the table's other names. */
int ha_tidesdb::truncate() {
  leave_families();
  if (const int error = truncate_table(open_table_->name().c_str())) return error;
  const int status = open_table_->reopen(table);
  truncations_ = open_table_->truncations();
  return status == TIDESDB_OK ? 0 : plain_error(status, "TRUNCATE TABLE");
}

int ha_tidesdb::reset_auto_increment(ulonglong value) {
  return set_auto_increment(open_table_->name().c_str(), std::max(value, 1ULL));
}

void ha_tidesdb::update_create_info(HA_CREATE_INFO *info_arg) {
  if (info_arg->used_fields & HA_CREATE_USED_AUTO) return;
  info(HA_STATUS_AUTO);
  info_arg->auto_increment_value = stats.auto_increment_value;
}

/* EXCHANGE PARTITION asks: whether rows and entries of another table that the server found equal are read as
 * ours. */
bool ha_tidesdb::check_if_incompatible_data(HA_CREATE_INFO *, uint table_changes) {
  return table_changes == IS_EQUAL_YES && !has_other_words() ? COMPATIBLE_DATA_YES : COMPATIBLE_DATA_NO;
}

/* An error is the connection's, and another handler may be asked for it: of a partition without a part in the
   statement, or of a table whose lock failed. */
Session *ha_tidesdb::session_of_error() const {
  THD *thd = ha_thd();
  return thd ? Session::find(thd) : nullptr;
}

void ha_tidesdb::print_error(int error, myf flags) {
  if (error == ERROR_IS_GIVEN) return;
  const Session *session = session_of_error();
  if (error == ERROR_TOO_LARGE && session)
    my_printf_error(ER_TRANS_CACHE_FULL, "%s", flags, session->error_text().c_str());
  else if (error == ERROR_NO_MEMORY && session)
    my_printf_error(ER_OUTOFMEMORY, "TidesDB: %s", flags, session->error_text().c_str());
  else if (error == ERROR_NOT_REPLICATED && session)
    my_printf_error(ER_GALERA_REPLICATION_NOT_SUPPORTED, "TidesDB: %s", flags, session->error_text().c_str());
  else if (const uint index = error == HA_ERR_FOUND_DUPP_KEY && session_ ? get_dup_key(error) : MAX_KEY;
           index < table_share->keys && virtual_columns_.index_has_any(index)) {
    /* The message names the row's values. Where a BEFORE trigger has changed the columns that a virtual one
       is computed from, the server's record still has that one as it was. */
    uchar *const record = table->record[0];
    buffers_.kept_record.assign({record, table_share->reclength});
    virtual_columns_.complete(index, record);
    handler::print_error(error, flags);
    memcpy(record, buffers_.kept_record.data(), table_share->reclength);
    buffers_.kept_record.clear();
  } else
    handler::print_error(error, flags);
}

bool ha_tidesdb::get_error_message(int error, String *text) {
  Session *session = session_of_error();
  /* What a row violated: DROP TABLE, which opens none, would tell of an earlier statement's. */
  if (session && open_table_ &&
      (error == HA_ERR_NO_REFERENCED_ROW || error == HA_ERR_ROW_IS_REFERENCED ||
       error == HA_ERR_FK_DEPTH_EXCEEDED)) {
    const std::string &message = session->cascade().violation;
    text->copy(message.data(), message.size(), system_charset_info);
  }
  if (error == ERROR_WITH_TEXT && session) {
    const std::string &message = session->error_text();
    text->copy(message.data(), message.size(), system_charset_info);
  }
  return false;
}
