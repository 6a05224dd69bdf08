/*
  TIDESDB_FULLTEXT: each full text index, of each partition, with the rules of its words and its size.
*/
#include "key/sql_headers.h"

#include <mysql/plugin.h>

#include <map>

#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "foreign/table_definition.h"
#include "i_s/filling.h"
#include "i_s/tables.h"
#include "search/stopwords.h"
#include "server.h"

namespace tidesdb {

namespace i_s {

namespace {

constexpr uint BLEND_WIDTH = 1024;

ST_FIELD_INFO columns[] = {Show::Column("TABLE_SCHEMA", Show::Name(), NOT_NULL),
                           Show::Column("TABLE_NAME", Show::Name(), NOT_NULL),
                           Show::Column("PARTITION_NAME", Show::Name(), NULLABLE),
                           Show::Column("INDEX_NAME", Show::Name(), NOT_NULL),
                           Show::Column("COLLATION_NAME", Show::Name(), NULLABLE),
                           Show::Column("PARSER", Show::Name(), NULLABLE),
                           Show::Column("MIN_WORD_LEN", Show::ULonglong(), NOT_NULL),
                           Show::Column("MAX_WORD_LEN", Show::ULonglong(), NOT_NULL),
                           Show::Column("BLEND_CHARS", Show::Varchar(BLEND_WIDTH), NOT_NULL),
                           Show::Column("STOPWORDS", Show::ULonglong(), NOT_NULL),
                           Show::Column("DOCUMENTS", Show::ULonglong(), NOT_NULL),
                           Show::Column("ENTRIES", Show::ULonglong(), NOT_NULL),
                           Show::Column("DATA_BYTES", Show::ULonglong(), NOT_NULL),
                           Show::Column("MEMTABLE_BYTES", Show::ULonglong(), NOT_NULL),
                           Show::CEnd()};

/* What the engine says of a table, or partition: of its rows, and of its indexes by their numbers. */
struct Sizes {
  uint64_t rows = 0;
  std::map<uint32_t, tidesdb_family_stats> indexes;
};
using Tables = std::map<std::string, Sizes>;

int note_family(void *tables, const tidesdb_family_info *info) {
  const std::string name(reinterpret_cast<const char *>(info->name.data), info->name.size);
  if (name.find('\0') == std::string::npos) return 0;
  const std::string table = table_of_family(name);
  uint32_t index;
  if (name == primary_family(table))
    (*static_cast<Tables *>(tables))[table].rows = info->stats.entries;
  else if (index_of_family(name, &index))
    (*static_cast<Tables *>(tables))[table].indexes[index] = info->stats;
  return 0;
}

/* Collations of a table's full text indexes, by name; none: the server has no definition in a file, as of a
   TEMPORARY table. */
std::map<std::string, std::string> collations_of(THD *thd, const std::string &table) {
  std::map<std::string, std::string> collations;
  TableDefinition definition;
  if (definition.read(thd, whole_table(table)) == TableDefinition::Read::MISSING) return collations;
  const TABLE_SHARE &share = definition.share();
  for (uint i = 0; i < share.keys; i++) {
    const KEY &key = share.key_info[i];
    if (!is_full_text(key)) continue;
    const LEX_CSTRING &name = share.field[key.key_part[0].fieldnr - 1]->charset()->coll_name;
    collations[{key.name.str, key.name.length}].assign(name.str, name.length);
  }
  return collations;
}

int put_index(const TableNames &table, const IndexRecord &index, const std::string &collation, uint64_t rows,
              const tidesdb_family_stats &stats, Filling *row) {
  row->name(table.schema);
  row->name(table.table);
  row->name(table.partition);
  row->name(index.name);
  row->name(collation);
  if (index.full_text.parser.empty())
    row->null();
  else
    row->text(index.full_text.parser.data(), index.full_text.parser.size());
  row->number(index.full_text.least_characters);
  row->number(index.full_text.most_characters);
  row->text(index.full_text.blend.data(), index.full_text.blend.size());
  row->number(number_of_stopwords(index.full_text));
  row->number(rows);
  row->number(stats.entries);
  row->number(stats.data_bytes);
  row->number(stats.memtable_bytes);
  return row->store();
}

int fill(THD *thd, TABLE_LIST *tables, Item *) {
  Filling row(thd, tables);
  if (!row.may_read()) return row.refused();
  Tables known;
  if (row.result(tidesdb_families(row.db(), note_family, &known))) return 1;
  for (const auto &[table, sizes] : known) {
    TableRecord record;
    if (sizes.indexes.empty() || !read_record(table, &record)) continue;
    std::map<std::string, std::string> collations;
    for (const IndexRecord &index : record.indexes) {
      const auto stats = sizes.indexes.find(index.id);
      if (!index.is_full_text || stats == sizes.indexes.end()) continue;
      if (collations.empty()) collations = collations_of(thd, table);
      if (put_index(table_names(table), index, collations[index.name], sizes.rows, stats->second, &row))
        return row.result();
    }
  }
  return row.result();
}

}  // namespace

int init_full_text(void *schema) { return describe(schema, columns, fill); }

}  // namespace i_s

}  // namespace tidesdb
