/*
  References that a statement of many rows puts off.

  Trace of the order: a row is written, its value lock is not taken yet, and another transaction deletes the
  parent. It sees no child, as the row is not committed. Then the value lock is taken, after that
  transaction's end, and the parent is not there: the statement fails, as it had with the value lock first.
  With the value lock before the deletion that waits for the statement's transaction. So the value lock may
  come at any time before the statement ends, as long as the look for the parent comes after it.
*/
#include "foreign/row_checks.h"

#include "sql_class.h"

namespace tidesdb {

namespace {

/* Parents that are looked for by one call. */
constexpr size_t AT_ONCE = 256;

}  // namespace

void RowChecks::begin_putting_off() {
  rows_ = 0;
  for (Reference &reference : references_) reference.is_decided = false;
  puts_off_ = true;
}

/* With the first reference of a statement: whether it and others of the key are put off. */
int RowChecks::decide_putting_off(Reference *reference) {
  reference->pending.reset();
  /* A row that refers to its own table may find a parent that the statement inserts later. */
  if (!is_own(*reference)) {
    LinkedIndex *parent;
    if (const int error = parent_of(reference, &parent)) return error;
    if (parent && parent->can_look_for_all(reference->plain))
      reference->pending.reset(new (std::nothrow) PendingValues);
  }
  reference->is_decided = true;
  return 0;
}

int RowChecks::put_off_references(Session *session, const uchar *record) {
  session->cascade().violation.clear();
  const CheckedValues::Scope scope = now(*session);
  const uint row = rows_++;
  for (size_t key = 0; key < references_.size(); key++) {
    Reference &reference = references_[key];
    if (reference.has_null(record)) continue;
    if (!reference.is_decided)
      if (const int error = decide_putting_off(&reference)) return error;
    if (reference.pending) {
      name_value_lock(reference, record);
      if (value_lock_.size() - 1 < PendingValues::LONGEST) {
        reference.pending->add(value_lock_.slice(), row);
        continue;
      }
    }
    immediate_ = {row, key};
    if (const int error = check_reference(session, session->txn(), scope, &reference, record)) return error;
  }
  return 0;
}

int RowChecks::after_row(Session *session, int error) {
  if (error == HA_ERR_NO_REFERENCED_ROW || error == HA_ERR_FOUND_DUPP_KEY) {
    violating_row_ = rows_ - 1;
    /* In a row a duplicate comes before missing parents. */
    const Place before = error == HA_ERR_NO_REFERENCED_ROW ? immediate_ : Place{rows_ - 1, 0};
    const int earlier = check_put_off(session, before);
    return earlier ? earlier : error;
  }
  if (error) return error;
  for (const Reference &reference : references_)
    if (reference.pending && reference.pending->is_full()) return check_put_off(session, {rows_, 0});
  return 0;
}

int RowChecks::finish_putting_off(Session *session) {
  const int error = check_put_off(session, {rows_, 0});
  forget_put_off();
  return error;
}

bool RowChecks::forget_put_off() {
  bool any = false;
  for (Reference &reference : references_) {
    any = any || (reference.pending && !reference.pending->is_empty());
    reference.pending.reset();
  }
  puts_off_ = false;
  return any;
}

/* Looks for the parents of all that come before a place. */
int RowChecks::check_put_off(Session *session, Place before) {
  Place first = before;
  for (size_t key = 0; key < references_.size(); key++)
    if (references_[key].pending)
      if (const int error = check_put_off(session, key, &first)) return error;
  if (!(first < before)) return 0;
  violating_row_ = first.row;
  return violated(session, references_[first.key], HA_ERR_NO_REFERENCED_ROW);
}

/* *first: the first place without a parent so far; what comes after it is not looked for. */
int RowChecks::check_put_off(Session *session, size_t key, Place *first) {
  Reference &reference = references_[key];
  Slice values[AT_ONCE];
  uint rows[AT_ONCE];
  uchar found[AT_ONCE];
  size_t count = 0;
  const auto look = [&]() -> int {
    if (thd_killed(table_->in_use)) return HA_ERR_ABORTED_BY_USER;
    if (const int error = look_for_parents(session, &reference, values, count, found)) return error;
    for (size_t i = 0; i < count; i++) {
      const Place place{rows[i], key};
      if (found[i] == TIDESDB_IS_THERE || !(place < *first)) continue;
      /* It may be on its way. */
      bool is_there;
      if (const int error =
              look_for_parent(session, session->txn(), &reference, nullptr, values[i], &is_there))
        return error;
      if (!is_there) *first = place;
    }
    count = 0;
    return 0;
  };
  int error = reference.pending->for_each([&](Slice value, uint row) -> int {
    if (!(Place{row, key} < *first)) return 0;
    if (const int locked = lock_value(session, &reference, value, TIDESDB_LOCK_SHARED)) return locked;
    values[count] = value;
    rows[count++] = row;
    return count == AT_ONCE ? look() : 0;
  });
  if (!error && count > 0) error = look();
  reference.pending->clear();
  return error;
}

/* After their value locks are taken. Parents that cannot be looked for are missing. */
int RowChecks::look_for_parents(Session *session, Reference *reference, const Slice *values, size_t count,
                                uchar *found) {
  memset(found, TIDESDB_IS_MISSING, count);
  LinkedIndex *parent;
  if (const int error = parent_of(reference, &parent)) return error;
  if (!parent || !parent->can_look_for_all(reference->plain)) return 0;
  const int status = parent->look_for_all(session->txn(), values, count, found);
  if (status == TIDESDB_OK) return 0;
  memset(found, TIDESDB_IS_MISSING, count);
  if (status != TIDESDB_NO_SUCH_FAMILY) return session->fail(status);
  forget_other(reference);
  return 0;
}

}  // namespace tidesdb
