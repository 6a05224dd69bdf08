/*
  Families as SQL knows them: schema, table, partition, index.
*/
#ifndef TIDESDB_I_S_FAMILY_NAMES_H
#define TIDESDB_I_S_FAMILY_NAMES_H

#include <cstdint>
#include <map>
#include <string>

#include "ddl/table_path.h"
#include "tidesdb.h"

namespace tidesdb {

namespace i_s {

class Filling;

/* All empty: the family is nobody's (the dictionary), or gone. */
struct FamilyName : TableNames {
  std::string index; /* PRIMARY, the index's name, or HIDDEN: rows without a primary key */
};

/* Looks names up; remembers those of a table's indexes. */
class FamilyNames {
 public:
  const FamilyName &of(tidesdb_slice family);
  /* Puts the four columns of a family into a row. */
  void put(tidesdb_slice family, Filling *row);

 private:
  /* Names of a table's indexes by number; the primary family's under PRIMARY_KEY_ID. */
  using Indexes = std::map<uint32_t, std::string>;
  const Indexes &indexes_of(const std::string &table);

  std::map<std::string, Indexes> indexes_;
  std::map<std::string, FamilyName> known_;
};

}  // namespace i_s

}  // namespace tidesdb
#endif
