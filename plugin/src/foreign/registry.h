/*
  All foreign keys of the store, by child and by parent: a picture of the dictionary's records in memory, made
  when the store is opened and brought up to date by each change of a definition.

  Changes of one table come one after the other, under the server's lock on its name; readers are any. What a
  reader gets does not change any more.
*/
#ifndef TIDESDB_FOREIGN_REGISTRY_H
#define TIDESDB_FOREIGN_REGISTRY_H

#include <cstdint>
#include <string>

#include "foreign/foreign_key.h"

namespace tidesdb {
namespace foreign {

/* Reads the records of all tables. Status of the engine. */
int load();
void clear();

/* The dictionary's record of the table is another now, or gone. `keys`: those of the table, from
 * keys_in_record(). */
void set_table(const std::string &table, ForeignKeys keys);
/* The same, read from the dictionary. */
void read_table(const std::string &table);
/* An ALTER by copy puts a table aside, under a name of its own, and the new one in its place: until that is
   there the keys stay with the old name, at which the server lets nobody in. */
void put_aside(const std::string &table, const std::string &aside);
/* The table under that name is gone, or has its name back: the keys are those that the dictionary has. */
void end_aside(const std::string &aside);

/* Definition or indexes of a table are others, if it is linked: who has links to it looks again. */
void touch(const std::string &table);

/* Grows with each change: what was found out before may be wrong. Keys that have not changed, and whose
   tables have not, are the same objects as before. */
uint64_t generation();
/* Of the table as child, by name. */
ForeignKeys keys_of(const std::string &table);
/* Of the table as parent, by the child's database and name; tables in the making left out. */
ForeignKeys keys_to(const std::string &table);
/* The same with those of tables in the making, whose records follow renames, too. */
ForeignKeys all_keys_to(const std::string &table);
/* Of all tables that are not in the making, by child. */
ForeignKeys all_keys();
/* Tables whose records may keep keys that were dropped (foreign/dropped_keys.h); the records tell. */
std::vector<std::string> tables_with_dropped_keys();
/* Keeps in mind whether `record`, the table's in the dictionary, has some. */
void note_dropped_keys(const std::string &table, const TableRecord &record);
/* Whether the table is a child or a parent. */
bool is_linked(const std::string &table);
/* The key of this name in the database (a canonical `db/`), in whatever case; nullptr: there is none. Tables
   in the making left out. */
std::shared_ptr<const ForeignKey> find(const std::string &database, const std::string &name);

/*
  The families, without entries, in which transactions lock the values that they refer to or take away: one
  for each foreign key, so that a transaction with very many locks, which the engine makes one of the family,
  is in nobody else's way.
*/
using ValueLocks = std::shared_ptr<tidesdb_family>;
/* nullptr: the key is gone. */
ValueLocks value_locks_of(uint64_t number);
/* Makes that of a new key. Status of the engine. */
int make_value_locks(uint64_t number);

}  // namespace foreign
}  // namespace tidesdb
#endif
