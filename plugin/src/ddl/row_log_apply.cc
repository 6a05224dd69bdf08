/*
  Bringing the indexes in the making from one snapshot of the rows to a newer one: for each row that changed
  in between, the entries of its old form go and those of its new form come. All old ones go first, since a
  value of a unique index may have moved from one row to another.
*/
#include "ddl/index_build.h"

#include <mysql/plugin.h>

#include "sql_class.h"

#include "ddl/table_families.h"
#include "ddl/table_path.h"
#include "errors.h"
#include "row/row_ttl.h"
#include "store/chunked_load.h"
#include "store/store.h"

namespace tidesdb {

class IndexBuild::Follower {
 public:
  Follower(IndexBuild *build, tidesdb_txn *before, tidesdb_txn *after)
      : build_(*build), before_(before), after_(after) {}

  int open();
  int remove_old() { return pass(false); }
  int add_new() { return pass(true); }
  /* Rows that are not what they were. */
  ulonglong changes() const { return changes_; }

 private:
  using Entry = EntrySet::Entry;
  /* A row in one of the two snapshots. */
  struct Row {
    CursorHandle cursor;
    Slice value;
    uint64_t expiry = 0;
    bool there = false;
    std::vector<EntrySet> entries; /* by place in plan_.added */
  };

  int pass(bool adding);
  int look(Row *row, tidesdb_txn *txn, Slice primary_key);
  int make_entries(Row *row, Slice primary_key);
  int follow(Slice primary_key, bool adding);
  int find_owner(size_t index, const Entry &entry, Slice primary_key, bool *other);
  int add(size_t index, const Entry &entry, Slice primary_key, bool replaces);
  int remove(size_t index, const Entry &entry, Slice primary_key);

