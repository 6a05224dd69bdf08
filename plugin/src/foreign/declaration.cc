#include "foreign/declaration.h"

#include <algorithm>
#include <mutex>

#include "create_options.h"
#include "sql_class.h"

#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "errors.h"
#include "foreign/dropped_keys.h"
#include "foreign/key_columns.h"
#include "foreign/mode.h"
#include "foreign/registry.h"
#include "foreign/table_definition.h"
#include "row/row_ttl.h"
#include "server.h"
#include "store/store.h"
#include "txn/autonomous_lock.h"

namespace tidesdb {
namespace foreign {

namespace {

std::mutex latest_mutex;
std::string latest;

std::string text_of(const LEX_CSTRING &name) { return std::string(name.str ? name.str : "", name.length); }

void remember(THD *thd, const std::string &text) {
  char time[40];
  const my_time_t now = my_time(0);
  struct tm parts;
  localtime_r(&now, &parts);
  strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S ", &parts);
  std::lock_guard<std::mutex> guard(latest_mutex);
  latest = time + text;
}

int refuse_text(THD *thd, const std::string &text) {
  push_warning(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_CANNOT_ADD_FOREIGN, text.c_str());
  remember(thd, text);
  return HA_ERR_CANNOT_ADD_FOREIGN;
}

/* (The options of an unopened definition are text.) */
bool names_ttl(const engine_option_value *option) {
  for (; option; option = option->next)
    if (option->value.str && option->name.length == 3 && !strncasecmp(option->name.str, "TTL", 3) &&
        strcmp(option->value.str, "0") && strcasecmp(option->value.str, "NO") &&
        strcasecmp(option->value.str, "OFF"))
      return true;
  return false;
}

class Declaration {
 public:
  Declaration(THD *thd, const std::string &table, const TABLE *form, TableRecord *record)
      : thd_(thd), table_(table), form_(form), columns_(*form), record_(record) {
    is_copy_ = is_intermediate(table) && !is_temporary(table);
    home_ = is_copy_ ? altered_table(thd) : table;
    if (is_temporary(table)) {
      database_ = text_of(form->s->db);
      name_ = text_of(form->s->table_name);
    } else {
      split_canonical(home_, &database_, &name_);
    }
    checks_ = !thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS);
  }

  int add(const Foreign_key &declared) {
    if (declared.old) return keep(declared);
    text_ = shown(declared);
    if (is_temporary(table_)) {
      text_.clear();
      return refuse("Temporary tables can't have foreign key constraints.");
    }
    if (form_->part_info) {
      my_error(ER_FEATURE_NOT_SUPPORTED_WITH_PARTITIONING, MYF(0), "FOREIGN KEY");
      return HA_ERR_CANNOT_ADD_FOREIGN;
    }
    if (const char *what = unsupported(declared)) {
      my_error(ER_CHECK_NOT_IMPLEMENTED, MYF(0), what);
      return HA_ERR_UNSUPPORTED;
    }
    ForeignKeyRecord key = as_declared(declared);
    key.number = new_id();
    if (const int error = take_columns(declared, &key)) return error;
    if (const int error = find_parent(&key)) return error;
    if (const int error = check_set_null(key)) return error;
    if (is_taken(key.name)) return refuse_name(key);
    added_.insert(key.number);
    forget_dropped_key(record_, key.name);
    record_->foreign_keys.push_back(std::move(key));
    return 0;
  }

  int add_all(const Alter_info &statement, bool old) {
    const bool keeps = old || mode(thd_) == sysvars::FOREIGN_KEYS_ENFORCE;
    List<Key> declared(statement.key_list);
    List_iterator_fast<Key> keys(declared);
    while (const Key *key = keys++) {
      if (key->type != Key::FOREIGN_KEY || key->old != old) continue;
      const Foreign_key &foreign = *static_cast<const Foreign_key *>(key);
      if (!keeps)
        drop(foreign);
      else if (const int error = add(foreign))
        return error;
    }
    return 0;
  }

  /* An ALTER by copy makes the table. */
  void copy_dropped(const Alter_info &statement) {
    if (is_copy_ && !form_->part_info) copy_dropped_keys(thd_, statement, home_, record_);
  }

