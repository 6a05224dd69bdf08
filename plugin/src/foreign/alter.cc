#include "foreign/alter.h"

#include <algorithm>
#include <functional>

#include "sql_class.h"
#include "sql_table.h"

#include "foreign/declaration.h"
#include "foreign/linked_index.h"
#include "foreign/mode.h"
#include "foreign/registry.h"
#include "foreign/table_definition.h"
#include "server.h"

namespace tidesdb {
namespace foreign {

namespace {

constexpr const char REFUSED[] = "TidesDB: a foreign key needs it";

/* What stands against a key is said by the copy; that a lock was waited for too long is said here. */
class Unsaid final : public Internal_error_handler {
 public:
  bool handle_condition(THD *, uint error, const char *, Sql_condition::enum_warning_level *, const char *,
                        Sql_condition **) override {
    return error != ER_LOCK_WAIT_TIMEOUT && error != ER_LOCK_DEADLOCK && error != ER_QUERY_INTERRUPTED;
  }
};

class Plan {
 public:
  Plan(TABLE *table, TABLE *altered, const Alter_inplace_info *info, const std::string &name,
       TableRecord *record)
      : table_(table), altered_(altered), info_(info), name_(name), record_(record) {}

  const char *make(KeyPlan *plan) {
    kept_ = kept_columns(*info_->alter_info);
    for (const auto &[before, after] : kept_)
      if (before != after) plan->renamed[before] = after;
    drop_keys();
    if (!keys_to(name_).empty() && rows_may_expire(altered_)) {
      my_error(ER_CHECK_NOT_IMPLEMENTED, MYF(0), "TTL of a table that foreign keys refer to");
      return REFUSED;
    }
    const Columns columns_after(*altered_);
    for (const ForeignKeyRecord &key : record_->foreign_keys)
      if (!keep_child(key, columns_after)) return REFUSED;
    for (const auto &key : keys_to(name_))
      if (!is_dropped(*key) && !keep_parent(*key, columns_after)) return REFUSED;
    if (!(info_->handler_flags & ALTER_ADD_FOREIGN_KEY)) return nullptr;
    if (mode(thd()) != sysvars::FOREIGN_KEYS_ENFORCE) {
      keep_dropped(thd(), name_, altered_, info_->create_info, record_);
      return nullptr;
    }
    if (!thd_test_options(thd(), OPTION_NO_FOREIGN_KEY_CHECKS))
      return add_checked(&plan->to_check) ? nullptr
             : thd()->is_error()          ? REFUSED
                                          : "TidesDB: the rows cannot be checked as they are";
    Declared added;
    if (const int error = declare_in_place(thd(), name_, altered_, info_->create_info, record_, &added)) {
      if (!thd()->is_error()) table_->file->print_error(error, MYF(0));
      return REFUSED;
    }
    return nullptr;
  }

 private:
  static std::string text(const LEX_CSTRING &name) { return std::string(name.str, name.length); }
  THD *thd() const { return table_->in_use; }

  /* Keys whose columns rows have already, and whose parent has an index now. False: the copy decides, with
     the answers of InnoDB where it refuses. */
  bool add_checked(ForeignKeys *to_check) {
    TableRecord record = *record_;
    Declared added;
    {
      Unsaid unsaid;
      thd()->push_internal_handler(&unsaid);
      const int error = declare_in_place(thd(), name_, altered_, info_->create_info, &record, &added);
      thd()->pop_internal_handler();
      if (error) return false;
    }
    std::map<std::string, std::string> names_before;
    for (const auto &[before, after] : kept_) names_before[after] = before;
    const Columns columns(*table_);
    for (const auto &declared : keys_in_record(name_, record)) {
      if (!added.count(declared->number)) continue;
      auto key = std::make_shared<ForeignKey>(*declared);
      std::vector<std::string> parents;
      std::vector<KeyPart> own;
      for (ForeignKey::Column &column : key->columns) {
        const auto before = names_before.find(column.name);
        const Field *field = before == names_before.end() ? nullptr : columns.find(before->second);
        if (!field || !field->stored_in_db()) return false;
        column.name = before->second;
        parents.push_back(column.parent);
        own.push_back(columns.whole(field));
      }
      if (!LinkedIndex::find(thd(), key->parent, parents, own)) return false;
      to_check->push_back(std::move(key));
    }
    *record_ = record;
    return true;
  }

  void drop_keys() {
    std::vector<ForeignKeyRecord> &keys = record_->foreign_keys;
    keys.erase(
        std::remove_if(keys.begin(), keys.end(),
                       [&](const ForeignKeyRecord &key) { return drops_key(*info_->alter_info, key.name); }),
        keys.end());
    end_dropped_keys(thd(), *info_->alter_info, record_);
  }

  bool is_dropped(const ForeignKey &key) const {
    return key.child == name_ &&
           std::none_of(record_->foreign_keys.begin(), record_->foreign_keys.end(),
                        [&](const ForeignKeyRecord &kept) { return kept.number == key.number; });
  }

