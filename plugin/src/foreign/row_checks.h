/*
  Foreign keys of one open table, checked row by row: that what a row refers to is there, and that no row
  refers to what goes.

  Both read what is committed now, and the transaction's own changes. In between nobody else may change the
  answer:
  - who makes a reference takes the value lock shared (foreign/registry.h), then looks for the parent;
  - who takes a referenced value away takes its value lock exclusively, then looks for children.
  Both keep the value lock to the transaction's end. So of two transactions that disagree one waits for the
  other's end and sees what it did. The number of the foreign key is part of the value lock's name, and is the
  same on both sides whatever ALTER and RENAME make of the tables. An UPDATE that leaves the referenced
  columns takes no value lock, and references share theirs (as FOR KEY SHARE does in PostgreSQL).

  A statement that inserts very many rows may put its references off, and look for the parents of many rows at
  a time: with the value locks first, as for one (foreign/pending_values.h).

  A parent that is not there may be on its way: whoever inserts it has its key locked, and is waited for. A
  child that is there may be going: its row is locked, and looked for once more.

  Used by one handler.
*/
#ifndef TIDESDB_FOREIGN_ROW_CHECKS_H
#define TIDESDB_FOREIGN_ROW_CHECKS_H

#include <memory>
#include <string>
#include <vector>

#include "foreign/actions.h"
#include "foreign/checked_values.h"
#include "foreign/constraint.h"
#include "foreign/linked_index.h"
#include "foreign/registry.h"
#include "txn/session.h"

namespace tidesdb {

class RowChecks {
 public:
  /* `name`: canonical, of `table`. */
  RowChecks(TABLE *table, const std::string &name);

  /* Foreign keys may have changed since: looks, at the begin of a statement. Returns whether they have. */
  bool refresh();
  /* One more foreign key of the table as child, which it does not have yet, instead of refresh(). False: a
     column is missing. */
  bool add_reference(const std::shared_ptr<const ForeignKey> &key);
  bool has_references() const { return !references_.empty(); }
  bool is_referenced() const { return !referrers_.empty(); }
  /* In the order of the indexes that they go by. */
  const std::vector<Reference> &references() const { return references_; }
  /* Whether this index of the table is the one that others refer to. */
  bool is_referenced(uint index) const {
    for (const Referrer &referrer : referrers_)
      if (referrer.own_index == index) return true;
    return false;
  }
  /* Whether ON UPDATE CASCADE may give rows of the table other values. */
  bool may_follow() const {
    for (const Reference &reference : references_)
      if (reference.key->on_update == FK_OPTION_CASCADE) return true;
    return false;
  }
  /* The row if it is current; nullptr if system versioning keeps it as one of the past. Such rows refer to
     nothing, and nothing refers to them. The checks below take current rows: a row that goes into the past
     counts as deleted. */
  const uchar *current(const uchar *record) const;

  /*
    What the row refers to is there. `old_record`: of an UPDATE, whose other values are left out; else
    nullptr. `txn`: the one whose changes count; another than the session's where a table is filled that
    nobody sees. Returns 0, HA_ERR_NO_REFERENCED_ROW (Session::cascade() says which key), or another error of
    the server's.
  */
  int check_references(Session *session, tidesdb_txn *txn, const uchar *old_record, const uchar *record);
  /* From now on references of inserted rows may be put off. The statement inserts, deletes nothing, and
     nothing else happens in it that changes a parent. */
  void begin_putting_off();
  bool puts_off() const { return puts_off_; }
  /* As check_references() of an insertion, or puts the references off. The row is still to be written. */
  int put_off_references(Session *session, const uchar *record);
  /* The row of the last put_off_references() is written, or fails with `error`: a server's error, which an
     earlier row without a parent comes before. Looks for parents when very many are put off. 0 or an error.
   */
  int after_row(Session *session, int error);
  /* Looks for all parents that were put off; ends putting off. */
  int finish_putting_off(Session *session);
  /* The statement has failed: they do not count any more. Returns whether there were any. */
  bool forget_put_off();
  /* Number of the row, beginning with 0, whose reference was the last one violated after it was put off. */
  uint violating_row() const { return violating_row_; }
  /* Whether a DELETE, or an UPDATE to `new_record`, changes rows that refer to this one. */
  bool has_actions(const uchar *record, const uchar *new_record) const;
  /* No row refers to what goes with a DELETE, or an UPDATE to `new_record`, or it follows: then the row is
     changed already. HA_ERR_ROW_IS_REFERENCED as above. */
  int check_referrers(Session *session, const uchar *record, const uchar *new_record,
                      ReferrerActions *actions);

