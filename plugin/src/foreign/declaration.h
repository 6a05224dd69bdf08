/*
  FOREIGN KEY in CREATE TABLE and ALTER TABLE: from the server's list to the table's record.

  Conditions, texts and names are InnoDB's: the columns begin an index of the child and one of the parent,
  with all of each and of one type; a key without a name is called `<table>_ibfk_<number>`.
*/
#ifndef TIDESDB_FOREIGN_DECLARATION_H
#define TIDESDB_FOREIGN_DECLARATION_H

#include <set>
#include <string>

#include "ddl/table_record.h"
#include "foreign/foreign_key.h"
#include "foreign/table_definition.h"
#include "key/sql_headers.h"

namespace tidesdb {
namespace foreign {

/* Numbers of the keys that a statement gives a table which has not had them before. */
using Declared = std::set<uint64_t>;

/* Whether rows of the table expire: nothing can refer to them. */
bool rows_may_expire(const TABLE *form);
bool share_expires(const TABLE_SHARE &share);

/* The canonical name of the table that an ALTER TABLE is about. */
std::string altered_table(THD *thd);

/*
  Puts the foreign keys of a table that is being made (`table`: canonical) into its record: those declared,
  and of an ALTER by copy those that stay. Refuses a definition that others' keys cannot refer to, and what a
  table with foreign keys cannot have. Returns 0 or an error for the server; the client has its warnings.
*/
int declare(THD *thd, const std::string &table, const TABLE *form, const HA_CREATE_INFO *info,
            TableRecord *record, Declared *declared);
/* The same of an ALTER in place of `table`, whose record has the keys that stay. */
int declare_in_place(THD *thd, const std::string &table, const TABLE *form, const HA_CREATE_INFO *info,
                     TableRecord *record, Declared *declared);

/* ALTER in place under tidesdb_foreign_keys=WARN: the record keeps the names of the keys that it drops. */
void keep_dropped(THD *thd, const std::string &table, const TABLE *form, const HA_CREATE_INFO *info,
                  TableRecord *record);

/*
  Under records_of_others(), before the record is written: what statements on other tables have made of the
  keys that stay since, and whether others refer to the table now.
*/
void renew(TableRecord *record, const std::string &home);
/* Whether a table of the database of `home` other than that has a constraint of one of these names; under the
 * same. */
bool names_are_taken(const TableRecord &record, const std::string &home);
/*
  Whether the definition of a table has what foreign keys that refer to it need; `name` is the table's name
  from now on. foreign_key_checks=0 lets it miss anything. Returns 0 or HA_ERR_CANNOT_ADD_FOREIGN.
*/
int check_parent(THD *thd, const std::string &name, const Columns &parent);

/* Text of the last refusal, with its time; empty: there was none. */
std::string latest_error();

}  // namespace foreign
}  // namespace tidesdb
#endif