  /* The columns that the key needs are not all there. As InnoDB has it, the index counts more than the column
     where both go. */
  bool refuse_column(const std::vector<const Field *> &before, const std::function<void()> &otherwise) {
    const Columns columns(*table_);
    bool prefix;
    const uint index = columns.find_index(before, &prefix);
    bool stays = index == MAX_KEY;
    for (uint i = 0; !stays && i < altered_->s->keys; i++)
      stays = same_name(altered_->key_info[i].name, columns.key(index).name);
    if (!stays) return refuse_index(before);
    otherwise();
    return false;
  }

  /* The index that the columns have now, and do not have any more. */
  bool refuse_index(const std::vector<const Field *> &before) {
    const Columns columns(*table_);
    bool prefix;
    const uint index = columns.find_index(before, &prefix);
    my_error(ER_DROP_INDEX_FK, MYF(0), index == MAX_KEY ? "" : columns.key(index).name.str);
    return false;
  }

  bool keep_child(const ForeignKeyRecord &key, const Columns &after) {
    std::vector<const Field *> fields, before;
    const Field *gone = nullptr;
    for (const ForeignKeyRecord::Column &column : key.columns) {
      const auto &ids = record_->history.column_ids;
      const size_t place = static_cast<size_t>(std::find(ids.begin(), ids.end(), column.id) - ids.begin());
      if (const Field *old = old_column(column.id)) {
        before.push_back(old);
        if (place >= ids.size()) gone = old;
      }
      if (place < ids.size()) fields.push_back(altered_->field[place]);
    }
    if (gone)
      return refuse_column(before, [&] {
        my_error(ER_FK_COLUMN_CANNOT_DROP, MYF(0), gone->field_name.str, key.name.c_str());
      });
    bool prefix;
    return after.find_index(fields, &prefix) != MAX_KEY ||
           thd_test_options(thd(), OPTION_NO_FOREIGN_KEY_CHECKS) || refuse_index(before);
  }

  bool keep_parent(const ForeignKey &key, const Columns &after) {
    const Columns columns(*table_);
    std::vector<const Field *> fields, before;
    const Field *gone = nullptr;
    for (const ForeignKey::Column &column : key.columns) {
      const Field *old = columns.find(column.parent);
      if (!old) return true; /* made without it, with foreign_key_checks=0 */
      const auto kept = kept_.find(text(old->field_name));
      const Field *field = kept == kept_.end() ? nullptr : after.find(kept->second);
      if (!field) gone = old;
      fields.push_back(field);
      before.push_back(old);
    }
    if (gone)
      return refuse_column(before, [&] {
        my_error(ER_FK_COLUMN_CANNOT_DROP_CHILD, MYF(0), gone->field_name.str, key.name.c_str(),
                 quoted_table(thd(), key.child_database, key.child_table).c_str());
      });
    /* Of a copy the server looks itself. */
    const bool follows = asks_for_values(key.on_update, key.on_delete) && thd()->is_strict_mode();
    for (size_t i = 0; follows && i < fields.size(); i++)
      if (fields[i]->maybe_null() && !before[i]->maybe_null() && !key.columns[i].nullable) {
        my_error(ER_FK_COLUMN_CANNOT_CHANGE_CHILD, MYF(0), before[i]->field_name.str, key.name.c_str(),
                 (key.child_database + "." + key.child_table).c_str());
        return false;
      }
    bool prefix;
    if (after.find_index(fields, &prefix) != MAX_KEY || thd_test_options(thd(), OPTION_NO_FOREIGN_KEY_CHECKS))
      return true;
    return columns.find_index(before, &prefix) == MAX_KEY || refuse_index(before);
  }

  /* Of the table as it is: new numbers are above all that it has had. */
  const Field *old_column(uint32_t id) const {
    for (const auto &known : keys_of(name_))
      for (size_t i = 0; i < known->columns.size(); i++) {
        const Field *field = Columns(*table_).find(known->columns[i].name);
        if (field && number_of(*known, i) == id) return field;
      }
    return nullptr;
  }

  uint32_t number_of(const ForeignKey &key, size_t column) const {
    for (const ForeignKeyRecord &record : record_->foreign_keys)
      if (record.number == key.number && column < record.columns.size()) return record.columns[column].id;
    return 0;
  }

  TABLE *table_, *altered_;
  const Alter_inplace_info *info_;
  const std::string &name_;
  TableRecord *record_;
  KeptColumns kept_;
};

}  // namespace

const char *plan_keys(TABLE *table, TABLE *altered, const Alter_inplace_info *info, const std::string &name,
                      TableRecord *record, KeyPlan *plan) {
  return Plan(table, altered, info, name, record).make(plan);
}

}  // namespace foreign
}  // namespace tidesdb
