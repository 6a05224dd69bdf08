/*
  A foreign key: columns of a table (the child) whose values, where none is NULL, stand in columns of another
  (the parent). Its definition is in the child's dictionary record; the parent is known by name and may be
  missing.
*/
#ifndef TIDESDB_FOREIGN_FOREIGN_KEY_H
#define TIDESDB_FOREIGN_FOREIGN_KEY_H

#include <memory>
#include <string>
#include <vector>

#include "ddl/table_record.h"
#include "key/sql_headers.h"

namespace tidesdb {

struct ForeignKey {
  struct Column {
    std::string name;   /* of the child */
    std::string parent; /* of the parent */
    bool nullable;      /* the child's */
  };

  std::string name;
  uint64_t number; /* as in ForeignKeyRecord */
  /* Canonical names (ddl/table_path.h), and those that users see. */
  std::string child, parent;
  std::string child_database, child_table, parent_database, parent_table;
  enum_fk_option on_delete, on_update;
  std::vector<Column> columns;
  /* Of a table that an ALTER fills: the rows that come are to be checked, since the key is new. */
  bool is_new = false;

  bool refers_to_itself() const { return child == parent; }
};

using ForeignKeys = std::vector<std::shared_ptr<const ForeignKey>>;

/*
  Whether a strict sql_mode refuses a definition by which a parent's NULL would follow into a NOT NULL column
  of the child. InnoDB asks that of ON UPDATE CASCADE alone: a key that also says what ON DELETE does is
  taken, and the NULL itself is refused when it comes (1451).
*/
inline bool asks_for_values(enum_fk_option on_update, enum_fk_option on_delete) {
  return on_update == FK_OPTION_CASCADE && (on_delete == FK_OPTION_UNDEF || on_delete == FK_OPTION_RESTRICT);
}

/* The one of that number; nullptr: there is none. */
std::shared_ptr<const ForeignKey> with_number(const ForeignKeys &keys, uint64_t number);

/* The foreign keys in a table's record, by name. `table` is canonical. */
ForeignKeys keys_in_record(const std::string &table, const TableRecord &record);
/* Those that were dropped (foreign/dropped_keys.h). One without columns has lost one of them, or none are
   known. */
ForeignKeys dropped_keys_in_record(const std::string &table, const TableRecord &record);

/* The canonical name of a table, as users name it: in lower case where the server compares names so. */
std::string canonical_name(const std::string &database, const std::string &table);
/* The names that users see of a canonical one. */
void split_canonical(const std::string &table, std::string *database_name, std::string *table_name);

/* "CONSTRAINT `c` FOREIGN KEY (`a`) REFERENCES `p` (`x`) ON DELETE ...", as in SHOW CREATE TABLE. The
   parent's database is named where it is not the child's. */
std::string describe_key(THD *thd, const ForeignKey &key);
/* The table in the server's quotes, with its database. */
std::string quoted_table(THD *thd, const std::string &database, const std::string &table);
std::string quoted_name(THD *thd, const std::string &name);

}  // namespace tidesdb
#endif