  void sort() {
    for (std::vector<ForeignKeyRecord> *keys : {&record_->foreign_keys, &record_->dropped_keys})
      std::sort(keys->begin(), keys->end(),
                [](const ForeignKeyRecord &a, const ForeignKeyRecord &b) { return a.name < b.name; });
  }

  int finish() {
    sort();
    const bool is_parent = !keys_to(home_).empty();
    record_->is_parent = record_->is_parent || is_parent;
    if (is_parent && rows_may_expire(form_)) {
      my_error(ER_CHECK_NOT_IMPLEMENTED, MYF(0), "TTL of a table that foreign keys refer to");
      return HA_ERR_UNSUPPORTED;
    }
    /* When the copy takes the old table's place, that is looked at again. */
    if (is_parent && !is_copy_)
      if (const int error = check_parent(thd_, table_, columns_)) return error;
    if (is_copy_ && (is_parent || !record_->foreign_keys.empty())) record_->home = home_;
    return 0;
  }

  Declared *added() { return &added_; }

 private:
  /* Without columns and number. */
  ForeignKeyRecord as_declared(const Foreign_key &declared) const {
    ForeignKeyRecord key;
    name_key(declared, &key);
    key.on_delete = static_cast<uint8_t>(action(declared.delete_opt));
    key.on_update = static_cast<uint8_t>(action(declared.update_opt));
    key.parent_database = declared.ref_db.str ? text_of(declared.ref_db) : database_;
    key.parent_table = text_of(declared.ref_table);
    if (lower_case_table_names) {
      lower(&key.parent_database);
      lower(&key.parent_table);
    }
    return key;
  }

  /* tidesdb_foreign_keys=WARN: the definition stays without an effect. InnoDB takes none for a partitioned or
     temporary table either. */
  void drop(const Foreign_key &declared) {
    if (is_temporary(table_) || form_->part_info) return;
    ForeignKeyRecord key = as_declared(declared);
    if (has_key(key.name)) return;
    text_ = shown(declared);
    std::vector<const Field *> fields;
    if (find_columns(declared, &key, &fields)) key.columns.clear();
    forget_dropped_key(record_, key.name);
    record_->dropped_keys.push_back(std::move(key));
  }

  static enum_fk_option action(enum_fk_option declared) {
    return declared == FK_OPTION_UNDEF ? FK_OPTION_RESTRICT : declared;
  }

  static void lower(std::string *name) {
    char copy[NAME_LEN * 2];
    const size_t size = system_charset_info->casedn(&(*name)[0], name->size(), copy, sizeof(copy));
    *name = std::string(copy, size);
  }

  static const char *unsupported(const Foreign_key &key) {
    for (const enum_fk_option option : {key.delete_opt, key.update_opt}) {
      if (option == FK_OPTION_SET_DEFAULT) return "FOREIGN KEY ... SET DEFAULT";
    }
    if (key.match_opt == Foreign_key::FK_MATCH_FULL) return "FOREIGN KEY ... MATCH FULL";
    if (key.match_opt == Foreign_key::FK_MATCH_PARTIAL) return "FOREIGN KEY ... MATCH PARTIAL";
    return nullptr;
  }

  int refuse(const std::string &why, const std::string &with = "with ") {
    return refuse_text(thd_, std::string(is_copy_ ? "Alter " : "Create ") + " table " +
                                 quoted_table(thd_, database_, name_) + " " + with + "foreign key " + text_ +
                                 (text_.empty() ? "" : " ") + "constraint failed. " + why);
  }

  /* The key's name, or its columns, as InnoDB shows them. */
  std::string shown(const Foreign_key &key) {
    if (key.constraint_name.str) return quoted_name(thd_, text_of(key.constraint_name));
    if (key.name.str) return quoted_name(thd_, text_of(key.name));
    std::string text;
    List<Key_part_spec> parts(key.columns);
    List_iterator_fast<Key_part_spec> columns(parts);
    while (const Key_part_spec *column = columns++)
      text += (text.empty() ? "" : ", ") + text_of(column->field_name);
    return "(" + text + ")";
  }

