#include "foreign/row_checks.h"

#include "sql_class.h"

#include "ddl/table_path.h"
#include "foreign/declaration.h"

namespace tidesdb {

namespace {

/* The definition that an ALTER is about to put in place does not fit the store's for a moment. */
constexpr int TRIES = 100;
constexpr ulong MICROSECONDS_BETWEEN = 10000;

}  // namespace

bool RowChecks::Link::has_null(const uchar *record) const {
  for (const KeyPart &part : own)
    if (part.is_null(record)) return true;
  return false;
}

bool RowChecks::Link::differs(const uchar *a, const uchar *b) const {
  for (size_t i = 0; i < own.size(); i++) {
    const KeyPart &part = own[i];
    const bool null = part.is_null(a);
    if (null != part.is_null(b)) return true;
    if (null) continue;
    if (!same_bytes(record_value(part, a), record_value(part, b))) return true;
  }
  return false;
}

RowChecks::RowChecks(TABLE *table, const std::string &name) : table_(table), name_(name) {}

bool RowChecks::make_link(const std::shared_ptr<const ForeignKey> &key, bool is_child, Link *link) const {
  const Columns columns(*table_);
  link->key = key;
  for (const ForeignKey::Column &column : key->columns) {
    const Field *field = columns.find(is_child ? column.name : column.parent);
    if (!field) return false;
    link->fields.push_back(table_->field[field->field_index]);
    link->own.push_back(columns.whole(field));
    KeyPart plain = link->own.back();
    plain.nullable = plain.descending = false;
    link->plain.push_back(plain);
  }
  return true;
}

bool RowChecks::refresh() {
  const uint64_t generation = foreign::generation();
  if (generation_ == generation) return false;
  generation_ = generation;
  references_.clear();
  referrers_.clear();
  const bool is_filled = is_intermediate(name_);
  for (const auto &key : foreign::keys_of(name_)) {
    Link link;
    if ((!is_filled || key->is_new) && make_link(key, true, &link)) references_.push_back(std::move(link));
  }
  for (const auto &key : foreign::keys_to(name_)) {
    Link link;
    if (make_link(key, false, &link)) referrers_.push_back(std::move(link));
  }
  return true;
}

LinkedIndex *RowChecks::other_side(Link *link, bool is_child) {
  if (link->is_sought) return link->other.get();
  const ForeignKey &key = *link->key;
  std::vector<std::string> columns;
  for (const ForeignKey::Column &column : key.columns)
    columns.push_back(is_child ? column.parent : column.name);
  const std::string &other = !is_child ? key.child : is_own(key) ? name_ : key.parent;
  THD *thd = table_->in_use;
  for (int tries = 0; tries < TRIES && !link->other; tries++) {
    if (tries != 0) {
      if (thd_killed(thd)) return nullptr;
      my_sleep(MICROSECONDS_BETWEEN);
    }
    TableDefinition definition;
    if (definition.read(thd, other) != TableDefinition::Read::DONE) break;
    link->other = LinkedIndex::find(thd, other, columns, link->own);
  }
  link->is_sought = true;
  if (link->other && !is_child) link->plain = link->other->plain();
  return link->other.get();
}

void RowChecks::forget_other(Link *link) {
  link->other.reset();
  link->is_sought = false;
}

int RowChecks::guard(Session *session, const Link &link, const uchar *record, int mode) {
  tidesdb_family *guards = foreign::guards();
  if (!guards) return HA_ERR_INTERNAL_ERROR;
  guard_.clear();
  uchar *to = guard_.reserve(8);
  mi_int8store(to, link.key->number);
  guard_.grow_by(8);
  append_values(link.plain, link.own, record, &guard_, &scratch_);
  const Slice name = guard_.slice();
  const int status = tidesdb_lock_advisory(session->txn(), guards, name.data, name.size, mode);
  return status == TIDESDB_OK ? 0 : session->fail(status);
}

/* Whether the key refers to this table, which may be one that an ALTER makes to take its place. */
bool RowChecks::is_own(const ForeignKey &key) const {
  return key.parent == name_ || (is_intermediate(name_) && key.parent == foreign::altered_table(table_->in_use));
}

/* A row that comes with the value it refers to. */
bool RowChecks::refers_to_own_row(const Link &link, const uchar *record) {
  if (!is_own(*link.key)) return false;
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

int RowChecks::look_for_parent(Session *session, tidesdb_txn *txn, Link *link, const uchar *record,
                               bool *found) {
  *found = false;
  /* Twice: the table may have been made anew since it was looked for. */
  for (int tries = 0; tries < 2; tries++) {
    LinkedIndex *parent = other_side(link, true);
    if (!parent) return 0;
    parent->make_search(link->own, record, &search_);
    /* Who fills a table has its rows in a transaction of its own. */
    tidesdb_txn *reader = is_own(*link->key) ? txn : session->txn();
    int status = parent->look(reader, search_.slice(), TIDESDB_READ_LATEST, nullptr);
    if (status == TIDESDB_NOT_FOUND && txn == session->txn() && !session->optimistic()) {
      const Session::NewestReads newest(session);
      status = tidesdb_lock_table(txn, parent->rows(), TIDESDB_LOCK_INTENT_SHARED);
      if (status == TIDESDB_OK) status = parent->look(txn, search_.slice(), TIDESDB_READ_SHARED, nullptr);
    }
    *found = status == TIDESDB_OK;
    if (status == TIDESDB_OK || status == TIDESDB_NOT_FOUND) return 0;
    if (status != TIDESDB_NO_SUCH_FAMILY) return session->fail(status);
    forget_other(link);
  }
  return 0;
}

int RowChecks::look_for_child(Session *session, Link *link, const uchar *record, bool *found) {
  *found = false;
  tidesdb_txn *txn = session->txn();
  for (int tries = 0; tries < 2; tries++) {
    LinkedIndex *child = other_side(link, false);
    if (!child) return 0;
    child->make_search(link->own, record, &search_);
    int status = child->look(txn, search_.slice(), TIDESDB_READ_LATEST, &key_);
    while (status == TIDESDB_OK && !session->optimistic()) {
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
  return 0;
}

int RowChecks::violated(Session *session, const Link &link, int error) {
  THD *thd = table_->in_use;
  const ForeignKey &key = *link.key;
  std::string child = key.child_table;
  if (error == HA_ERR_NO_REFERENCED_ROW) child = table_->s->table_name.str;
  session->cascade().violation =
      quoted_table(thd, key.child_database, child) + ", " + describe_key(thd, key);
  return error;
}

int RowChecks::check_references(Session *session, tidesdb_txn *txn, const uchar *old_record,
                                const uchar *record) {
  session->cascade().violation.clear();
  const bool is_filled = is_intermediate(name_);
  for (Link &link : references_) {
    if (link.has_null(record) || (old_record && !link.differs(old_record, record))) continue;
    if (refers_to_own_row(link, record)) continue;
    /* Of a table that an ALTER fills the server keeps writers of the parent out. */
    if (!is_filled)
      if (const int error = guard(session, link, record, TIDESDB_LOCK_SHARED)) return error;
    bool found;
    if (const int error = look_for_parent(session, txn, &link, record, &found)) return error;
    if (!found) return violated(session, link, HA_ERR_NO_REFERENCED_ROW);
  }
  return 0;
}

bool RowChecks::has_actions(const uchar *record, const uchar *new_record) const {
  for (const Link &link : referrers_)
    if (fk_modifies_child(link.action(new_record)) && !link.has_null(record) &&
        (!new_record || link.differs(record, new_record)))
      return true;
  return false;
}

/* Each child's row once, in the order of the index: changes of this transaction are seen as they come. */
int RowChecks::act_on_children(Session *session, Link *link, const uchar *record, const uchar *new_record,
                               ReferrerActions *actions) {
  LinkedIndex *child = other_side(link, false);
  /* Levels below use the handler's other buffers; of this link there is one at a time. */
  ByteBuffer search, key;
  child->make_search(link->own, record, &search);
  Session::NewestReads newest(session);
  newest.allow_changes();
  int status = child->look(session->txn(), search.slice(), TIDESDB_READ_LATEST, &key);
  while (status == TIDESDB_OK) {
    if (thd_killed(table_->in_use)) return HA_ERR_ABORTED_BY_USER;
    bool done;
    const int error = actions->act(*link->key, link->fields, new_record, key.slice(), search.slice(), &done);
    const bool names_key = error == HA_ERR_ROW_IS_REFERENCED || error == HA_ERR_FK_DEPTH_EXCEEDED;
    if (names_key && session->cascade().violation.empty())
      return violated(session, *link, error);
    if (error) return error;
    status = child->look_on(&key);
  }
  return status == TIDESDB_NOT_FOUND ? 0 : session->fail(status);
}

int RowChecks::check_referrers(Session *session, const uchar *record, const uchar *new_record,
                               ReferrerActions *actions) {
  session->cascade().violation.clear();
  for (Link &link : referrers_) {
    if (link.has_null(record) || (new_record && !link.differs(record, new_record))) continue;
    /* It says how the guard is named. */
    if (!other_side(&link, false)) continue;
    if (const int error = guard(session, link, record, TIDESDB_LOCK_EXCLUSIVE)) return error;
    if (fk_modifies_child(link.action(new_record))) {
      if (const int error = act_on_children(session, &link, record, new_record, actions)) return error;
      continue;
    }
    bool found;
    if (const int error = look_for_child(session, &link, record, &found)) return error;
    if (found) return violated(session, link, HA_ERR_ROW_IS_REFERENCED);
  }
  return 0;
}

void RowChecks::reset() {
  for (std::vector<Link> *links : {&references_, &referrers_})
    for (Link &link : *links)
      if (link.other) link.other->reset();
}

}  // namespace tidesdb
