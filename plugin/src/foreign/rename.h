/*
  CREATE, DROP and RENAME of tables with foreign keys: what happens to the other side.

  The dictionary's changes go into the caller's group, which holds records_of_others(); the registry follows
  when that is committed.
*/
#ifndef TIDESDB_FOREIGN_RENAME_H
#define TIDESDB_FOREIGN_RENAME_H

#include <map>
#include <string>

#include "foreign/declaration.h"
#include "store/handles.h"

namespace tidesdb {
namespace foreign {

/* A build that does not know foreign keys refuses tables by the version of their record: those of the parents
   get it, too. Status of the engine. */
int mark_parents(DdlGroup *group, const std::string &table, const TableRecord &record);
/* The table is there. */
void enter(const std::string &table, const TableRecord &record, const Declared &declared);
/* The table is gone. */
void leave(const std::string &table);

/* Whether a DROP leaves rows of other tables without what they refer to: other tables' keys name it. */
bool refuses_drop(THD *thd, const std::string &table);

/* References go along with a table's name. Not with that of a table in the making: when an ALTER puts the new
   table in the place of the old one, they stay as they are. */
class Rename {
 public:
  Rename(THD *thd, const std::string &from, const std::string &to);
  /* 0, or an error of the server's: others cannot refer to what has the name then. Before the mutex. */
  int check() const;
  /* Records of both sides, in the group that renames the table's families. Status of the engine. */
  int add(DdlGroup *group);
  void enter() const;

 private:
  TableRecord renamed(const TableRecord &record, bool is_own) const;

  THD *thd_;
  const std::string from_, to_;
  std::string old_name_; /* that references have; empty: they stay */
  std::map<std::string, TableRecord> children_;
};

/* Columns of a parent have other names: puts them into the records of its children. `names`: old to new. */
int rename_columns(DdlGroup *group, const std::string &parent,
                   const std::map<std::string, std::string> &names, TableRecord *own);

}  // namespace foreign
}  // namespace tidesdb
#endif
