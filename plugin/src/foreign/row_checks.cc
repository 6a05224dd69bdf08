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
bool RowChecks::find_fields(KeySide own, Link *link) const {
  const Columns columns(*table_);
  const std::vector<const Field *> fields = key_columns(*link->key, own, columns);
  for (const Field *field : fields) {
    link->fields.push_back(table_->field[field->field_index]);
    link->own.push_back(columns.whole(field));
    KeyPart plain = link->own.back();
    plain.nullable = plain.descending = false;
    link->plain.push_back(plain);
  }
  return !fields.empty();
}

/* The first of the table's indexes that begins with the columns; the primary key is the first of all. */
uint RowChecks::index_of(const Link &link) const {
  const Columns columns(*table_);
  const std::vector<const Field *> fields(link.fields.begin(), link.fields.end());
  for (uint number = 0; number < table_->s->keys; number++) {
    bool cut;
    if (columns.begin_with(number, fields, &cut) && !cut) return number;
  }
  return MAX_KEY;
}

/* Keeps the links whose keys are still the same; returns whether some are not. */
template <class Side>
bool RowChecks::renew(std::vector<Side> *links, const ForeignKeys &keys) {
  bool changed = false;
  std::vector<Side> before;
  before.swap(*links);
  for (const auto &key : keys) {
    const auto known =
        std::find_if(before.begin(), before.end(), [&](const Side &link) { return link.key == key; });
    if (known != before.end()) {
      links->push_back(std::move(*known));
      continue;
    }
    changed = true;
    Side link;
    link.key = key;
    /* (A parent without the columns has no rows that others refer to.) */
    if (find_fields(Side::OWN, &link)) links->push_back(std::move(link));
  }
  /* As InnoDB goes through them: by the index of the columns, then by name. So of several bad references the
     same one is named, and a CASCADE may come before a RESTRICT of the same child. */
  std::stable_sort(links->begin(), links->end(),
                   [this](const Side &a, const Side &b) { return index_of(a) < index_of(b); });
  return changed || before.size() != links->size();
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
  Reference link;
  link.key = key;
  if (!find_fields(Reference::OWN, &link)) return false;
  references_.push_back(std::move(link));
  return true;
}

template <class Side>
std::unique_ptr<LinkedIndex> RowChecks::find_other(const Side &link) const {
  THD *thd = table_->in_use;
  std::vector<std::string> columns;
  for (const ForeignKey::Column &column : link.key->columns) columns.push_back(column.*Side::OTHER);
  std::unique_ptr<LinkedIndex> other =
      LinkedIndex::find(thd, Side::other_of(*link.key).canonical, columns, link.own);
  /* An ALTER fills a table that refers to itself: the old one has all rows, unless its columns are others. */
  if (!other && is_own(link)) other = LinkedIndex::find(thd, name_, columns, link.own);
  return other;
}

/* By the name that the key says now. The statement may have waited long, and others renamed the table since
   it began, and gave its name to another. Such a swap moves the generation. */
template <class Side>
void RowChecks::find_by_name(Side *link) {
  do {
    link->sought_at = foreign::generation();
    if (const auto now = with_number(Side::keys(name_), link->key->number)) link->key = now;
    link->other = find_other(*link);
  } while (link->sought_at != foreign::generation());
}

template <class Side>
int RowChecks::other_side(Side *link, LinkedIndex **other) {
  /* A statement may run long: what it found first may have been replaced. */
  const uint64_t generation = foreign::generation();
  if (link->is_sought && link->sought_at != generation) forget_other(link);
  if (!link->is_sought) {
    find_by_name(link);
    if (!link->other) {
      const std::shared_ptr<const ForeignKey> before = link->key;
      const OtherTable named = Side::other_of(*before);
      NameLock lock(table_->in_use, named.database, named.table);
      if (!is_own(*link))
        if (const int error = lock.take()) return error;
      find_by_name(link);
    }
    link->is_sought = true;
    link->note_found();
  }
  *other = link->other.get();
  return 0;
}

int RowChecks::parent_of(Reference *link, LinkedIndex **parent) { return other_side(link, parent); }

int RowChecks::child_of(Referrer *link, LinkedIndex **child) { return other_side(link, child); }

void RowChecks::forget_other(Link *link) {
  link->other.reset();
  link->is_sought = false;
}

/* Whether the key of a referrer was dropped since the statement began. UPDATE has no lock on children's
 * names. */
bool RowChecks::is_gone(const Referrer &link) const {
  return !with_number(foreign::keys_to(name_), link.key->number);
}