  IndexBuild &build_;
  tidesdb_txn *before_, *after_;
  FamilyHandle log_;
  std::vector<FamilyHandle> families_;
  std::vector<CursorHandle> checks_;
  Row old_, fresh_;
  std::unique_ptr<ChunkedLoad> load_;
  ulonglong changes_ = 0;
};

int IndexBuild::Follower::open() {
  int status = open_family(plugin.db, changes_family(build_.shadow_), &log_);
  if (status == TIDESDB_OK) status = open_cursor(build_.rows_, &old_.cursor);
  if (status == TIDESDB_OK) status = open_cursor(build_.rows_, &fresh_.cursor);
  for (const AlterPlan::AddedIndex &index : build_.plan_.added) {
    families_.emplace_back();
    checks_.emplace_back();
    if (status == TIDESDB_OK)
      status = open_family(plugin.db, entries_family(build_.shadow_, index.id), &families_.back());
    if (status == TIDESDB_OK) status = open_cursor(families_.back().get(), &checks_.back());
  }
  old_.entries.resize(families_.size());
  fresh_.entries.resize(families_.size());
  return status == TIDESDB_OK ? 0 : build_.fail(status);
}

int IndexBuild::Follower::pass(bool adding) {
  load_.reset(new ChunkedLoad);
  int status = load_->begin(build_.thd_);
  CursorHandle keys;
  if (status == TIDESDB_OK) status = open_cursor(log_.get(), &keys);
  if (status != TIDESDB_OK) return build_.fail(status);
  tidesdb_seek first;
  memset(&first, 0, sizeof(first));
  first.where = TIDESDB_SEEK_FIRST;
  first.mode = TIDESDB_READ_SNAPSHOT;
  ulonglong rows = 0;
  for (status = tidesdb_cursor_seek(keys.get(), after_, &first); status == TIDESDB_OK;
       status = tidesdb_cursor_next(keys.get())) {
    if (++rows % ROWS_BETWEEN_LOOKS == 0 && build_.killed()) return HA_ERR_ABORTED_BY_USER;
    const tidesdb_row &row = keys->rows[keys->position];
    if (const int error = follow({row.key, row.key_size}, adding)) return error;
    if (!load_->is_full()) continue;
    for (const CursorHandle &check : checks_) tidesdb_cursor_reset(check.get());
    status = load_->next_chunk();
    if (status != TIDESDB_OK) return build_.fail(status);
  }
  for (const CursorHandle &check : checks_) tidesdb_cursor_reset(check.get());
  if (build_.virtual_columns_.has_any() && build_.killed()) return HA_ERR_ABORTED_BY_USER;
  if (status == TIDESDB_NOT_FOUND) status = load_->finish();
  return status == TIDESDB_OK ? 0 : build_.fail(status);
}

int IndexBuild::Follower::look(Row *row, tidesdb_txn *txn, Slice primary_key) {
  const int status = tidesdb_cursor_get(row->cursor.get(), txn, primary_key.data, primary_key.size,
                                        TIDESDB_READ_SNAPSHOT, &row->value);
  row->there = status == TIDESDB_OK;
  row->expiry = row->there ? row->cursor->expiry : 0;
  return status == TIDESDB_OK || status == TIDESDB_NOT_FOUND ? 0 : build_.fail(status);
}

int IndexBuild::Follower::make_entries(Row *row, Slice primary_key) {
  for (EntrySet &entries : row->entries) entries.clear();
  if (!row->there) return 0;
  if (!build_.reader_->read(primary_key, row->value, build_.altered_->record[0]))
    return build_.undecodable_row(row->value);
  for (size_t i = 0; i < row->entries.size(); i++) build_.make_entries(i, primary_key, &row->entries[i]);
  return 0;
}

int IndexBuild::Follower::follow(Slice primary_key, bool adding) {
  if (const int error = look(&old_, before_, primary_key)) return error;
  if (const int error = look(&fresh_, after_, primary_key)) return error;
  const RowChange change{old_.expiry, fresh_.expiry, false};
  if (old_.there == fresh_.there &&
      (!old_.there || (!change.renews() && same_bytes(old_.value, fresh_.value))))
    return 0;
  if (adding) changes_++;
  if (const int error = make_entries(&old_, primary_key)) return error;
  if (const int error = make_entries(&fresh_, primary_key)) return error;
  for (size_t i = 0; i < families_.size(); i++) {
    const int error = for_each_difference(
        old_.entries[i], fresh_.entries[i],
        [&](const Entry &gone) { return adding ? 0 : remove(i, gone, primary_key); },
        [&](const Entry &before, const Entry &after) {
          const bool writes = adding && why_rewrite(change, before, after) != Rewrite::NONE;
          return writes ? add(i, after, primary_key, true) : 0;
        },
        [&](const Entry &comes) { return adding ? add(i, comes, primary_key, false) : 0; });
    if (error) return error;
  }
  return 0;
}

/* Whether the entry with this key of a unique index is another row's, which has not expired. */
int IndexBuild::Follower::find_owner(size_t index, const Entry &entry, Slice primary_key, bool *other) {
  Slice there, owner;
  *other = false;
  const int status = tidesdb_cursor_get(checks_[index].get(), load_->txn(), entry.key.data(),
                                        entry.key.size(), TIDESDB_READ_LATEST, &there);
  if (status == TIDESDB_NOT_FOUND) return 0;
  if (status != TIDESDB_OK) return build_.fail(status);
  if (!build_.kinds_[index]->primary_key(entry.key.slice(), there, &owner)) return HA_ERR_CRASHED;
  *other = !same_bytes(owner, primary_key);
  return 0;
}

int IndexBuild::Follower::remove(size_t index, const Entry &entry, Slice primary_key) {
  if (entry.decides && old_.expiry != 0) {
    /* Another row may have taken the value over when this one had expired. */
    bool other;
    if (const int error = find_owner(index, entry, primary_key, &other)) return error;
    if (other) return 0;
  }
  const tidesdb_op op{families_[index].get(), entry.key.slice(), {nullptr, 0}, TIDESDB_DELETE, 0, 0, 0};
  const int status = load_->write(&op, 1);
  return status == TIDESDB_OK ? 0 : build_.fail(status);
}

int IndexBuild::Follower::add(size_t index, const Entry &entry, Slice primary_key, bool replaces) {
  if (entry.decides) {
    bool other;
    if (const int error = find_owner(index, entry, primary_key, &other)) return error;
    /* A row that has expired, but not for everybody, is in nobody's way. */
    if (other && has_expired(fresh_.expiry, expiry_second(plugin.db))) return 0;
    if (other) {
      /* The record still holds the row. */
      build_.virtual_columns_.complete(build_.plan_.added[index].key, build_.altered_->record[0]);
      print_keydup_error(build_.altered_, &build_.altered_->key_info[build_.plan_.added[index].key], MYF(0));
      return HA_ERR_FOUND_DUPP_KEY;
    }
  }
  const uint8_t flags = replaces ? TIDESDB_OP_NEUTRAL : 0;
  const tidesdb_op op{families_[index].get(), entry.key.slice(), entry.value.slice(), TIDESDB_PUT, flags, 0,
                      fresh_.expiry};
  const int status = load_->write(&op, 1);
  return status == TIDESDB_OK ? 0 : build_.fail(status);
}

int IndexBuild::apply_row_log() {
  ulonglong changes = 0;
  return has_log() ? apply_row_log(&changes) : 0;
}

int IndexBuild::apply_row_log(ulonglong *changes) {
  std::unique_ptr<View> now(new View);
  if (const int status = now->open()) return fail(status);
  int error;
  {
    Follower follower(this, view_->txn(), now->txn());
    error = follower.open();
    if (!error) error = follower.remove_old();
    if (!error) error = follower.add_new();
    *changes = follower.changes();
  }
  if (!error) view_ = std::move(now);
  return error;
}

}  // namespace tidesdb
