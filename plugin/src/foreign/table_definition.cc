#include "foreign/table_definition.h"

#include "sql_class.h"

#include "foreign/foreign_key.h"
#include "server.h"
#include "store/store.h"

namespace tidesdb {

TableDefinition::~TableDefinition() {
  if (is_made_) free_table_share(&share_);
}

TableDefinition::Read TableDefinition::read(THD *thd, const std::string &table) {
  if (is_made_) free_table_share(&share_);
  is_made_ = false;
  path_ = "./" + table;
  if (my_access((path_ + reg_ext).c_str(), F_OK) != 0) return Read::MISSING;
  std::string database, name;
  split_canonical(table, &database, &name);
  key_ = database + '\0' + name + '\0';
  init_private_share(thd, &share_, key_, path_.c_str());
  is_made_ = true;
  Dummy_error_handler silence;
  thd->push_internal_handler(&silence);
  const bool is_read = open_table_def(thd, &share_, GTS_TABLE) == OPEN_FRM_OK;
  thd->pop_internal_handler();
  if (!is_read) return Read::MISSING;
  if (share_.partition_info_str) return Read::PARTITIONED;
  return share_.db_type() == plugin.hton ? Read::DONE : Read::OF_OTHER_ENGINE;
}

const Field *Columns::find(const std::string &name) const {
  for (Field **field = fields_; *field; field++)
    if (same_name((*field)->field_name, {name.data(), name.size()})) return *field;
  return nullptr;
}

KeyPart Columns::whole(const Field *field) const {
  KEY_PART_INFO info{};
  info.fieldnr = static_cast<uint16>(field->field_index + 1);
  info.length = static_cast<uint16>(field->key_length());
  KeyPart part = compile_key_part(fields_[field->field_index], record_, info);
  return part;
}

std::vector<KeyPart> Columns::parts(uint number) const {
  return first_parts(number, keys_[number].user_defined_key_parts);
}

std::vector<KeyPart> Columns::first_parts(uint number, size_t count) const {
  std::vector<KeyPart> parts;
  for (size_t i = 0; i < count; i++) {
    const KEY_PART_INFO &part = entry_part(number, i);
    parts.push_back(compile_key_part(fields_[part.fieldnr - 1], record_, part));
  }
  return parts;
}

/* Entries of an index that is not unique go on with the row's key. */
size_t Columns::entry_parts(uint number) const {
  const KEY &key = keys_[number];
  const bool goes_on = !(key.flags & HA_NOSAME) && share_.primary_key != MAX_KEY;
  return key.user_defined_key_parts + (goes_on ? keys_[share_.primary_key].user_defined_key_parts : 0);
}

const KEY_PART_INFO &Columns::entry_part(uint number, size_t place) const {
  const KEY &key = keys_[number];
  if (place < key.user_defined_key_parts) return key.key_part[place];
  return keys_[share_.primary_key].key_part[place - key.user_defined_key_parts];
}

/* The server appends the column to each unique key. */
bool Columns::ends_with_row_end(const KEY &key, size_t columns) const {
  return share_.versioned && key.user_defined_key_parts == columns + 1 &&
         key.key_part[columns].fieldnr == share_.vers.end_fieldno + 1U;
}

bool Columns::begin_with(uint number, const std::vector<const Field *> &columns, bool *cut) const {
  const KEY &key = keys_[number];
  *cut = false;
  if (key.algorithm == HA_KEY_ALG_LONG_HASH || is_full_text(key) || key.algorithm == HA_KEY_ALG_RTREE ||
      entry_parts(number) < columns.size())
    return false;
  for (size_t i = 0; i < columns.size(); i++) {
    const KEY_PART_INFO &part = entry_part(number, i);
    if (part.fieldnr != columns[i]->field_index + 1U) return false;
    *cut = *cut || part.length != columns[i]->key_length();
  }
  return true;
}

uint Columns::first_index(const std::vector<const Field *> &columns) const {
  for (uint number = 0; number < share_.keys; number++) {
    bool cut;
    if (begin_with(number, columns, &cut) && !cut) return number;
  }
  return MAX_KEY;
}

uint Columns::find_index(const std::vector<const Field *> &columns, bool *prefix) const {
  uint best = MAX_KEY, best_rank = UINT_MAX;
  *prefix = false;
  for (uint number = 0; number < share_.keys; number++) {
    const KEY &candidate = keys_[number];
    bool cut;
    if (!begin_with(number, columns, &cut)) continue;
    if (cut) {
      *prefix = true;
      continue;
    }
    const bool alone =
        candidate.user_defined_key_parts == columns.size() || ends_with_row_end(candidate, columns.size());
    const bool shorter = candidate.user_defined_key_parts < columns.size();
    const uint rank = number == share_.primary_key             ? 0
                      : alone && (candidate.flags & HA_NOSAME) ? 1
                      : shorter                                ? 3
                                                               : 2;
    if (rank < best_rank) {
      best = number;
      best_rank = rank;
    }
  }
  return best;
}

}  // namespace tidesdb
