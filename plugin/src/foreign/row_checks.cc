#include "foreign/row_checks.h"

#include <algorithm>

#include "sql_class.h"

#include "ddl/table_path.h"
#include "foreign/declaration.h"
#include "foreign/name_lock.h"
#include "row/row_end.h"
#include "txn/applier.h"

namespace tidesdb {

RowChecks::RowChecks(TABLE *table, const std::string &name)
    : table_(table), name_(name), is_filled_(is_intermediate(name)) {}

/* False: a column is missing. */
bool RowChecks::find_fields(KeySide own, Constraint *constraint) const {
  const Columns columns(*table_);
  const std::vector<const Field *> fields = key_columns(*constraint->key, own, columns);
  for (const Field *field : fields) {
    constraint->fields.push_back(table_->field[field->field_index]);
    constraint->own.push_back(columns.whole(field));
    KeyPart plain = constraint->own.back();
    plain.nullable = plain.descending = false;
    constraint->plain.push_back(plain);
  }
  constraint->own_index = columns.first_index(fields);
  return !fields.empty();
}

/* Keeps the constraints whose keys are still the same; returns whether some are not. */
template <class Side>
bool RowChecks::renew(std::vector<Side> *constraints, const ForeignKeys &keys) {
  bool changed = false;
  std::vector<Side> before;
  before.swap(*constraints);
  for (const auto &key : keys) {
    const auto known = std::find_if(before.begin(), before.end(),
                                    [&](const Side &constraint) { return constraint.key == key; });
    if (known != before.end()) {
      constraints->push_back(std::move(*known));
      continue;
    }
    changed = true;
    Side constraint;
    constraint.key = key;
    /* (A parent without the columns has no rows that others refer to.) */
    if (find_fields(Side::OWN, &constraint)) constraints->push_back(std::move(constraint));
  }
  /* As InnoDB goes through them: by the index of the columns, then by name. So of several bad references the
     same one is named, and a CASCADE may come before a RESTRICT of the same child. */
  std::stable_sort(constraints->begin(), constraints->end(),
                   [](const Side &a, const Side &b) { return a.own_index < b.own_index; });
  return changed || before.size() != constraints->size();
}

bool RowChecks::refresh() {
  const uint64_t generation = foreign::generation();
  if (generation_ == generation) return false;
  generation_ = generation;
  ForeignKeys references = foreign::keys_of(name_);
  if (is_filled_)
    references.erase(
        std::remove_if(references.begin(), references.end(), [](const auto &key) { return !key->is_new; }),
        references.end());
  const bool references_changed = renew(&references_, references);
  const bool referrers_changed = renew(&referrers_, foreign::keys_to(name_));
  return references_changed || referrers_changed;
}

bool RowChecks::add_reference(const std::shared_ptr<const ForeignKey> &key) {
  generation_ = foreign::generation();
  Reference reference;
  reference.key = key;
  if (!find_fields(Reference::OWN, &reference)) return false;
  references_.push_back(std::move(reference));
  return true;
}

template <class Side>
std::unique_ptr<LinkedIndex> RowChecks::find_other(const Side &constraint) const {
  THD *thd = table_->in_use;
  std::vector<std::string> columns;
  for (const ForeignKey::Column &column : constraint.key->columns) columns.push_back(column.*Side::OTHER);
  std::unique_ptr<LinkedIndex> other =
      LinkedIndex::find(thd, Side::other_of(*constraint.key).canonical, columns, constraint.own);
  /* An ALTER fills a table that refers to itself: the old one has all rows, unless its columns are others. */
  if (!other && is_own(constraint)) other = LinkedIndex::find(thd, name_, columns, constraint.own);
  return other;
}

/* By the name that the key says now. The statement may have waited long, and others renamed the table since
   it began, and gave its name to another. Such a swap moves the generation. */
template <class Side>
void RowChecks::find_by_name(Side *constraint) {
  do {
    constraint->sought_at = foreign::generation();
    if (const auto now = with_number(Side::keys(name_), constraint->key->number)) constraint->key = now;
    constraint->other = find_other(*constraint);
  } while (constraint->sought_at != foreign::generation());
}

template <class Side>
int RowChecks::other_side(Side *constraint, LinkedIndex **other) {
  /* A statement may run long: what it found first may have been replaced. */
  const uint64_t generation = foreign::generation();
  if (constraint->is_sought && constraint->sought_at != generation) forget_other(constraint);
  if (!constraint->is_sought) {
    find_by_name(constraint);
    if (!constraint->other) {
      const std::shared_ptr<const ForeignKey> before = constraint->key;
      const OtherTable named = Side::other_of(*before);
      NameLock lock(table_->in_use, named.database, named.table);
      if (!is_own(*constraint))
        if (const int error = lock.take()) return error;
      find_by_name(constraint);
    }
    constraint->is_sought = true;
    constraint->note_found();
  }
  *other = constraint->other.get();
  return 0;
}

int RowChecks::parent_of(Reference *reference, LinkedIndex **parent) { return other_side(reference, parent); }

int RowChecks::child_of(Referrer *referrer, LinkedIndex **child) { return other_side(referrer, child); }

void RowChecks::forget_other(Constraint *constraint) {
  constraint->other.reset();
  constraint->is_sought = false;
}

/* Whether the key of a referrer was dropped since the statement began. UPDATE has no lock on children's
 * names. */
bool RowChecks::is_gone(const Referrer &referrer) const {
  return !with_number(foreign::keys_to(name_), referrer.key->number);
}

/* Optimistic transactions of sessions fail where others wait. An applier's wait: the order is the primary's.
 */
bool RowChecks::waits(const Session &session) const {
  return !session.optimistic() || is_applier(table_->in_use);
}

/* Sets value_lock_ to the name of the value lock for the row's value. */
void RowChecks::name_value_lock(const Constraint &constraint, const uchar *record) {
  value_lock_.clear();
  append_values(constraint.plain, constraint.own, record, &value_lock_, &scratch_);
}

/* Takes a value lock by its name. */
int RowChecks::lock_value(Session *session, Constraint *constraint, Slice name, int mode) {
  if (!constraint->value_locks) constraint->value_locks = foreign::value_locks_of(constraint->key->number);
  if (!constraint->value_locks) return HA_ERR_TABLE_DEF_CHANGED;
  const int status =
      tidesdb_lock_advisory(session->txn(), constraint->value_locks.get(), name.data, name.size, mode);
  if (status == TIDESDB_NO_SUCH_FAMILY) return HA_ERR_TABLE_DEF_CHANGED;
  return status == TIDESDB_OK ? 0 : session->fail(status);
}

/* Whether the key refers to this table, which may be one that an ALTER makes to take its place. */
bool RowChecks::is_own(const Reference &reference) const {
  const std::string &parent = reference.key->parent;
  return parent == name_ || (is_filled_ && parent == foreign::altered_table(table_->in_use));
}

/* A row that comes with the value it refers to. */
bool RowChecks::refers_to_own_row(const Reference &reference, const uchar *record) {
  if (!is_own(reference)) return false;
  const Columns columns(*table_);
  for (size_t i = 0; i < reference.own.size(); i++) {
    const Field *field = columns.find(reference.key->columns[i].parent);
    if (!field) return false;
    const KeyPart parent = columns.whole(field);
    KeyPart as;
    if (parent.is_null(record) || !can_stand_for(parent, reference.plain[i], &as)) return false;
    search_.clear();
    key_.clear();
    append_values({as}, {parent}, record, &search_, &scratch_);
    append_values({reference.plain[i]}, {reference.own[i]}, record, &key_, &scratch_);
    if (!same_bytes(search_.slice(), key_.slice())) return false;
  }
  return true;
}

const uchar *RowChecks::current(const uchar *record) const {
  return record && !is_history_row(table_, record) ? record : nullptr;
}

static int refuse_parent(Session *session, const ForeignKey &key) {
  return session->refuse("a foreign key refers to a row of " + key.parent_table +
                         " that expires (tidesdb_ttl); write that row anew without it");
}

/* Of the row in `record`, or, where that is nullptr, with the value that was put off. */
int RowChecks::look_for_parent(Session *session, tidesdb_txn *txn, Reference *reference, const uchar *record,
                               Slice value, bool *found) {
  *found = false;
  /* Twice: the table may have been made anew since it was looked for. */
  for (int tries = 0; tries < 2; tries++) {
    LinkedIndex *parent;
    if (const int error = parent_of(reference, &parent)) return error;
    if (!parent) return 0;
    if (record)
      parent->make_search(reference->own, record, &search_);
    else if (parent->can_look_for_all(reference->plain))
      search_.assign(value);
    else
      return HA_ERR_TABLE_DEF_CHANGED;
    /* Who fills a table has its rows in a transaction of its own. */
    tidesdb_txn *reader = is_own(*reference) ? txn : session->txn();
    int status = parent->look(reader, search_.slice(), TIDESDB_READ_LATEST, nullptr);
    if (status == TIDESDB_NOT_FOUND && txn == session->txn() && waits(*session)) {
      const ForeignKey &key = *reference->key;
      if (const int error = lock_name_for_reads(table_->in_use, key.parent_database, key.parent_table))
        return error;
      const Session::NewestReads newest(session);
      status = tidesdb_lock_table(txn, parent->rows(), TIDESDB_LOCK_INTENT_SHARED);
      if (status == TIDESDB_OK) status = parent->look(txn, search_.slice(), TIDESDB_READ_SHARED, nullptr);
    }
    *found = status == TIDESDB_OK;
    if (*found && parent->expires()) return refuse_parent(session, *reference->key);
    if (status == TIDESDB_OK || status == TIDESDB_NOT_FOUND) return 0;
    if (status != TIDESDB_NO_SUCH_FAMILY) return session->fail(status);
    forget_other(reference);
  }
  return 0;
}

int RowChecks::look_for_child(Session *session, Referrer *referrer, const uchar *record, bool *found) {
  *found = false;
  tidesdb_txn *txn = session->txn();
  for (int tries = 0; tries < 2; tries++) {
    LinkedIndex *child;
    if (const int error = child_of(referrer, &child)) return error;
    if (!child) return 0;
    child->make_search(referrer->own, record, &search_);
    int status = child->look(txn, search_.slice(), TIDESDB_READ_LATEST, &key_);
    if (status == TIDESDB_OK && waits(*session)) {
      const ForeignKey &key = *referrer->key;
      if (const int error = lock_name_for_reads(table_->in_use, key.child_database, key.child_table))
        return error;
    }
    while (status == TIDESDB_OK && waits(*session)) {
      const Session::NewestReads newest(session);
      status = child->lock_row(txn, key_.slice());
      if (status != TIDESDB_OK && status != TIDESDB_NOT_FOUND) break;
      last_key_.assign(key_.slice());
      status = child->look(txn, search_.slice(), TIDESDB_READ_LATEST, &key_);
      if (status == TIDESDB_OK && same_bytes(last_key_.slice(), key_.slice())) break;
    }
    *found = status == TIDESDB_OK;
    if (status == TIDESDB_OK || status == TIDESDB_NOT_FOUND) return 0;
    if (status != TIDESDB_NO_SUCH_FAMILY) return session->fail(status);
    forget_other(referrer);
  }
  *found = true; /* its rows cannot be searched */
  return 0;
}

int RowChecks::violated(Session *session, const Constraint &constraint, int error) {
  THD *thd = table_->in_use;
  const ForeignKey &key = *constraint.key;
  std::string child = key.child_table;
  if (error == HA_ERR_NO_REFERENCED_ROW) child = table_->s->table_name.str;
  session->cascade().violation = quoted_table(thd, key.child_database, child) + ", " + describe_key(thd, key);
  return error;
}

CheckedValues::Scope RowChecks::now(const Session &session) const {
  return {session.transaction_number(), static_cast<ulonglong>(table_->in_use->query_id), session.removals()};
}

int RowChecks::check_reference(Session *session, tidesdb_txn *txn, const CheckedValues::Scope &now,
                               Reference *reference, const uchar *record) {
  if (refers_to_own_row(*reference, record)) return 0;
  name_value_lock(*reference, record);
  if (reference->checked.has(now, value_lock_.slice())) return 0;
  /* Of a table that an ALTER fills the server keeps writers of the parent out. */
  if (!is_filled_)
    if (const int error = lock_value(session, reference, value_lock_.slice(), TIDESDB_LOCK_SHARED))
      return error;
  bool found;
  if (const int error = look_for_parent(session, txn, reference, record, {nullptr, 0}, &found)) return error;
  if (!found) return violated(session, *reference, HA_ERR_NO_REFERENCED_ROW);
  reference->checked.add(now, value_lock_.slice());
  return 0;
}

int RowChecks::check_references(Session *session, tidesdb_txn *txn, const uchar *old_record,
                                const uchar *record) {
  session->cascade().violation.clear();
  const CheckedValues::Scope scope = now(*session);
  for (Reference &reference : references_) {
    if (reference.has_null(record) || (old_record && !reference.differs(old_record, record))) continue;
    if (const int error = check_reference(session, txn, scope, &reference, record)) return error;
  }
  return 0;
}

int RowChecks::check_referrers(Session *session, const uchar *record, const uchar *new_record,
                               ReferrerActions *actions) {
  session->cascade().violation.clear();
  session->note_removal();
  for (Referrer &referrer : referrers_) {
    if (referrer.has_null(record) || (new_record && !referrer.differs(record, new_record))) continue;
    /* The child says how the value lock is named. Rows of one that cannot be searched may refer to this one.
     */
    LinkedIndex *child;
    if (const int error = child_of(&referrer, &child)) return error;
    const bool modifies_child = child && fk_modifies_child(referrer.action(new_record));
    if (modifies_child) {
      bool gone;
      if (const int error = actions->open_child(*referrer.key, &gone)) return error;
      if (gone) continue;
      /* Who had the name may have made the table anew. */
      if (const int error = child_of(&referrer, &child)) return error;
    }
    if (!child) {
      if (is_gone(referrer)) continue;
      return violated(session, referrer, HA_ERR_ROW_IS_REFERENCED);
    }
    name_value_lock(referrer, record);
    const int error = lock_value(session, &referrer, value_lock_.slice(), TIDESDB_LOCK_EXCLUSIVE);
    if (error == HA_ERR_TABLE_DEF_CHANGED && is_gone(referrer)) continue;
    if (error) return error;
    if (modifies_child) {
      if (const int applied = apply_actions(session, &referrer, record, new_record, actions)) return applied;
      continue;
    }
    /* Where other keys have actions, a row that refers to itself is gone already. InnoDB finds it still. */
    const auto is_same = [&](const Reference &reference) {
      return reference.key->number == referrer.key->number;
    };
    const auto reference = std::find_if(references_.begin(), references_.end(), is_same);
    bool found = !new_record && reference != references_.end() && !reference->has_null(record) &&
                 refers_to_own_row(*reference, record);
    if (!found)
      if (const int looked = look_for_child(session, &referrer, record, &found)) return looked;
    if (found && is_gone(referrer)) continue;
    if (found) return violated(session, referrer, HA_ERR_ROW_IS_REFERENCED);
  }
  return 0;
}

int RowChecks::resolve_reference(size_t number, bool *is_there) {
  LinkedIndex *parent;
  const int error = parent_of(&references_[number], &parent);
  *is_there = parent != nullptr;
  return error;
}

int RowChecks::is_orphan(size_t number, tidesdb_txn *txn, const uchar *record, bool *orphan) {
  Reference &reference = references_[number];
  *orphan = false;
  if (!reference.other || !current(record) || reference.has_null(record) ||
      refers_to_own_row(reference, record))
    return TIDESDB_OK;
  reference.other->make_search(reference.own, record, &search_);
  const int status = reference.other->look(txn, search_.slice(), TIDESDB_READ_SNAPSHOT, nullptr);
  *orphan = status == TIDESDB_NOT_FOUND;
  return *orphan ? static_cast<int>(TIDESDB_OK) : status;
}

int RowChecks::refuse_expiring(Session *session, size_t number) const {
  const Reference &reference = references_[number];
  return reference.other && reference.other->expires() ? refuse_parent(session, *reference.key) : 0;
}

void RowChecks::reset() {
  forget_put_off();
  for (const Reference &reference : references_)
    if (reference.other) reference.other->reset();
  for (const Referrer &referrer : referrers_)
    if (referrer.other) referrer.other->reset();
}

}  // namespace tidesdb
