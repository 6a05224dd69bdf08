/*
  The server's definition of a table that nobody has opened, read from its .frm: the columns and indexes of
  the other side of a foreign key.
*/
#ifndef TIDESDB_FOREIGN_TABLE_DEFINITION_H
#define TIDESDB_FOREIGN_TABLE_DEFINITION_H

#include <string>
#include <vector>

#include "key/key_part.h"
#include "key/sql_headers.h"

namespace tidesdb {

class TableDefinition {
 public:
  enum class Read { DONE, MISSING, OF_OTHER_ENGINE, PARTITIONED };

  TableDefinition() = default;
  ~TableDefinition();
  TableDefinition(const TableDefinition &) = delete;
  TableDefinition &operator=(const TableDefinition &) = delete;

  /* `table` is a canonical name. A view, or a definition that cannot be read, is MISSING. */
  Read read(THD *thd, const std::string &table);

  const TABLE_SHARE &share() const { return share_; }
  TABLE_SHARE *own_share() { return &share_; }

 private:
  std::string key_, path_;
  TABLE_SHARE share_;
  bool is_made_ = false;
};

/* What is to be known of a definition, of a table that is open or one that is being made as well. `record` is
   the buffer in which the fields of the share stand. */
class Columns {
 public:
  Columns(const TABLE_SHARE &share, Field **fields, const uchar *record, const KEY *keys)
      : share_(share), fields_(fields), record_(record), keys_(keys) {}
  explicit Columns(const TableDefinition &definition)
      : Columns(definition.share(), definition.share().field, definition.share().default_values,
                definition.share().key_info) {}
  explicit Columns(const TABLE &table) : Columns(*table.s, table.field, table.record[0], table.key_info) {}

  /* nullptr: there is none of this name. */
  const Field *find(const std::string &name) const;
  /* A part over the whole column, NOT NULL and in ascending order, whatever it is. */
  KeyPart whole(const Field *field) const;
  /* All parts of an index. */
  std::vector<KeyPart> parts(uint key) const;
  /* Whether these columns begin the entries of an index, in this order. `cut`: not with all of each. */
  bool begin_with(uint key, const std::vector<const Field *> &columns, bool *cut) const;
  /* The first index that begins with them, and with all of each; the primary key is the first of all.
     MAX_KEY: none. */
  uint first_index(const std::vector<const Field *> &columns) const;
  /* The first `count` parts of an index that find_index() found for so many columns. */
  std::vector<KeyPart> first_parts(uint key, size_t count) const;
  /*
    An index that begins with these columns, in this order and with all of each; the primary key, then unique
    ones of these alone (and the end of a row's time), then others, then those that come to them with the
    primary key at their end. MAX_KEY: none. `prefix`: there is one over prefixes.
  */
  uint find_index(const std::vector<const Field *> &columns, bool *prefix) const;
  const KEY &key(uint number) const { return keys_[number]; }
  const TABLE_SHARE &share() const { return share_; }

 private:
  size_t entry_parts(uint key) const;
  const KEY_PART_INFO &entry_part(uint key, size_t place) const;
  bool ends_with_row_end(const KEY &key, size_t columns) const;

  const TABLE_SHARE &share_;
  Field **fields_;
  const uchar *record_;
  const KEY *keys_;
};

}  // namespace tidesdb
#endif
