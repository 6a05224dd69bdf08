#include "foreign/actions.h"

#include "sql_class.h"

#include "foreign/row_checks.h"

namespace tidesdb {

bool RowChecks::has_actions(const uchar *record, const uchar *new_record) const {
  for (const Referrer &referrer : referrers_)
    if (fk_modifies_child(referrer.action(new_record)) && !referrer.has_null(record) &&
        (!new_record || referrer.differs(record, new_record)))
      return true;
  return false;
}

/* Each child's row once, in the order of the index: changes of this transaction are seen as they come. */
int RowChecks::apply_actions(Session *session, Referrer *referrer, const uchar *record,
                             const uchar *new_record, ReferrerActions *actions) {
  LinkedIndex *child;
  if (const int error = child_of(referrer, &child)) return error;
  if (!child) return HA_ERR_ROW_IS_REFERENCED;
  /* Levels below use the handler's other buffers; of this one there is one at a time. */
  ByteBuffer search, key;
  child->make_search(referrer->own, record, &search);
  /* A child may have another value that is equal to one that stays: it keeps that. */
  std::vector<Field *> changed = referrer->fields;
  for (size_t i = 0; new_record && i < changed.size(); i++)
    if (!part_differs(referrer->own[i], record, new_record)) changed[i] = nullptr;
  Session::NewestReads newest(session);
  newest.allow_changes();
  int status = child->look(session->txn(), search.slice(), TIDESDB_READ_LATEST, &key);
  while (status == TIDESDB_OK) {
    if (thd_killed(table_->in_use)) return HA_ERR_ABORTED_BY_USER;
    const int error = actions->apply_action(*referrer->key, changed, new_record, key.slice(), search.slice());
    const bool names_key = error == HA_ERR_ROW_IS_REFERENCED || error == HA_ERR_FK_DEPTH_EXCEEDED;
    if (names_key && session->cascade().violation.empty()) return violated(session, *referrer, error);
    if (error) return error;
    status = child->look_on(session->txn(), TIDESDB_READ_LATEST, &key);
  }
  return status == TIDESDB_NOT_FOUND ? 0 : session->fail(status);
}

}  // namespace tidesdb
