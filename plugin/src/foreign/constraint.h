/*
  One foreign key, seen from one of its two tables: a Reference from the child, a Referrer from the parent.
*/
#ifndef TIDESDB_FOREIGN_CONSTRAINT_H
#define TIDESDB_FOREIGN_CONSTRAINT_H

#include <memory>
#include <string>
#include <vector>

#include "foreign/checked_values.h"
#include "foreign/foreign_key.h"
#include "foreign/key_columns.h"
#include "foreign/linked_index.h"
#include "foreign/pending_values.h"
#include "foreign/registry.h"

namespace tidesdb {

/* Whether the part has other bytes in one record than in the other. */
bool part_differs(const KeyPart &part, const uchar *a, const uchar *b);

struct Constraint {
  std::shared_ptr<const ForeignKey> key;
  std::vector<Field *> fields;
  uint own_index = MAX_KEY;   /* the first that begins with them */
  std::vector<KeyPart> own;   /* the columns here */
  std::vector<KeyPart> plain; /* how value locks are named by them */
  std::unique_ptr<LinkedIndex> other;
  foreign::ValueLocks value_locks;
  bool is_sought = false; /* `other` was looked for, at this generation */
  uint64_t sought_at = 0;

  bool has_null(const uchar *record) const;
  bool differs(const uchar *a, const uchar *b) const;

 protected:
  Constraint() = default;
};

/* The other table of a foreign key, as users name it and canonical. */
struct OtherTable {
  const std::string &canonical, &database, &table;
};

/* What the rows of this table refer to: the other table is the parent. */
struct Reference : Constraint {
  static constexpr KeySide OWN = CHILD_SIDE, OTHER = PARENT_SIDE;

  CheckedValues checked;
  std::unique_ptr<PendingValues> pending; /* nullptr: references are not put off */
  bool is_decided = false;                /* `pending` says so of this statement */

  static OtherTable other_of(const ForeignKey &key) {
    return {key.parent, key.parent_database, key.parent_table};
  }
  /* All such keys of the table `name`, which is this one. */
  static ForeignKeys keys(const std::string &name) { return foreign::keys_of(name); }
  void note_found() {}
};

/* What refers to rows of this table: the other table is the child. */
struct Referrer : Constraint {
  static constexpr KeySide OWN = PARENT_SIDE, OTHER = CHILD_SIDE;

  static OtherTable other_of(const ForeignKey &key) {
    return {key.child, key.child_database, key.child_table};
  }
  static ForeignKeys keys(const std::string &name) { return foreign::keys_to(name); }
  /* The child's columns name the value locks. */
  void note_found() {
    if (other) plain = other->plain();
  }

  enum_fk_option action(const uchar *new_record) const {
    return new_record ? key->on_update : key->on_delete;
  }
};

}  // namespace tidesdb
#endif
