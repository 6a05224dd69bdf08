/*
  TIDESDB_COMPACTIONS: merges that run, and the last that ran.
*/
#include "key/sql_headers.h"

#include <mysql/plugin.h>

#include "i_s/family_names.h"
#include "i_s/filling.h"
#include "i_s/tables.h"

namespace tidesdb {

namespace i_s {

namespace {

struct Context {
  Filling *row;
  FamilyNames names;
  uint64_t now;
};

ST_FIELD_INFO columns[] = {Show::Column("COMPACTION_ID", Show::ULonglong(), NOT_NULL),
                           Show::Column("STATE", Show::Varchar(16), NOT_NULL),
                           Show::Column("REASON", Show::Varchar(32), NOT_NULL),
                           Show::Column("ACTION", Show::Varchar(8), NOT_NULL),
                           Show::Column("FAMILY_ID", Show::ULonglong(), NULLABLE),
                           Show::Column("TABLE_SCHEMA", Show::Name(), NULLABLE),
                           Show::Column("TABLE_NAME", Show::Name(), NULLABLE),
                           Show::Column("PARTITION_NAME", Show::Name(), NULLABLE),
                           Show::Column("INDEX_NAME", Show::Name(), NULLABLE),
                           Show::Column("FROM_LEVEL", Show::ULonglong(), NULLABLE),
                           Show::Column("TO_LEVEL", Show::ULonglong(), NULLABLE),
                           Show::Column("STARTED", Show::Datetime(6), NOT_NULL),
                           Show::Column("DURATION_US", Show::ULonglong(), NULLABLE),
                           Show::Column("SSTABLES_IN", Show::ULonglong(), NOT_NULL),
                           Show::Column("SSTABLES_OUT", Show::ULonglong(), NOT_NULL),
                           Show::Column("BYTES_IN", Show::ULonglong(), NOT_NULL),
                           Show::Column("BYTES_OUT", Show::ULonglong(), NOT_NULL),
                           Show::Column("RAW_BYTES", Show::ULonglong(), NOT_NULL),
                           Show::Column("ENTRIES_IN", Show::ULonglong(), NOT_NULL),
                           Show::Column("ENTRIES_OUT", Show::ULonglong(), NOT_NULL),
                           Show::CEnd()};

uint64_t level(uint8_t level) { return level == TIDESDB_UNKNOWN8 ? TIDESDB_UNKNOWN : level; }

int put(void *pointer, const tidesdb_compaction_info *info) {
  Context *context = static_cast<Context *>(pointer);
  Filling *row = context->row;
  row->number(info->id);
  static const char *const states[] = {"RUNNING", "DONE", "FAILED", "INTERRUPTED"};
  row->text(states[info->outcome]);
  row->text(info->reason);
  static const char *const actions[] = {"MERGE", "MOVE", "REWRITE"};
  row->text(actions[info->action]);
  row->number(info->family == TIDESDB_UNKNOWN32 ? TIDESDB_UNKNOWN : info->family);
  context->names.put(info->name, row);
  row->number(level(info->from));
  row->number(level(info->to));
  row->time(info->begun_us);
  const uint64_t end = info->outcome == TIDESDB_COMPACTION_RUNS ? context->now : info->ended_us;
  row->number(end == TIDESDB_UNKNOWN ? end : end > info->begun_us ? end - info->begun_us : 0);
  row->number(info->tables_in);
  row->number(info->tables_out);
  row->number(info->bytes_in);
  row->number(info->bytes_out);
  row->number(info->raw_bytes);
  row->number(info->entries_in);
  row->number(info->entries_out);
  return row->store();
}

int fill(THD *thd, TABLE_LIST *tables, Item *) {
  Filling row(thd, tables);
  if (!row.may_read()) return row.refused();
  Context context{&row, FamilyNames(), tidesdb_now_micros(row.db())};
  return row.result(tidesdb_compactions(row.db(), put, &context));
}

}  // namespace

int init_compactions(void *schema) { return describe(schema, columns, fill); }

}  // namespace i_s

}  // namespace tidesdb
