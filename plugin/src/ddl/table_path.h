/*
  Names of a table's column families.

  A table is identified by the path that the server gives, `./db/table`, both parts in the server's file
  name encoding, which survives `#sql-...` and `#P#...`. TEMPORARY tables have files of no database, and names
  of which no two are alike on a server: they stand as `#temporary/#sql-temptable-...`. A table's families are
  db/table \0 p                  the rows, by primary key (or hidden row number) db/table \0 i <4 bytes> a
  secondary index, by its number, big-endian so that the families of a table, and the tables of a database,
  stand together. A file name holds no \0.
*/
#ifndef TIDESDB_DDL_TABLE_PATH_H
#define TIDESDB_DDL_TABLE_PATH_H

#include <cstdint>
#include <string>

namespace tidesdb {

/* `db/table` of a path of the server. */
std::string canonical_table(const char *path);
/* The same, with the directory of a TEMPORARY table's file for a database. */
std::string plain_table(const char *path);
/* `db/` of the path that drop_database gets. */
std::string canonical_database(const char *path);

inline std::string families_of(const std::string &table) { return table + '\0'; }
inline std::string primary_family(const std::string &table) { return table + '\0' + 'p'; }
/* What the names of an index's families begin with. */
std::string index_prefix(const std::string &table, uint32_t index_id);
/* The table, or partition, that a family is one of. */
inline std::string table_of_family(const std::string &family) { return family.substr(0, family.find('\0')); }
/* The number of the secondary index that a family is one of; false: it is of none. */
bool index_of_family(const std::string &family, uint32_t *index_id);
/* Where an ALTER keeps which rows change meanwhile. */
std::string changes_family(const std::string &table);

/* The name that users see of a part of such a path. */
std::string decoded_name(const std::string &file_name);

/* A canonical name as users know it. */
struct TableNames {
  std::string schema;
  std::string table;
  std::string partition; /* the subpartition where there are some */
};
TableNames table_names(const std::string &table);

/* What stands for the database of all TEMPORARY tables, and what their names begin with. A directory of a
   database may have the first, by `#mysql50##temporary`; a table of it is not called as the second. */
constexpr char TEMPORARY_SCHEMA[] = "#temporary/";
constexpr char TEMPORARY_TABLES[] = "#temporary/#sql-temptable-";
bool is_temporary(const std::string &table);

/* What the server puts between a table's name and those of its partitions. */
constexpr char PARTITION_MARK[] = "#P#";
/* That, and what follows it, in the name of a partition; nothing in that of a table. */
std::string partition_suffix(const std::string &table);
/* The name without it. */
std::string whole_table(const std::string &table);

/* Whether the name is one of the server's own for tables in the making (`#sql-...`). */
bool is_intermediate(const std::string &table);
/* Whether an ALTER fills what has this name: such a table, or a partition (`db/table#P#name#TMP#`). */
bool is_renamed_when_filled(const std::string &table);

}  // namespace tidesdb
#endif
