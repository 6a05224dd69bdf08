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

#include "row/row_layout.h"

namespace tidesdb {

/* The version that is written; older ones are read. */
constexpr uint8_t TABLE_RECORD_VERSION = 2;

/* Counters of the primary family. */
constexpr uint32_t COUNTER_AUTO_INCREMENT = 0;
constexpr uint32_t COUNTER_ROW_NUMBER = 1;

struct IndexRecord {
  uint32_t id = 0; /* never given twice in a table; 0: the primary key */
  bool unique = false;
  std::string name;
  /* From ANALYZE: mean rows for one value of the first 1, 2, ... columns (primary key columns after a
     secondary index's own included), in hundredths; empty: never analyzed. */
  std::vector<uint64_t> rows_per_key;
};

struct ColumnRecord {
  std::string name;
  uint8_t type = 0;  /* enum_field_types */
  uint32_t size = 0; /* bytes in the record */
  bool nullable = false;
};

struct TableRecord {
  uint64_t table_id = 0;
  uint64_t create_id = 0;
  uint32_t next_index_id = 1;
  bool has_primary_key = false;
  uint64_t analyzed_rows = 0;
  /* Identity of the server's definition (.frm) that the record was written with; empty: not known. */
  std::string definition;
  std::vector<ColumnRecord> columns; /* in the order of the server's fields */
  RowHistory history;
  std::vector<IndexRecord> indexes; /* in the order of the server's keys */

  std::vector<uint8_t> encode() const;
  /* false: damaged, or of a newer version. */
  bool decode(const std::vector<uint8_t> &bytes);

  /* Takes names, columns and identity of the server's definition. */
  void set_definition(const TABLE *form);
};

}  // namespace tidesdb
#endif