  /* One that stays in an ALTER by copy: its number is what transactions of the other side know. */
  int keep(const Foreign_key &declared) {
    const std::string name = text_of(declared.constraint_name);
    for (const auto &known : keys_of(home_)) {
      if (known->name != name) continue;
      ForeignKeyRecord key;
      key.name = known->name;
      key.number = known->number;
      key.parent_database = known->parent_database;
      key.parent_table = known->parent_table;
      key.on_delete = static_cast<uint8_t>(known->on_delete);
      key.on_update = static_cast<uint8_t>(known->on_update);
      text_ = shown(declared);
      if (const int error = take_columns(declared, &key)) return error;
      if (const int error = check_set_null(key)) return error;
      record_->foreign_keys.push_back(std::move(key));
      return 0;
    }
    return 0;
  }

  bool has_key(const std::string &name) const {
    for (const ForeignKeyRecord &key : record_->foreign_keys)
      if (same_name({key.name.data(), key.name.size()}, {name.data(), name.size()})) return true;
    return false;
  }

  bool is_taken(const std::string &name) const {
    if (has_key(name)) return true;
    const auto found = find(home_.substr(0, home_.find('/') + 1), name);
    return found && found->child != home_;
  }

  void name_key(const Foreign_key &declared, ForeignKeyRecord *key) const {
    if (declared.constraint_name.str) {
      key->name = text_of(declared.constraint_name);
      return;
    }
    const std::string start = name_ + "_ibfk_";
    ulonglong highest = 0;
    const auto count = [&](const std::string &name) {
      if (name.compare(0, start.size(), start)) return;
      highest = std::max<ulonglong>(highest, strtoull(name.c_str() + start.size(), nullptr, 10));
    };
    for (const ForeignKeyRecord &known : record_->foreign_keys) count(known.name);
    for (const ForeignKeyRecord &known : record_->dropped_keys) count(known.name);
    for (const auto &known : keys_of(home_)) count(known->name);
    key->name = start + std::to_string(highest + 1);
  }

  int refuse_name(const ForeignKeyRecord &key) {
    TableRecord record = *record_;
    record.foreign_keys = {key};
    for (const auto &shown : keys_in_record(home_, record)) {
      const std::string text = "CREATE or ALTER TABLE " + quoted_table(thd_, database_, name_) +
                               " failed: duplicate name, " + describe_key(thd_, *shown);
      push_warning(thd_, Sql_condition::WARN_LEVEL_WARN, HA_ERR_FOUND_DUPP_KEY, text.c_str());
      remember(thd_, text);
    }
    return HA_ERR_FOUND_DUPP_KEY;
  }

  int take_columns(const Foreign_key &declared, ForeignKeyRecord *key) {
    std::vector<const Field *> fields;
    if (const int error = find_columns(declared, key, &fields)) return error;
    bool prefix;
    /* Of a key that stays, foreign_key_checks=0 lets it go. */
    if (columns_.find_index(fields, &prefix) == MAX_KEY && (checks_ || !declared.old))
      return no_index(prefix);
    return 0;
  }

  int find_columns(const Foreign_key &declared, ForeignKeyRecord *key, std::vector<const Field *> *fields) {
    List<Key_part_spec> children(declared.columns), parents(declared.ref_columns);
    List_iterator_fast<Key_part_spec> child(children), parent(parents);
    own_.clear();
    names_.clear();
    while (const Key_part_spec *column = child++) {
      const Key_part_spec *referenced = parent++;
      const Field *field = columns_.find(text_of(column->field_name));
      if (!field) return refuse("Column " + text_of(column->field_name) + " was not found.", "");
      /* (InnoDB lets it be, and an action then moves a row into the past.) */
      if (field->vers_sys_field())
        return refuse("Column '" + text_of(field->field_name) + "' is the start or the end of a row's time.");
      fields->push_back(field);
      own_.push_back(columns_.whole(field));
      names_.push_back(text_of(field->field_name));
      key->columns.push_back({record_->history.column_ids[field->field_index],
                              text_of(referenced ? referenced->field_name : column->field_name)});
    }
    return 0;
  }

  int check_set_null(const ForeignKeyRecord &key) {
    if (key.on_delete != FK_OPTION_SET_NULL && key.on_update != FK_OPTION_SET_NULL) return 0;
    for (size_t i = 0; i < own_.size(); i++)
      if (!own_[i].nullable)
        return refuse("You have defined a SET NULL condition but column '" + names_[i] +
                      "' is defined as NOT NULL.");
    return 0;
  }

  int no_index(bool prefix) {
    return refuse(std::string("There is ") + (prefix ? "only prefix" : "no") +
                  " index in the referenced table where the referenced columns appear as the first columns.");
  }

