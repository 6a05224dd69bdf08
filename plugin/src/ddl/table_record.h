/*
  What the plugin keeps in the engine's dictionary about a table: the opaque record of its primary family.

  It is written atomically with the families (CREATE, ALTER) or alone (ANALYZE). Format:
  docs/format/table-record.md; all integers little-endian, the first byte is the format's version.
*/
#ifndef TIDESDB_DDL_TABLE_RECORD_H
#define TIDESDB_DDL_TABLE_RECORD_H

#include <cstdint>
#include <string>
#include <vector>

#include "row/expression_settings.h"
#include "row/row_layout.h"
#include "search/settings.h"

namespace tidesdb {

/* The newest version. It is written of tables with full text indexes that have a parser or stopwords of their
   own, version 5 of others with full text indexes, version 4 of others with indexes over virtual columns, and
   version 3 of others with foreign keys, so that a build that knows none of these refuses them; of the rest
   version 2 is. Older ones are read. */
constexpr uint8_t TABLE_RECORD_VERSION = 6;

/* Counters of the primary family. */
constexpr uint32_t COUNTER_AUTO_INCREMENT = 0;
constexpr uint32_t COUNTER_ROW_NUMBER = 1;

/* IndexRecord::id of the primary key, whose entries are the rows. */
constexpr uint32_t PRIMARY_KEY_ID = 0;

struct IndexRecord {
  uint32_t id = PRIMARY_KEY_ID; /* never given twice in a table */
  bool unique = false;
  std::string name;
  /* From ANALYZE: mean rows for one value of the first 1, 2, ... columns (primary key columns after a
     secondary index's own included), in hundredths; empty: never analyzed. */
  std::vector<uint64_t> rows_per_key;
  /* Of an index over virtual columns: how its entries are computed. Without, it is of a build that took what
     it found, and it is rebuilt (ddl/index_rebuild.h). */
  bool has_settings = false;
  ExpressionSettings settings;
  /* Hash of its virtual columns' expressions under these settings (ddl/index_expressions.h); 0: not known. */
  uint64_t expressions = 0;
  bool is_full_text = false;
  FullTextSettings full_text;
  /* Not in the bytes: these settings are of a record that was there before. */
  bool keeps_words = false;
  /* Not in the bytes: it is to be made anew, and serves no read until then. */
  bool is_stale = false;
};

struct ColumnRecord {
  std::string name;
  uint8_t type = 0;  /* enum_field_types */
  uint32_t size = 0; /* bytes in the record */
  bool nullable = false;
};

/* A foreign key, with its child. */
struct ForeignKeyRecord {
  struct Column {
    uint32_t id = 0;        /* of the child's column */
    std::string referenced; /* name of the parent's */
  };

  std::string name; /* of the constraint */
  /* Given once and never again; stays over copies and renames of both tables. 0: of a dropped key. */
  uint64_t number = 0;
  std::string parent_database, parent_table;
  uint8_t on_delete = 0, on_update = 0; /* enum_fk_option */
  std::vector<Column> columns;
};

struct TableRecord {
  uint64_t table_id = 0;
  uint64_t create_id = 0;
  uint32_t next_index_id = 1;
  bool has_primary_key = false;
  uint64_t analyzed_rows = 0;
  /* Identity of the server's definition (.frm) that the record was written with; empty: not known. */
  std::string definition;
  /* That of the definition that has the expressions of the indexes; empty: not known. Changes of partitions
     give a new `definition` without it. */
  std::string expressions_of;
  std::vector<ColumnRecord> columns; /* in the order of the server's fields */
  RowHistory history;
  std::vector<IndexRecord> indexes;           /* in the order of the server's keys */
  std::vector<ForeignKeyRecord> foreign_keys; /* by name */
  /* Those that tidesdb_foreign_keys=WARN has dropped (foreign/dropped_keys.h), by name; none has the name of
     one of the table's keys. */
  std::vector<ForeignKeyRecord> dropped_keys;
  bool is_parent = false; /* a foreign key has referred to the table since it was made */
  /* Of a table that an ALTER by copy makes, with foreign keys or to which some refer: the canonical name of
     the one whose place it takes. */
  std::string home;

  std::vector<uint8_t> encode() const;
  /* false: damaged, or of a newer version. */
  bool decode(const std::vector<uint8_t> &bytes);

  /* Takes the foreign keys, and whether the table is a parent, of another record of the table. */
  void take_links(const TableRecord &other) {
    foreign_keys = other.foreign_keys;
    dropped_keys = other.dropped_keys;
    is_parent = other.is_parent;
  }
  /* Takes names, columns and identity of the server's definition. */
  void set_definition(const TABLE *form);
};

/* Identity of the server's definition of a table, as `TableRecord::definition` has it. */
std::string definition_identity(const TABLE_SHARE &share);

/* An index that is being made, of an open table, takes the settings of the session or the server if it needs
   some. Words have those of take_words(). */
void take_settings(const TABLE *form, uint key, IndexRecord *index);
/* Full text indexes among those that are being made get rules of words, unless they keep some. False: the
   client was told the error. */
bool take_words(THD *thd, const TABLE *form, uint key, IndexRecord *index);

}  // namespace tidesdb
#endif
