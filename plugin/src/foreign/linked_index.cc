#include "foreign/linked_index.h"

#include <mysql/plugin.h>

#include "ddl/table_families.h"
#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "store/store.h"

namespace tidesdb {

namespace {

/* CHAR stands filled up with spaces in a record, which are not part of its value. */
Slice value_of(const KeyPart &part, const uchar *record) {
  Slice value = record_value(part, record);
  if (part.storage == KeyPart::Storage::CHAR)
    value.size = part.charset->lengthsp(reinterpret_cast<const char *>(value.data), value.size);
  return value;
}

/* Whether a value has the same bytes as either part, which can_stand_for() each other. */
bool is_encoded_alike(const KeyPart &a, const KeyPart &b) {
  return a.kind == b.kind && a.storage == b.storage && a.nullable == b.nullable &&
         a.descending == b.descending && a.pad_space == b.pad_space && a.trim == b.trim && !a.filled &&
         !b.filled && a.ends_at_nul == b.ends_at_nul && a.levels == b.levels && a.unit == b.unit &&
         a.charset == b.charset && a.characters == b.characters;
}

/* The value as it stands in a CHAR that is compared with the spaces that fill it up. */
void fill_up(const KeyPart &part, Slice value, ByteBuffer *out) {
  CHARSET_INFO *cs = part.charset;
  const char *begin = reinterpret_cast<const char *>(value.data);
  const size_t most = part.characters ? part.characters : part.width;
  const size_t there = part.characters ? cs->numchars(begin, begin + value.size) : value.size;
  out->append(value.data, value.size);
  if (there >= most) return;
  const size_t size = (most - there) * cs->mbminlen;
  cs->fill(reinterpret_cast<char *>(out->reserve(size)), size, ' ');
  out->grow_by(size);
}

}  // namespace

void append_values(const std::vector<KeyPart> &as, const std::vector<KeyPart> &own, const uchar *record,
                   ByteBuffer *out, ByteBuffer *scratch) {
  for (size_t i = 0; i < as.size(); i++) {
    const Slice value = value_of(own[i], record);
    if (!as[i].filled) {
      append_value(as[i], value, out, scratch);
      continue;
    }
    ByteBuffer filled;
    fill_up(as[i], value, &filled);
    append_value(as[i], filled.slice(), out, scratch);
  }
}

std::unique_ptr<LinkedIndex> LinkedIndex::find(THD *thd, const std::string &other,
                                               const std::vector<std::string> &columns,
                                               const std::vector<KeyPart> &own) {
  std::unique_ptr<TableDefinition> definition(new TableDefinition);
  if (definition->read(thd, other) != TableDefinition::Read::DONE) return nullptr;
  TableRecord record;
  if (!read_record(other, &record) || record.definition != definition_identity(definition->share()))
    return nullptr;
  const Columns there(*definition);
  std::vector<const Field *> fields;
  for (const std::string &name : columns) {
    const Field *field = there.find(name);
    if (!field) return nullptr;
    fields.push_back(field);
  }
  bool prefix;
  const uint key = there.find_index(fields, &prefix);
  if (key == MAX_KEY) return nullptr;
  const IndexRecord *index = index_named(record, there.key(key).name);
  if (!index) return nullptr;

  std::unique_ptr<LinkedIndex> found(new LinkedIndex);
  found->parts_ = there.parts(key);
  const std::vector<KeyPart> searched = there.first_parts(key, own.size());
  for (size_t i = 0; i < own.size(); i++) {
    KeyPart as, plain;
    if (!can_stand_for(own[i], searched[i], &as)) return nullptr;
    found->as_.push_back(as);
    plain = as;
    plain.nullable = plain.descending = false;
    found->plain_.push_back(plain);
  }
  const bool is_primary = key == definition->share().primary_key;
  found->unique_ = there.key(key).flags & HA_NOSAME;
  found->whole_ = found->unique_ && own.size() == found->parts_.size();
  if (open_family(plugin.db, primary_family(other), &found->rows_) != TIDESDB_OK) return nullptr;
  if (!is_primary) {
    if (open_family(plugin.db, entries_family(other, index->id), &found->index_) != TIDESDB_OK)
      return nullptr;
    tidesdb_family_attach(found->index_.get(), found->rows_.get());
  }
  /* The definition's columns go with it. */
  for (KeyPart &part : found->parts_) part.field = nullptr;
  if (open_cursor(found->searched(), &found->cursor_) != TIDESDB_OK) return nullptr;
  if (!definition->share().versioned) return found;
  found->current_rows_ = CurrentRows::make(thd, std::move(definition), key, record.history);
  if (!found->current_rows_) return nullptr;
  found->whole_ = found->unique_ && found->current_rows_->end_follows(own.size());
  return found;
}

void LinkedIndex::make_search(const std::vector<KeyPart> &own, const uchar *record, ByteBuffer *search) {
  search->clear();
  append_values(as_, own, record, search, &scratch_);
}

/* Of the row on which the cursor stands. */
int LinkedIndex::row_key(ByteBuffer *key) const {
  const tidesdb_row &entry = cursor_->rows[cursor_->position];
  key->clear();
  if (!index_) {
    key->append(entry.key, entry.key_size);
    return TIDESDB_OK;
  }
  const uchar *at = entry.key, *const end = entry.key + entry.key_size;
  bool alone = unique_;
  for (const KeyPart &part : parts_) {
    bool is_null;
    if (!skip_part(part, &at, end, &is_null)) return TIDESDB_CORRUPTION;
    if (is_null) alone = false;
  }
  if (!alone) {
    key->append(at, static_cast<size_t>(end - at));
    return TIDESDB_OK;
  }
  const uchar *from = entry.value, *const value_end = entry.value + entry.value_size;
  ulonglong size;
  if (!read_varint(&from, value_end, &size) || static_cast<size_t>(value_end - from) < size)
    return TIDESDB_CORRUPTION;
  key->append(from, static_cast<size_t>(size));
  return TIDESDB_OK;
}

int LinkedIndex::get(tidesdb_txn *txn, Slice search, int mode) {
  Slice value;
  const int status = tidesdb_cursor_get(cursor_.get(), txn, search.data, search.size, mode, &value);
  expires_ = status == TIDESDB_OK && cursor_->expiry != 0;
  return status;
}

int LinkedIndex::get_current(tidesdb_txn *txn, Slice search, int mode) {
  int status = TIDESDB_NOT_FOUND;
  for (const bool before_2106 : {false, true}) {
    if (status != TIDESDB_NOT_FOUND) break;
    exact_.assign(search);
    current_rows_->append_end(before_2106, &exact_, &scratch_);
    status = get(txn, exact_.slice(), mode);
  }
  return status;
}

int LinkedIndex::look(tidesdb_txn *txn, Slice search, int mode, ByteBuffer *key) {
  if (whole_ && !key) return current_rows_ ? get_current(txn, search, mode) : get(txn, search, mode);
  tidesdb_seek seek{};
  seek.key = search.data;
  seek.key_size = seek.prefix_size = search.size;
  seek.where = TIDESDB_SEEK_AT_OR_AFTER;
  seek.mode = static_cast<uint8_t>(mode);
  seek.batch_hint = 1;
  int status = tidesdb_cursor_seek(cursor_.get(), txn, &seek);
  if (status == TIDESDB_OK && current_rows_)
    status = skip_history(txn, mode, key ? key : &found_key_);
  else if (status == TIDESDB_OK && key)
    status = row_key(key);
  expires_ = status == TIDESDB_OK && cursor_->rows[cursor_->position].expiry != 0;
  return status;
}

bool LinkedIndex::can_look_for_all(const std::vector<KeyPart> &parts) const {
  if (!whole_ || current_rows_ || parts.size() != as_.size()) return false;
  for (size_t i = 0; i < parts.size(); i++)
    if (!is_encoded_alike(parts[i], as_[i])) return false;
  return true;
}

int LinkedIndex::look_for_all(tidesdb_txn *txn, const Slice *values, size_t count, uchar *found) {
  return tidesdb_find_keys(txn, searched(), values, count, found);
}

int LinkedIndex::look_on(tidesdb_txn *txn, int mode, ByteBuffer *key) {
  const int status = tidesdb_cursor_next(cursor_.get());
  if (status != TIDESDB_OK) return status;
  return current_rows_ ? skip_history(txn, mode, key) : row_key(key);
}

/* From the row on which the cursor stands to the first current one. */
int LinkedIndex::skip_history(tidesdb_txn *txn, int mode, ByteBuffer *key) {
  int status;
  do {
    status = row_key(key);
    bool current = false;
    if (status == TIDESDB_OK) status = is_current(txn, mode, key->slice(), &current);
    if (status != TIDESDB_OK || current) return status;
    if (thd_killed(current_thd)) return TIDESDB_INTERRUPTED;
    status = tidesdb_cursor_next(cursor_.get());
  } while (status == TIDESDB_OK);
  return status;
}

int LinkedIndex::is_current(tidesdb_txn *txn, int mode, Slice row_key, bool *current) {
  using Answer = CurrentRows::Answer;
  const tidesdb_row &entry = cursor_->rows[cursor_->position];
  Answer answer = current_rows_->by_entry({entry.key, entry.key_size});
  if (answer == Answer::IN_ROW) answer = current_rows_->by_row_key(row_key);
  if (answer == Answer::IN_ROW && !index_) {
    answer = current_rows_->by_row(row_key, {entry.value, entry.value_size});
    if (answer == Answer::IN_ROW) return TIDESDB_NO_SUCH_FAMILY;
  }
  if (answer == Answer::IN_ROW) {
    /* A lock on the entry is enough: a row of the past does not become current, and a current one goes under
       a value lock. */
    int status = open_row_cursor();
    if (status != TIDESDB_OK) return status;
    Slice value;
    const int row_mode = mode == TIDESDB_READ_SNAPSHOT ? TIDESDB_READ_SNAPSHOT : TIDESDB_READ_LATEST;
    status = tidesdb_cursor_get(row_cursor_.get(), txn, row_key.data, row_key.size, row_mode, &value);
    if (status == TIDESDB_OK) answer = current_rows_->by_row(row_key, value);
    tidesdb_cursor_reset(row_cursor_.get());
    if (status == TIDESDB_NOT_FOUND)
      answer = Answer::HISTORY; /* it has gone since */
    else if (status != TIDESDB_OK)
      return status;
    if (answer == Answer::IN_ROW) return TIDESDB_NO_SUCH_FAMILY;
  }
  if (answer == Answer::DAMAGED) return TIDESDB_CORRUPTION;
  *current = answer == Answer::CURRENT;
  return TIDESDB_OK;
}

int LinkedIndex::open_row_cursor() {
  return row_cursor_ ? static_cast<int>(TIDESDB_OK) : open_cursor(rows_.get(), &row_cursor_);
}

int LinkedIndex::lock_row(tidesdb_txn *txn, Slice key) {
  int status = open_row_cursor();
  if (status != TIDESDB_OK) return status;
  status = tidesdb_lock_table(txn, rows_.get(), TIDESDB_LOCK_INTENT_SHARED);
  if (status != TIDESDB_OK) return status;
  Slice value;
  status = tidesdb_cursor_get(row_cursor_.get(), txn, key.data, key.size,
                              TIDESDB_READ_SHARED | TIDESDB_READ_BY_ENTRY, &value);
  tidesdb_cursor_reset(row_cursor_.get());
  return status;
}

void LinkedIndex::reset() { tidesdb_cursor_reset(cursor_.get()); }

}  // namespace tidesdb