  int find_parent(ForeignKeyRecord *key) {
    const std::string parent = canonical_name(key->parent_database, key->parent_table);
    if (parent == home_) {
      if (rows_may_expire(form_)) return expires(key);
      return compare(columns_, key);
    }
    if (const int error = keep_parent(*key, parent)) return error;
    TableDefinition definition;
    switch (definition.read(thd_, parent)) {
      case TableDefinition::Read::DONE:
        break;
      case TableDefinition::Read::MISSING:
        if (!checks_) return 0;
        return refuse("Referenced table " + quoted_table(thd_, key->parent_database, key->parent_table) +
                      " not found in the data dictionary.");
      case TableDefinition::Read::OF_OTHER_ENGINE:
        if (!checks_) return 0;
        return refuse("Referenced table " + quoted_table(thd_, key->parent_database, key->parent_table) +
                      " has another engine, and both have ENGINE=TidesDB.");
      case TableDefinition::Read::PARTITIONED:
        my_error(ER_FEATURE_NOT_SUPPORTED_WITH_PARTITIONING, MYF(0), "FOREIGN KEY");
        return HA_ERR_CANNOT_ADD_FOREIGN;
    }
    if (share_expires(definition.share())) return expires(key);
    return compare(Columns(definition), key);
  }

  /* Waits until no transaction, nor a prepared one without a connection, has changes of the parent, and keeps
     them and other definitions of it away to the statement's end: nobody has locked what such a transaction
     takes away. */
  int keep_parent(const ForeignKeyRecord &key, const std::string &parent) {
    MDL_request request;
    MDL_REQUEST_INIT(&request, MDL_key::TABLE, key.parent_database.c_str(), key.parent_table.c_str(),
                     MDL_SHARED_NO_WRITE, MDL_TRANSACTION);
    if (thd_->mdl_context.acquire_lock(&request, static_cast<double>(thd_->variables.lock_wait_timeout)))
      return HA_ERR_LOCK_WAIT_TIMEOUT;
    FamilyHandle rows;
    if (open_family(plugin.db, primary_family(parent), &rows) != TIDESDB_OK) return 0;
    TxnHandle txn;
    const int status = autonomous_lock(thd_, rows.get(), TIDESDB_LOCK_SHARED, &txn);
    if (txn) tidesdb_txn_rollback(txn.get());
    if (status == TIDESDB_LOCK_TIMEOUT) my_error(ER_LOCK_WAIT_TIMEOUT, MYF(0));
    if (status == TIDESDB_INTERRUPTED) thd_->send_kill_message();
    return status == TIDESDB_OK ? 0 : plain_error(status, "FOREIGN KEY");
  }

  int expires(const ForeignKeyRecord *key) {
    return refuse("Rows of the referenced table " +
                  quoted_table(thd_, key->parent_database, key->parent_table) +
                  " expire (TTL), and nothing refers to a row that goes by itself.");
  }

  int compare(const Columns &parent, ForeignKeyRecord *key) {
    std::vector<const Field *> fields;
    for (ForeignKeyRecord::Column &column : key->columns) {
      const Field *field = parent.find(column.referenced);
      if (!field) return refuse("Column " + column.referenced + " was not found.", "");
      column.referenced = text_of(field->field_name);
      fields.push_back(field);
    }
    bool prefix;
    if (parent.find_index(fields, &prefix) == MAX_KEY) return no_index(prefix);
    for (size_t i = 0; i < fields.size(); i++) {
      KeyPart as;
      if (thd_->is_strict_mode() && !own_[i].nullable && fields[i]->real_maybe_null() &&
          asks_for_values(static_cast<enum_fk_option>(key->on_update),
                          static_cast<enum_fk_option>(key->on_delete)))
        return refuse("ON UPDATE CASCADE would put NULL of the column '" + text_of(fields[i]->field_name) +
                      "' into '" + names_[i] + "', which is defined as NOT NULL.");
      if (can_stand_for(own_[i], parent.whole(fields[i]), &as)) continue;
      return refuse("Field type or character set for column '" + names_[i] +
                    "' does not match referenced column '" + text_of(fields[i]->field_name) + "'.");
    }
    return 0;
  }

