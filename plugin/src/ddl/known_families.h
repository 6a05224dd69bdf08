/*
  Families of the tables that the server has open, by number: names of table and index, and how their keys are
  read. Reports of locks name keys from any thread, without the dictionary and without opening a table.
*/
#ifndef TIDESDB_DDL_KNOWN_FAMILIES_H
#define TIDESDB_DDL_KNOWN_FAMILIES_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "key/key_text.h"
#include "tidesdb.h"

namespace tidesdb {

struct KnownFamily {
  std::string table; /* canonical */
  std::string index; /* PRIMARY, the index's name, or HIDDEN: rows without a primary key */
  KeyText keys;
};

/* Those of one open table, known as long as this lives. */
class KnownFamilies {
 public:
  KnownFamilies() = default;
  ~KnownFamilies() { clear(); }
  KnownFamilies(const KnownFamilies &) = delete;
  KnownFamilies &operator=(const KnownFamilies &) = delete;

  void add(const tidesdb_family *family, const std::string &table, const TABLE *open, uint index);
  void clear();

 private:
  std::vector<std::pair<uint32_t, std::shared_ptr<const KnownFamily>>> known_;
};

/* nullptr: of no table that is open. */
std::shared_ptr<const KnownFamily> known_family(uint32_t family);

/* A family as the engine's log names it: tidesdb_label_fn. */
size_t family_label(void *, uint32_t family, tidesdb_slice name, char *to, size_t room);

/* The key of a lock, or its range, as people read it; empty: the lock is one on a table. */
std::string lock_text(const tidesdb_lock_info &lock);
/* The same after the names: "`db`.`t` index PRIMARY, id=3". */
std::string lock_place(const tidesdb_lock_info &lock);

}  // namespace tidesdb
#endif
