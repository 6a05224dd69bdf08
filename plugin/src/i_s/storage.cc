/*
  TIDESDB_COLUMN_FAMILIES, TIDESDB_SSTABLES, TIDESDB_VALUE_FILES: what is stored where.
*/
#include "key/sql_headers.h"

#include <mysql/plugin.h>

#include "i_s/family_names.h"
#include "i_s/filling.h"
#include "i_s/tables.h"

namespace tidesdb {

namespace i_s {

struct st_mysql_information_schema interface = {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

namespace {

struct Context {
  Filling *row;
  FamilyNames names;
};

ST_FIELD_INFO column_families[] = {Show::Column("FAMILY_ID", Show::ULonglong(), NOT_NULL),
                                   Show::Column("TABLE_SCHEMA", Show::Name(), NULLABLE),
                                   Show::Column("TABLE_NAME", Show::Name(), NULLABLE),
                                   Show::Column("PARTITION_NAME", Show::Name(), NULLABLE),
                                   Show::Column("INDEX_NAME", Show::Name(), NULLABLE),
                                   Show::Column("ENTRIES", Show::ULonglong(), NOT_NULL),
                                   Show::Column("TOMBSTONES", Show::ULonglong(), NOT_NULL),
                                   Show::Column("DATA_BYTES", Show::ULonglong(), NOT_NULL),
                                   Show::Column("VALUE_BYTES", Show::ULonglong(), NOT_NULL),
                                   Show::Column("MEMTABLE_BYTES", Show::ULonglong(), NOT_NULL),
                                   Show::Column("ENTRY_BYTES", Show::ULonglong(), NOT_NULL),
                                   Show::Column("RUNS", Show::ULonglong(), NOT_NULL),
                                   Show::Column("LEVELS", Show::ULonglong(), NOT_NULL),
                                   Show::Column("COMPRESSION", Show::Varchar(16), NOT_NULL),
                                   Show::Column("BLOCK_BYTES", Show::ULonglong(), NOT_NULL),
                                   Show::Column("BLOOM_FPR", Show::ULonglong(), NULLABLE),
                                   Show::Column("VALUE_THRESHOLD", Show::ULonglong(), NULLABLE),
                                   Show::Column("SYNC_MODE", Show::Varchar(16), NULLABLE),
                                   Show::Column("BIRTH_SEQ", Show::ULonglong(), NOT_NULL),
                                   Show::Column("OLD_FORM_BYTES", Show::ULonglong(), NOT_NULL),
                                   Show::Column("BLOCK_CODEC", Show::Varchar(16), NOT_NULL),
                                   Show::CEnd()};

const char *compression_name(uint8_t compression) {
  static const char *const names[] = {"NONE", "SNAPPY", "LZ4", "ZSTD", "LZ4_FAST"};
  return compression < array_elements(names) ? names[compression] : "?";
}

const char *codec_name(uint32_t codec) {
  static const char *const names[] = {"PLAIN", "POSTINGS"};
  return codec < array_elements(names) ? names[codec] : "?";
}

int put_family(void *pointer, const tidesdb_family_info *info) {
  Context *context = static_cast<Context *>(pointer);
  Filling *row = context->row;
  row->number(info->id);
  context->names.put(info->name, row);
  row->number(info->stats.entries);
  row->number(info->stats.tombstones);
  row->number(info->stats.data_bytes);
  row->number(info->stats.value_bytes);
  row->number(info->stats.memtable_bytes);
  row->number(info->stats.mean_row_bytes);
  row->number(info->stats.runs);
  row->number(info->stats.levels);
  row->text(compression_name(info->options.compression));
  row->number(info->options.block_size);
  row->number(info->options.bloom_filter ? info->options.bloom_fpr : TIDESDB_UNKNOWN);
  row->number(info->options.value_threshold ? info->options.value_threshold : TIDESDB_UNKNOWN);
  static const char *const modes[] = {"NONE", "INTERVAL", "FULL"};
  if (info->options.sync_mode < array_elements(modes))
    row->text(modes[info->options.sync_mode]);
  else
    row->null();
  row->number(info->created_seq);
  row->number(info->old_form_bytes);
  row->text(codec_name(info->options.block_codec));
  return row->store();
}

int fill_column_families(THD *thd, TABLE_LIST *tables, Item *) {
  Filling row(thd, tables);
  if (!row.may_read()) return row.refused();
  Context context{&row, FamilyNames()};
  return row.result(tidesdb_families(row.db(), put_family, &context));
}

ST_FIELD_INFO sstables[] = {Show::Column("FILE", Show::ULonglong(), NOT_NULL),
                            Show::Column("FAMILY_ID", Show::ULonglong(), NOT_NULL),
                            Show::Column("TABLE_SCHEMA", Show::Name(), NULLABLE),
                            Show::Column("TABLE_NAME", Show::Name(), NULLABLE),
                            Show::Column("PARTITION_NAME", Show::Name(), NULLABLE),
                            Show::Column("INDEX_NAME", Show::Name(), NULLABLE),
                            Show::Column("LEVEL", Show::ULonglong(), NOT_NULL),
                            Show::Column("BYTES", Show::ULonglong(), NOT_NULL),
                            Show::Column("RAW_BYTES", Show::ULonglong(), NOT_NULL),
                            Show::Column("ENTRIES", Show::ULonglong(), NOT_NULL),
                            Show::Column("KEYS_STORED", Show::ULonglong(), NOT_NULL),
                            Show::Column("TOMBSTONES", Show::ULonglong(), NOT_NULL),
                            Show::Column("MIN_SEQ", Show::ULonglong(), NOT_NULL),
                            Show::Column("MAX_SEQ", Show::ULonglong(), NOT_NULL),
                            Show::Column("MIN_KEY", Show::Varchar(KEY_WIDTH), NULLABLE),
                            Show::Column("MAX_KEY", Show::Varchar(KEY_WIDTH), NULLABLE),
                            Show::Column("FILE_OFFSET", Show::ULonglong(), NOT_NULL),
                            Show::Column("FILE_BYTES", Show::ULonglong(), NOT_NULL),
                            Show::CEnd()};

int put_table(void *pointer, const tidesdb_table_info *info) {
  Context *context = static_cast<Context *>(pointer);
  Filling *row = context->row;
  row->number(info->file);
  row->number(info->family);
  context->names.put(info->name, row);
  row->number(info->level);
  row->number(info->bytes);
  row->number(info->raw_bytes);
  row->number(info->entries);
  row->number(info->keys);
  row->number(info->tombstones);
  row->number(info->min_seq);
  row->number(info->max_seq);
  row->key(info->min_key);
  row->key(info->max_key);
  row->number(info->offset);
  row->number(info->file_bytes);
  return row->store();
}

int fill_sstables(THD *thd, TABLE_LIST *tables, Item *) {
  Filling row(thd, tables);
  if (!row.may_read()) return row.refused();
  Context context{&row, FamilyNames()};
  return row.result(tidesdb_tables(row.db(), put_table, &context));
}

ST_FIELD_INFO value_files[] = {Show::Column("FILE", Show::ULonglong(), NOT_NULL),
                               Show::Column("FILE_BYTES", Show::ULonglong(), NOT_NULL),
                               Show::Column("NEEDED_VALUES", Show::ULonglong(), NOT_NULL),
                               Show::Column("NEEDED_BYTES", Show::ULonglong(), NOT_NULL),
                               Show::Column("SSTABLES", Show::ULonglong(), NOT_NULL),
                               Show::Column("OTHER_HOLDS", Show::ULonglong(), NOT_NULL),
                               Show::Column("STATE", Show::Varchar(16), NOT_NULL),
                               Show::CEnd()};

int put_value_file(void *pointer, const tidesdb_value_file_info *info) {
  Filling *row = static_cast<Filling *>(pointer);
  row->number(info->file);
  row->number(info->bytes);
  row->number(info->values);
  row->number(info->value_bytes);
  row->number(info->sstables);
  row->number(info->other_holds);
  row->text(info->takes_values ? "WRITING" : info->other_holds ? "HELD" : info->values ? "NEEDED" : "DEAD");
  return row->store();
}

int fill_value_files(THD *thd, TABLE_LIST *tables, Item *) {
  Filling row(thd, tables);
  if (!row.may_read()) return row.refused();
  return row.result(tidesdb_value_files(row.db(), put_value_file, &row));
}

}  // namespace

int init_column_families(void *schema) { return describe(schema, column_families, fill_column_families); }

int init_sstables(void *schema) { return describe(schema, sstables, fill_sstables); }

int init_value_files(void *schema) { return describe(schema, value_files, fill_value_files); }

}  // namespace i_s

}  // namespace tidesdb