  /* For CHECK TABLE: each foreign key of the table as child, by number. */
  size_t reference_count() const { return references_.size(); }
  const ForeignKey &reference(size_t number) const { return *references_[number].key; }
  /* Columns of the table. */
  const std::vector<Field *> &reference_fields(size_t number) const { return references_[number].fields; }
  /* *is_there: the parent has been found, with an index of the columns. 0 or an error of the server's. */
  int resolve_reference(size_t number, bool *is_there);
  /* Whether `record`, a row of the transaction's snapshot, refers to one that is not there. Status of the
   * engine. */
  int is_orphan(size_t number, tidesdb_txn *txn, const uchar *record, bool *orphan);
  /* Refuses the row that is_orphan() found last as a parent, where it expires. 0 or an error of the
     server's. */
  int refuse_expiring(Session *session, size_t number) const;

  /* At the end of a statement. */
  void reset();

 private:
  bool find_fields(KeySide own, Constraint *constraint) const;
  template <class Side>
  bool renew(std::vector<Side> *constraints, const ForeignKeys &keys);
  template <class Side>
  std::unique_ptr<LinkedIndex> find_other(const Side &constraint) const;
  template <class Side>
  void find_by_name(Side *constraint);
  template <class Side>
  int other_side(Side *constraint, LinkedIndex **other);
  /* *parent, *child: nullptr where the other table is not there, or has no such index. */
  int parent_of(Reference *reference, LinkedIndex **parent);
  int child_of(Referrer *referrer, LinkedIndex **child);
  void forget_other(Constraint *constraint);
  bool is_gone(const Referrer &referrer) const;
  bool waits(const Session &session) const;
  void name_value_lock(const Constraint &constraint, const uchar *record);
  int lock_value(Session *session, Constraint *constraint, Slice name, int mode);
  bool is_own(const Reference &reference) const;
  bool is_own(const Referrer &) const { return false; } /* its child is looked for by name */
  bool refers_to_own_row(const Reference &reference, const uchar *record);
  int look_for_parent(Session *session, tidesdb_txn *txn, Reference *reference, const uchar *record,
                      Slice value, bool *found);
  int check_reference(Session *session, tidesdb_txn *txn, const CheckedValues::Scope &now,
                      Reference *reference, const uchar *record);
  CheckedValues::Scope now(const Session &session) const;

  /* A reference among those of a statement: rows are gone through one after the other, and in each row its
   * keys. */
  struct Place {
    uint row;
    size_t key;
    bool operator<(const Place &other) const { return row != other.row ? row < other.row : key < other.key; }
  };
  int decide_putting_off(Reference *reference);
  int check_put_off(Session *session, Place before);
  int check_put_off(Session *session, size_t key, Place *first);
  int look_for_parents(Session *session, Reference *reference, const Slice *values, size_t count,
                       uchar *found);
  int look_for_child(Session *session, Referrer *referrer, const uchar *record, bool *found);
  int apply_actions(Session *session, Referrer *referrer, const uchar *record, const uchar *new_record,
                    ReferrerActions *actions);
  int violated(Session *session, const Constraint &constraint, int error);

  TABLE *table_;
  std::string name_;
  uint64_t generation_ = 0;
  bool is_filled_ = false; /* an ALTER fills the table */
  bool puts_off_ = false;
  uint rows_ = 0;         /* since begin_putting_off() */
  Place immediate_{0, 0}; /* the reference that was found violated at once */
  uint violating_row_ = 0;
  std::vector<Reference> references_;
  std::vector<Referrer> referrers_;
  ByteBuffer search_, value_lock_, key_, last_key_, scratch_;
};

}  // namespace tidesdb
#endif