/* Optimistic transactions of sessions fail where others wait. An applier's wait: the order is the primary's.
 */
bool RowChecks::waits(const Session &session) const {
  return !session.optimistic() || is_applier(table_->in_use);
}

/* Sets guard_ to the name of the guard for the row's value. */
void RowChecks::name_guard(const Link &link, const uchar *record) {
  guard_.clear();
  append_values(link.plain, link.own, record, &guard_, &scratch_);
}

/* Locks a guard by its name. */
int RowChecks::guard(Session *session, Link *link, Slice name, int mode) {
  if (!link->guards) link->guards = foreign::guards_of(link->key->number);
  if (!link->guards) return HA_ERR_TABLE_DEF_CHANGED;
  const int status = tidesdb_lock_advisory(session->txn(), link->guards.get(), name.data, name.size, mode);
  if (status == TIDESDB_NO_SUCH_FAMILY) return HA_ERR_TABLE_DEF_CHANGED;
  return status == TIDESDB_OK ? 0 : session->fail(status);
}

/* Whether the key refers to this table, which may be one that an ALTER makes to take its place. */
bool RowChecks::is_own(const Reference &link) const {
  const std::string &parent = link.key->parent;
  return parent == name_ || (is_filled_ && parent == foreign::altered_table(table_->in_use));
}

