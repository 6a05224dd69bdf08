#include "cluster/parent_keys.h"

#include "cluster/row_keys.h"
#include "mutant.h"

namespace tidesdb::cluster {

/* Whether the entries of the two rows in an index differ, apart from the primary key. */
bool ParentKeys::differs(uint index, const uchar *old_record, const uchar *new_record) {
  std::vector<KeyPart> &parts = index_parts_[index];
  if (parts.empty()) parts = Columns(*table_).parts(index);
  for (const KeyPart &part : parts)
    if (part_differs(part, old_record, new_record)) return true;
  return false;
}

/* InnoDB goes from index to index, the primary key first, and in each from foreign key to foreign key. */
int ParentKeys::append(Session *session, const RowChecks &checks, uint64_t action, const uchar *old_record,
                       const uchar *new_record) {
  const bool updates = old_record && new_record;
  const uint primary = table_->s->primary_key;
  const bool moves = updates && primary != MAX_KEY && differs(primary, old_record, new_record);
  const std::vector<Reference> &references = checks.references();
  for (size_t first = 0, end; first < references.size(); first = end) {
    const uint index = references[first].own_index;
    for (end = first + 1; end < references.size() && references[end].own_index == index;) end++;
    if (index == MAX_KEY || (updates && !moves && !differs(index, old_record, new_record))) continue;
    if (old_record && action == 0 && !checks.is_referenced(index))
      for (size_t i = first; i < end; i++)
        if (!new_record || references[i].differs(old_record, new_record))
          if (const int error = append_parent(session, references[i], old_record)) return error;
    if (!new_record) continue;
    for (size_t i = first; i < end; i++)
      if (references[i].key->number != action)
        if (const int error = append_parent(session, references[i], new_record)) return error;
  }
  return 0;
}

ParentRow *ParentKeys::parent_of(const Reference &reference) {
  const uint64_t generation = foreign::generation();
  Known &known = parents_[reference.key->number];
  if (!known.row || known.generation != generation) {
    known.row = ParentRow::open(table_->in_use, *reference.key, reference.own);
    known.generation = generation;
  }
  return known.row.get();
}

/* Without a parent there is no key: foreign_key_checks=0 has let the row in, or the parent went with the row.
 */
int ParentKeys::append_parent(Session *session, const Reference &reference, const uchar *record) {
  if (reference.has_null(record) || MUTANT(ParentUngiven)) return 0;
  THD *thd = table_->in_use;
  /* Twice: the table may have been made anew since it was opened. */
  for (int tries = 0; tries < 2; tries++) {
    ParentRow *parent = parent_of(reference);
    if (!parent) return 0;
    const int status = parent->read(thd, session->txn(), reference.own, record);
    if (status == TIDESDB_NOT_FOUND) return 0;
    if (status == TIDESDB_OK) {
      InnodbKey key;
      parent->make_key(&key);
      const ForeignKey &foreign_key = *reference.key;
      return append_key(thd, {foreign_key.parent_database.c_str(), foreign_key.parent_database.size()},
                        {foreign_key.parent_table.c_str(), foreign_key.parent_table.size()}, key.slice(),
                        KeyUse::REFERENCE);
    }
    if (status != TIDESDB_NO_SUCH_FAMILY) return session->fail(status);
    parents_.erase(reference.key->number);
  }
  return HA_ERR_TABLE_DEF_CHANGED;
}

void ParentKeys::reset() {
  for (auto &[number, known] : parents_)
    if (known.row) known.row->reset();
}

}  // namespace tidesdb::cluster
