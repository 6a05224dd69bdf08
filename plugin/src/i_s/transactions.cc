/*
  TIDESDB_TRX and TIDESDB_LOCKS: who is at work, and who waits for whom.
*/
#include "key/sql_headers.h"

#include <mysql/plugin.h>

#include <unordered_map>
#include <unordered_set>

#include "ddl/known_families.h"
#include "i_s/family_names.h"
#include "i_s/filling.h"
#include "i_s/tables.h"
#include "txn/wait_observer.h"
#include "txn/xid.h"

namespace tidesdb {

namespace i_s {

namespace {

/* Characters of a key, or the two of a range, as text. */
constexpr uint LOCK_DATA_WIDTH = 1024;

/* A session of 0 is none. */
uint64_t thread_id(uint64_t session) { return session ? session : TIDESDB_UNKNOWN; }

ST_FIELD_INFO trx[] = {Show::Column("TRX_ID", Show::ULonglong(), NOT_NULL),
                       Show::Column("THREAD_ID", Show::ULonglong(), NULLABLE),
                       Show::Column("STATE", Show::Varchar(16), NOT_NULL),
                       Show::Column("STARTED", Show::Datetime(6), NULLABLE),
                       Show::Column("WAIT_STARTED", Show::Datetime(6), NULLABLE),
                       Show::Column("BLOCKING_TRX_ID", Show::ULonglong(), NULLABLE),
                       Show::Column("BLOCKING_THREAD_ID", Show::ULonglong(), NULLABLE),
                       Show::Column("ISOLATION_LEVEL", Show::Varchar(16), NULLABLE),
                       Show::Column("MODE", Show::Varchar(16), NULLABLE),
                       Show::Column("SNAPSHOT_SEQ", Show::ULonglong(), NULLABLE),
                       Show::Column("TABLES_LOCKED", Show::ULonglong(), NULLABLE),
                       Show::Column("KEYS_LOCKED", Show::ULonglong(), NULLABLE),
                       Show::Column("CHANGES", Show::ULonglong(), NOT_NULL),
                       Show::Column("MEMORY_BYTES", Show::ULonglong(), NOT_NULL),
                       Show::Column("XID", Show::Varchar(300), NULLABLE),
                       Show::Column("QUERY", Show::Varchar(STATEMENT_PART), NULLABLE),
                       Show::CEnd()};

struct Trx {
  Filling *row;
  std::unordered_map<uint64_t, std::string> statements;
};

int remember_thread(void *threads, const tidesdb_txn_info *info) {
  static_cast<std::unordered_set<uint64_t> *>(threads)->insert(info->session);
  return 0;
}

void append_hex(const char *bytes, long size, std::string *text) {
  static const char digits[] = "0123456789abcdef";
  *text += "X'";
  for (long i = 0; i < size; i++) {
    *text += digits[static_cast<uchar>(bytes[i]) >> 4];
    *text += digits[static_cast<uchar>(bytes[i]) & 15];
  }
  *text += "',";
}

/* As XA RECOVER FORMAT='SQL' shows it. */
std::string xid_text(tidesdb_slice bytes) {
  XID xid;
  if (bytes.size == 0 || !decode_xid(bytes, &xid)) return "";
  std::string text;
  append_hex(xid.data, xid.gtrid_length, &text);
  append_hex(xid.data + xid.gtrid_length, xid.bqual_length, &text);
  return text + std::to_string(xid.formatID);
}

int put_trx(void *pointer, const tidesdb_txn_info *info) {
  Trx *context = static_cast<Trx *>(pointer);
  Filling *row = context->row;
  row->number(info->id);
  row->number(thread_id(info->session));
  static const char *const states[] = {"RUNNING", "LOCK WAIT", "PREPARED"};
  row->text(states[info->state]);
  row->time(info->begun_us);
  row->time(info->waits_since_us);
  row->number(info->blocking_txn);
  row->number(thread_id(info->blocking_session));
  static const char *const levels[] = {"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SNAPSHOT",
                                       "SERIALIZABLE"};
  if (info->isolation < array_elements(levels)) {
    row->text(levels[info->isolation]);
    row->text(info->optimistic ? "OPTIMISTIC" : "PESSIMISTIC");
  } else {
    row->null();
    row->null();
  }
  row->number(info->snapshot);
  row->number(info->tables);
  row->number(info->locks);
  row->number(info->changes);
  row->number(info->batch_bytes);
  row->name(xid_text(info->xid));
  const auto statement = context->statements.find(info->session);
  row->name(statement == context->statements.end() ? std::string() : statement->second);
  return row->store();
}

int fill_trx(THD *thd, TABLE_LIST *tables, Item *) {
  Filling row(thd, tables);
  if (!row.may_read()) return row.refused();
  std::unordered_set<uint64_t> threads;
  if (row.result(tidesdb_transactions(row.db(), remember_thread, &threads))) return 1;
  Trx context{&row, running_statements(threads)};
  return row.result(tidesdb_transactions(row.db(), put_trx, &context));
}

ST_FIELD_INFO locks[] = {Show::Column("TRX_ID", Show::ULonglong(), NOT_NULL),
                         Show::Column("THREAD_ID", Show::ULonglong(), NULLABLE),
                         Show::Column("STATUS", Show::Varchar(8), NOT_NULL),
                         Show::Column("LOCK_TYPE", Show::Varchar(8), NOT_NULL),
                         Show::Column("LOCK_MODE", Show::Varchar(8), NOT_NULL),
                         Show::Column("INTENT", Show::Varchar(3), NOT_NULL),
                         Show::Column("BLOCKING_TRX_ID", Show::ULonglong(), NULLABLE),
                         Show::Column("BLOCKING_THREAD_ID", Show::ULonglong(), NULLABLE),
                         Show::Column("TABLE_SCHEMA", Show::Name(), NULLABLE),
                         Show::Column("TABLE_NAME", Show::Name(), NULLABLE),
                         Show::Column("PARTITION_NAME", Show::Name(), NULLABLE),
                         Show::Column("INDEX_NAME", Show::Name(), NULLABLE),
                         Show::Column("FAMILY_ID", Show::ULonglong(), NOT_NULL),
                         Show::Column("LOCK_KEY", Show::Varchar(KEY_WIDTH), NULLABLE),
                         Show::Column("RANGE_END", Show::Varchar(KEY_WIDTH), NULLABLE),
                         Show::Column("LOCK_DATA", Show::Varchar(LOCK_DATA_WIDTH), NULLABLE),
                         Show::CEnd()};

struct Locks {
  Filling *row;
  FamilyNames names;
};

int put_lock(void *pointer, const tidesdb_lock_info *info) {
  Locks *context = static_cast<Locks *>(pointer);
  Filling *row = context->row;
  row->number(info->txn);
  row->number(thread_id(info->session));
  row->text(info->waiting ? "WAITING" : "GRANTED");
  static const char *const kinds[] = {"TABLE", "KEY", "RANGE"};
  row->text(kinds[info->kind]);
  row->text(info->mode);
  row->text(info->intent ? "YES" : "NO");
  row->number(info->blocking_txn);
  row->number(thread_id(info->blocking_session));
  context->names.put(info->name, row);
  row->number(info->family);
  row->key(info->key);
  row->key(info->range_end);
  row->name(lock_text(*info));
  return row->store();
}

int fill_locks(THD *thd, TABLE_LIST *tables, Item *) {
  Filling row(thd, tables);
  if (!row.may_read()) return row.refused();
  Locks context{&row, FamilyNames()};
  int complete = 1;
  if (row.result(tidesdb_locks(row.db(), MOST_LOCKS, put_lock, &context, &complete))) return 1;
  if (!complete)
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR,
                        "TidesDB: there are more than %zu locks; those that somebody waits for are shown "
                        "first, then others up to this number",
                        MOST_LOCKS);
  return 0;
}

}  // namespace

int init_trx(void *schema) { return describe(schema, trx, fill_trx); }

int init_locks(void *schema) { return describe(schema, locks, fill_locks); }

}  // namespace i_s

}  // namespace tidesdb