  THD *thd_;
  const std::string table_;
  const TABLE *form_;
  const Columns columns_;
  TableRecord *record_;
  bool is_copy_, checks_;
  std::string home_; /* the table that an ALTER makes anew; else the table */
  std::string database_, name_;
  std::string text_;
  std::vector<KeyPart> own_;
  std::vector<std::string> names_;
  Declared added_;
};

}  // namespace

bool rows_may_expire(const TABLE *form) {
  return (form->s->option_struct && form->s->option_struct->ttl != 0) || lifetime_column(form) >= 0;
}

bool share_expires(const TABLE_SHARE &share) {
  if (names_ttl(share.option_list)) return true;
  for (Field **field = share.field; *field; field++)
    if (names_ttl((*field)->option_list)) return true;
  return false;
}

/* The server does not say which table an ALTER makes anew: the statement names it first. */
std::string altered_table(THD *thd) {
  const TABLE_LIST *named = thd->lex->query_tables;
  return named ? canonical_name(text_of(named->db), text_of(named->table_name)) : std::string();
}

int declare(THD *thd, const std::string &table, const TABLE *form, const HA_CREATE_INFO *info,
            TableRecord *record, Declared *declared) {
  if (!info->alter_info || form->s->table_type == TABLE_TYPE_SEQUENCE) return 0;
  Declaration declaration(thd, table, form, record);
  declaration.copy_dropped(*info->alter_info);
  if (const int error = declaration.add_all(*info->alter_info, true)) return error;
  if (const int error = declaration.add_all(*info->alter_info, false)) return error;
  if (const int error = declaration.finish()) return error;
  declared->swap(*declaration.added());
  return 0;
}

int declare_in_place(THD *thd, const std::string &table, const TABLE *form, const HA_CREATE_INFO *info,
                     TableRecord *record, Declared *declared) {
  Declaration declaration(thd, table, form, record);
  if (const int error = declaration.add_all(*info->alter_info, false)) return error;
  if (const int error = declaration.finish()) return error;
  declared->swap(*declaration.added());
  return 0;
}

void keep_dropped(THD *thd, const std::string &table, const TABLE *form, const HA_CREATE_INFO *info,
                  TableRecord *record) {
  Declaration declaration(thd, table, form, record);
  /* Nothing of it is refused. */
  (void)declaration.add_all(*info->alter_info, false);
  declaration.sort();
}

void renew(TableRecord *record, const std::string &home) {
  for (const auto &now : keys_of(home))
    for (ForeignKeyRecord &key : record->foreign_keys) {
      if (key.number != now->number || key.columns.size() != now->columns.size()) continue;
      key.parent_database = now->parent_database;
      key.parent_table = now->parent_table;
      for (size_t i = 0; i < key.columns.size(); i++) key.columns[i].referenced = now->columns[i].parent;
    }
  record->is_parent = record->is_parent || !keys_to(home).empty();
}

bool names_are_taken(const TableRecord &record, const std::string &home) {
  for (const ForeignKeyRecord &key : record.foreign_keys) {
    const auto found = find(home.substr(0, home.find('/') + 1), key.name);
    if (found && found->child != home && found->number != key.number) return true;
  }
  return false;
}

int check_parent(THD *thd, const std::string &name, const Columns &parent) {
  if (thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS)) return 0;
  for (const auto &key : keys_to(name)) {
    TableDefinition definition;
    if (key->refers_to_itself() || definition.read(thd, key->child) != TableDefinition::Read::DONE) continue;
    const Columns child(definition);
    const std::vector<const Field *> own = child_columns(*key, child),
                                     referenced = parent_columns(*key, parent);
    bool fits = !own.empty() && !referenced.empty(), prefix;
    for (size_t i = 0; fits && i < own.size(); i++) {
      KeyPart as;
      fits = can_stand_for(child.whole(own[i]), parent.whole(referenced[i]), &as);
    }
    if (fits && parent.find_index(referenced, &prefix) != MAX_KEY) continue;
    return refuse_text(thd, "Table " + quoted_table(thd, key->parent_database, key->parent_table) +
                                " has no index, with columns of the same types, that the foreign key " +
                                describe_key(thd, *key) + " of " +
                                quoted_table(thd, key->child_database, key->child_table) + " needs.");
  }
  return 0;
}

std::string latest_error() {
  std::lock_guard<std::mutex> guard(latest_mutex);
  return latest;
}

}  // namespace foreign
}  // namespace tidesdb
