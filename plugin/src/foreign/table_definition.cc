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

std::string TableDefinition::identity() const {
  return std::string(reinterpret_cast<const char *>(share_.tabledef_version.str),
                     share_.tabledef_version.length);
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
  std::vector<KeyPart> parts;
  const KEY &key = keys_[number];
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    parts.push_back(compile_key_part(fields_[key.key_part[i].fieldnr - 1], record_, key.key_part[i]));
  return parts;
}

/* The server appends the column to each unique key. */
bool Columns::ends_with_row_end(const KEY &key, size_t columns) const {
  return share_.versioned && key.user_defined_key_parts == columns + 1 &&
         key.key_part[columns].fieldnr == share_.vers.end_fieldno + 1U;
}

uint Columns::find_index(const std::vector<const Field *> &columns, bool *prefix) const {
  uint best = MAX_KEY, best_rank = UINT_MAX;
  *prefix = false;
  for (uint number = 0; number < share_.keys; number++) {
    const KEY &candidate = keys_[number];
    if (candidate.algorithm == HA_KEY_ALG_LONG_HASH || candidate.algorithm == HA_KEY_ALG_FULLTEXT ||
        candidate.algorithm == HA_KEY_ALG_RTREE || candidate.user_defined_key_parts < columns.size())
      continue;
    bool fits = true, cut = false;
    for (size_t i = 0; fits && i < columns.size(); i++) {
      const KEY_PART_INFO &part = candidate.key_part[i];
      fits = part.fieldnr == columns[i]->field_index + 1U;
      cut = cut || (fits && part.length != columns[i]->key_length());
    }
    if (!fits) continue;
    if (cut) {
      *prefix = true;
      continue;
    }
    const bool alone =
        candidate.user_defined_key_parts == columns.size() || ends_with_row_end(candidate, columns.size());
    const uint rank = number == share_.primary_key ? 0 : alone && (candidate.flags & HA_NOSAME) ? 1 : 2;
    if (rank < best_rank) {
      best = number;
      best_rank = rank;
    }
  }
  return best;
}

}  // namespace tidesdb