/* A row that comes with the value it refers to. */
bool RowChecks::refers_to_own_row(const Reference &link, const uchar *record) {
  if (!is_own(link)) return false;
  const Columns columns(*table_);
  for (size_t i = 0; i < link.own.size(); i++) {
    const Field *field = columns.find(link.key->columns[i].parent);
    if (!field) return false;
    const KeyPart parent = columns.whole(field);
    KeyPart as;
    if (parent.is_null(record) || !can_stand_for(parent, link.plain[i], &as)) return false;
    search_.clear();
    key_.clear();
    append_values({as}, {parent}, record, &search_, &scratch_);
    append_values({link.plain[i]}, {link.own[i]}, record, &key_, &scratch_);
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
int RowChecks::look_for_parent(Session *session, tidesdb_txn *txn, Reference *link, const uchar *record,
                               Slice value, bool *found) {
  *found = false;
  /* Twice: the table may have been made anew since it was looked for. */
  for (int tries = 0; tries < 2; tries++) {
    LinkedIndex *parent;
    if (const int error = parent_of(link, &parent)) return error;
    if (!parent) return 0;
    if (record)
      parent->make_search(link->own, record, &search_);
    else if (parent->can_look_for_all(link->plain))
      search_.assign(value);
    else
      return HA_ERR_TABLE_DEF_CHANGED;
    /* Who fills a table has its rows in a transaction of its own. */
    tidesdb_txn *reader = is_own(*link) ? txn : session->txn();
    int status = parent->look(reader, search_.slice(), TIDESDB_READ_LATEST, nullptr);
    if (status == TIDESDB_NOT_FOUND && txn == session->txn() && waits(*session)) {
      const ForeignKey &key = *link->key;
      if (const int error = lock_name_for_reads(table_->in_use, key.parent_database, key.parent_table))
        return error;
      const Session::NewestReads newest(session);
      status = tidesdb_lock_table(txn, parent->rows(), TIDESDB_LOCK_INTENT_SHARED);
      if (status == TIDESDB_OK) status = parent->look(txn, search_.slice(), TIDESDB_READ_SHARED, nullptr);
    }
    *found = status == TIDESDB_OK;
    if (*found && parent->expires()) return refuse_parent(session, *link->key);
    if (status == TIDESDB_OK || status == TIDESDB_NOT_FOUND) return 0;
    if (status != TIDESDB_NO_SUCH_FAMILY) return session->fail(status);
    forget_other(link);
  }
  return 0;
}

int RowChecks::look_for_child(Session *session, Referrer *link, const uchar *record, bool *found) {
  *found = false;
  tidesdb_txn *txn = session->txn();
  for (int tries = 0; tries < 2; tries++) {
    LinkedIndex *child;
    if (const int error = child_of(link, &child)) return error;
    if (!child) return 0;
    child->make_search(link->own, record, &search_);
    int status = child->look(txn, search_.slice(), TIDESDB_READ_LATEST, &key_);
    if (status == TIDESDB_OK && waits(*session)) {
      const ForeignKey &key = *link->key;
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
    forget_other(link);
  }
  *found = true; /* its rows cannot be searched */
  return 0;
}

int RowChecks::violated(Session *session, const Link &link, int error) {
  THD *thd = table_->in_use;
  const ForeignKey &key = *link.key;
  std::string child = key.child_table;
  if (error == HA_ERR_NO_REFERENCED_ROW) child = table_->s->table_name.str;
  session->cascade().violation = quoted_table(thd, key.child_database, child) + ", " + describe_key(thd, key);
  return error;
}

CheckedValues::Scope RowChecks::now(const Session &session) const {
  return {session.transaction_number(), static_cast<ulonglong>(table_->in_use->query_id), session.removals()};
}

int RowChecks::check_reference(Session *session, tidesdb_txn *txn, const CheckedValues::Scope &now,
                               Reference *link, const uchar *record) {
  if (refers_to_own_row(*link, record)) return 0;
  name_guard(*link, record);
  if (link->checked.has(now, guard_.slice())) return 0;
  /* Of a table that an ALTER fills the server keeps writers of the parent out. */
  if (!is_filled_)
    if (const int error = guard(session, link, guard_.slice(), TIDESDB_LOCK_SHARED)) return error;
  bool found;
  if (const int error = look_for_parent(session, txn, link, record, {nullptr, 0}, &found)) return error;
  if (!found) return violated(session, *link, HA_ERR_NO_REFERENCED_ROW);
  link->checked.add(now, guard_.slice());
  return 0;
}

int RowChecks::check_references(Session *session, tidesdb_txn *txn, const uchar *old_record,
                                const uchar *record) {
  session->cascade().violation.clear();
  const CheckedValues::Scope scope = now(*session);
  for (Reference &link : references_) {
    if (link.has_null(record) || (old_record && !link.differs(old_record, record))) continue;
    if (const int error = check_reference(session, txn, scope, &link, record)) return error;
  }
  return 0;
}

int RowChecks::check_referrers(Session *session, const uchar *record, const uchar *new_record,
                               ReferrerActions *actions) {
  session->cascade().violation.clear();
  session->note_removal();
  for (Referrer &link : referrers_) {
    if (link.has_null(record) || (new_record && !link.differs(record, new_record))) continue;
    /* It says how the guard is named. Rows of a child that cannot be searched may refer to this one. */
    LinkedIndex *child;
    if (const int error = child_of(&link, &child)) return error;
    const bool acts = child && fk_modifies_child(link.action(new_record));
    if (acts) {
      bool gone;
      if (const int error = actions->open_child(*link.key, &gone)) return error;
      if (gone) continue;
      /* Who had the name may have made the table anew. */
      if (const int error = child_of(&link, &child)) return error;
    }
    if (!child) {
      if (is_gone(link)) continue;
      return violated(session, link, HA_ERR_ROW_IS_REFERENCED);
    }
    name_guard(link, record);
    const int error = guard(session, &link, guard_.slice(), TIDESDB_LOCK_EXCLUSIVE);
    if (error == HA_ERR_TABLE_DEF_CHANGED && is_gone(link)) continue;
    if (error) return error;
    if (acts) {
      if (const int acted = act_on_children(session, &link, record, new_record, actions)) return acted;
      continue;
    }
    /* Where other keys have actions, a row that refers to itself is gone already. InnoDB finds it still. */
    const auto is_same = [&](const Reference &reference) {
      return reference.key->number == link.key->number;
    };
    const auto reference = std::find_if(references_.begin(), references_.end(), is_same);
    bool found = !new_record && reference != references_.end() && !reference->has_null(record) &&
                 refers_to_own_row(*reference, record);
    if (!found)
      if (const int looked = look_for_child(session, &link, record, &found)) return looked;
    if (found && is_gone(link)) continue;
    if (found) return violated(session, link, HA_ERR_ROW_IS_REFERENCED);
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
  Reference &link = references_[number];
  *orphan = false;
  if (!link.other || !current(record) || link.has_null(record) || refers_to_own_row(link, record))
    return TIDESDB_OK;
  link.other->make_search(link.own, record, &search_);
  const int status = link.other->look(txn, search_.slice(), TIDESDB_READ_SNAPSHOT, nullptr);
  *orphan = status == TIDESDB_NOT_FOUND;
  return *orphan ? static_cast<int>(TIDESDB_OK) : status;
}

int RowChecks::refuse_expiring(Session *session, size_t number) const {
  const Reference &link = references_[number];
  return link.other && link.other->expires() ? refuse_parent(session, *link.key) : 0;
}

void RowChecks::reset() {
  forget_put_off();
  for (const Reference &link : references_)
    if (link.other) link.other->reset();
  for (const Referrer &link : referrers_)
    if (link.other) link.other->reset();
}

}  // namespace tidesdb
