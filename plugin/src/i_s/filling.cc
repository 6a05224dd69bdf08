#include "i_s/filling.h"

#include <atomic>

#include "sql_acl.h"
#include "tztime.h"

#include "server.h"
#include "store/store.h"

namespace tidesdb {

namespace i_s {

namespace {

const LEX_CSTRING ENGINE = {STRING_WITH_LEN("TidesDB")};

constexpr longlong SECOND = 1000000;

/*
  Microseconds of the server's clock at the start of the engine's. Kept as long as it is right within a
  second, so that a transaction has the same start whenever one looks.
*/
longlong clock_offset(const tidesdb_db *db) {
  static std::atomic<longlong> kept{0};
  const longlong now = static_cast<longlong>(my_hrtime().val) - static_cast<longlong>(tidesdb_now_micros(db));
  const longlong known = kept.load(std::memory_order_relaxed);
  if (known != 0 && known < now + SECOND && now < known + SECOND) return known;
  kept.store(now, std::memory_order_relaxed);
  return now;
}

}  // namespace

int describe(void *schema, ST_FIELD_INFO *columns, Fill fill) {
  ST_SCHEMA_TABLE *table = static_cast<ST_SCHEMA_TABLE *>(schema);
  table->fields_info = columns;
  table->fill_table = fill;
  return 0;
}

Filling::Filling(THD *thd, TABLE_LIST *tables) : thd_(thd), table_(tables->table) {
  if (check_global_access(thd, PROCESS_ACL)) {
    refused_ = 1;
    return;
  }
  /* Without the session: unlocked at the end of the filling, not of the statement. */
  engine_ = plugin_lock_by_name(nullptr, &ENGINE, MYSQL_STORAGE_ENGINE_PLUGIN);
  if (engine_) db_ = plugin.db;
  if (!db_)
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_STORAGE_ENGINE,
                        "TidesDB: INFORMATION_SCHEMA.%s is empty: the storage engine does not run",
                        tables->schema_table_name.str);
}

Filling::~Filling() {
  db_ = nullptr;
  if (engine_) plugin_unlock(nullptr, engine_);
}

Field *Filling::next() {
  Field *field = table_->field[column_++];
  field->set_notnull();
  return field;
}

void Filling::number(uint64_t value) {
  if (value == TIDESDB_UNKNOWN)
    null();
  else
    next()->store(static_cast<longlong>(value), true);
}

void Filling::real(double value) { next()->store(value); }

void Filling::text(const char *text, size_t size) { next()->store(text, size, system_charset_info); }

void Filling::text(const char *text) { this->text(text, strlen(text)); }

void Filling::name(const std::string &name) {
  if (name.empty())
    null();
  else
    text(name.data(), name.size());
}

void Filling::key(const tidesdb_key_part &key) {
  if (key.size == TIDESDB_UNKNOWN) return null();
  /* With the zero byte that write_hex() ends it with. */
  std::string hex(2 * key.bytes.size + 1, '\0');
  write_hex(&hex[0], key.bytes.data, key.bytes.size);
  hex.pop_back();
  if (key.size > key.bytes.size) hex += "...";
  text(hex.data(), hex.size());
}

void Filling::time(uint64_t micros) {
  if (micros == TIDESDB_UNKNOWN) return null();
  const longlong at = clock_offset(db_) + static_cast<longlong>(micros);
  MYSQL_TIME time;
  thd_->variables.time_zone->gmt_sec_to_TIME(&time, static_cast<my_time_t>(at / SECOND));
  time.second_part = static_cast<ulong>(at % SECOND);
  next()->store_time_dec(&time, TIME_SECOND_PART_DIGITS);
}

void Filling::null() { table_->field[column_++]->set_null(); }

int Filling::store() {
  DBUG_ASSERT(column_ == table_->s->fields);
  column_ = 0;
  failed_ = thd_killed(thd_) || schema_table_store_record(thd_, table_);
  return failed_;
}

int Filling::result(int status) {
  if (status != TIDESDB_OK) {
    my_printf_error(ER_GET_ERRMSG, "TidesDB: %s", MYF(0), tidesdb_last_error());
    failed_ = 1;
  }
  return failed_;
}

}  // namespace i_s

}  // namespace tidesdb
