#include "foreign/registry.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "log.h"

#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "server.h"
#include "store/handles.h"
#include "store/store.h"

namespace tidesdb {
namespace foreign {

namespace {

/* No table has such a name: it holds no `/`. The key's number follows. Stores keep the older word. */
constexpr char VALUE_LOCKS[] = "#foreign-key-guards-";

std::string value_locks_name(uint64_t number) { return VALUE_LOCKS + std::to_string(number); }

/* A table that an ALTER by copy has put aside. */
struct Aside {
  std::string table; /* its old name */
  /* Keys that the new table in its place does not have. The server may still put this one back. */
  std::set<uint64_t> keys;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, ForeignKeys> by_child, by_parent;
  std::set<std::string> with_dropped_keys;
  std::map<std::string, Aside> aside;
  std::atomic<uint64_t> generation{1};
  std::map<uint64_t, ValueLocks> value_locks;
};

Registry registry;

/* The order in which InnoDB goes through them: by the child's database and the name. */
bool precedes(const std::shared_ptr<const ForeignKey> &a, const std::shared_ptr<const ForeignKey> &b) {
  return a->child_database != b->child_database ? a->child_database < b->child_database : a->name < b->name;
}

void remove_child(const std::string &table) {
  const auto child = registry.by_child.find(table);
  if (child == registry.by_child.end()) return;
  for (const auto &key : child->second) {
    const auto parent = registry.by_parent.find(key->parent);
    if (parent == registry.by_parent.end()) continue;
    ForeignKeys &keys = parent->second;
    keys.erase(std::remove(keys.begin(), keys.end(), key), keys.end());
    if (keys.empty()) registry.by_parent.erase(parent);
  }
  registry.by_child.erase(child);
}

ForeignKeys found(const std::map<std::string, ForeignKeys> &all, const std::string &table) {
  std::lock_guard<std::mutex> guard(registry.mutex);
  const auto at = all.find(table);
  return at == all.end() ? ForeignKeys() : at->second;
}

/* Whether a table, in the making or not, has the key. Under the mutex. */
bool is_known(uint64_t number) {
  for (const auto &[table, keys] : registry.by_child)
    for (const auto &key : keys)
      if (key->number == number) return true;
  return false;
}

/* Whether an ALTER by copy has put the table aside, and the new one is not in its place yet. */
bool is_put_aside(const std::string &table) {
  std::lock_guard<std::mutex> guard(registry.mutex);
  return std::any_of(registry.aside.begin(), registry.aside.end(),
                     [&](const auto &aside) { return aside.second.table == table; });
}

/* Leaves the numbers of keys that no table has any more, nor can get back. Under the mutex. */
void forget_value_locks(std::vector<uint64_t> *gone) {
  const auto is_kept = [](uint64_t number) {
    return is_known(number) ||
           std::any_of(registry.aside.begin(), registry.aside.end(),
                       [&](const auto &aside) { return aside.second.keys.count(number) != 0; });
  };
  gone->erase(std::remove_if(gone->begin(), gone->end(), is_kept), gone->end());
  for (const uint64_t number : *gone) registry.value_locks.erase(number);
}

/* False: the table's record cannot be read, and its keys are not known. */
bool read_keys(const std::string &table) {
  TableRecord record;
  const bool is_read = read_record(table, &record);
  if (!is_read && is_put_aside(table)) return false;
  set_table(table, is_read ? keys_in_record(table, record) : ForeignKeys());
  note_dropped_keys(table, record);
  return is_read;
}

/* Nobody locks in them any more. What a crash leaves, load() finds. */
void drop_value_locks(const std::vector<uint64_t> &numbers) {
  for (const uint64_t number : numbers) {
    DdlGroup group;
    int status = group.begin(plugin.db);
    if (status == TIDESDB_OK) status = group.drop(value_locks_name(number));
    if (status == TIDESDB_OK) status = group.commit();
    if (status != TIDESDB_OK && status != TIDESDB_NO_SUCH_FAMILY)
      sql_print_warning("TidesDB: the locks' family of a foreign key stays in the store: %s",
                        tidesdb_last_error());
  }
}

}  // namespace

int load() {
  std::vector<std::string> families;
  const int status = list_families(plugin.db, {}, &families);
  if (status != TIDESDB_OK) return status;
  std::vector<uint64_t> unused;
  bool all_known = true;
  for (const std::string &family : families) {
    const std::string table = table_of_family(family);
    if (family == primary_family(table)) all_known &= read_keys(table);
  }
  /* A record of a later version may have the key that no other one has. */
  if (!all_known) return TIDESDB_OK;
  for (const std::string &family : families) {
    if (family.compare(0, sizeof(VALUE_LOCKS) - 1, VALUE_LOCKS)) continue;
    const uint64_t number = strtoull(family.c_str() + sizeof(VALUE_LOCKS) - 1, nullptr, 10);
    if (!is_known(number)) unused.push_back(number);
  }
  drop_value_locks(unused);
  return TIDESDB_OK;
}

void clear() {
  std::lock_guard<std::mutex> guard(registry.mutex);
  registry.by_child.clear();
  registry.by_parent.clear();
  registry.with_dropped_keys.clear();
  registry.value_locks.clear();
  registry.generation++;
}

void set_table(const std::string &table, ForeignKeys keys) {
  std::vector<uint64_t> gone;
  {
    std::lock_guard<std::mutex> guard(registry.mutex);
    const auto before = registry.by_child.find(table);
    if (keys.empty() && before == registry.by_child.end()) return;
    if (before != registry.by_child.end())
      for (const auto &key : before->second) gone.push_back(key->number);
    remove_child(table);
    for (const auto &key : keys) {
      ForeignKeys &parent = registry.by_parent[key->parent];
      parent.insert(std::upper_bound(parent.begin(), parent.end(), key, precedes), key);
    }
    if (!keys.empty()) registry.by_child[table] = std::move(keys);
    registry.generation++;
    for (auto &[name, aside] : registry.aside)
      if (aside.table == table) aside.keys.insert(gone.begin(), gone.end());
    forget_value_locks(&gone);
  }
  drop_value_locks(gone);
}

void read_table(const std::string &table) { read_keys(table); }

void put_aside(const std::string &table, const std::string &aside) {
  std::lock_guard<std::mutex> guard(registry.mutex);
  if (registry.by_child.count(table)) registry.aside[aside] = {table, {}};
}

void end_aside(const std::string &aside) {
  std::string table;
  std::vector<uint64_t> gone;
  {
    std::lock_guard<std::mutex> guard(registry.mutex);
    const auto known = registry.aside.find(aside);
    if (known == registry.aside.end()) return;
    table = known->second.table;
    gone.assign(known->second.keys.begin(), known->second.keys.end());
    registry.aside.erase(known);
  }
  read_table(table);
  {
    std::lock_guard<std::mutex> guard(registry.mutex);
    forget_value_locks(&gone);
  }
  drop_value_locks(gone);
}

void touch(const std::string &table) {
  ForeignKeys linked = keys_of(table);
  for (const auto &key : all_keys_to(table))
    if (key->child != table) linked.push_back(key);
  std::lock_guard<std::mutex> guard(registry.mutex);
  for (const auto &key : linked) {
    auto again = std::make_shared<const ForeignKey>(*key);
    for (auto *keys : {&registry.by_child[key->child], &registry.by_parent[key->parent]})
      std::replace(keys->begin(), keys->end(), key, again);
  }
  if (!linked.empty()) registry.generation++;
}

uint64_t generation() { return registry.generation.load(std::memory_order_acquire); }

ForeignKeys keys_of(const std::string &table) { return found(registry.by_child, table); }

ForeignKeys all_keys_to(const std::string &table) { return found(registry.by_parent, table); }

ForeignKeys keys_to(const std::string &table) {
  ForeignKeys keys = all_keys_to(table);
  keys.erase(
      std::remove_if(keys.begin(), keys.end(), [](const auto &key) { return is_intermediate(key->child); }),
      keys.end());
  return keys;
}

ForeignKeys all_keys() {
  std::lock_guard<std::mutex> guard(registry.mutex);
  ForeignKeys all;
  for (const auto &[table, keys] : registry.by_child)
    if (!is_intermediate(table)) all.insert(all.end(), keys.begin(), keys.end());
  return all;
}

std::vector<std::string> tables_with_dropped_keys() {
  std::lock_guard<std::mutex> guard(registry.mutex);
  return {registry.with_dropped_keys.begin(), registry.with_dropped_keys.end()};
}

void note_dropped_keys(const std::string &table, const TableRecord &record) {
  std::lock_guard<std::mutex> guard(registry.mutex);
  if (record.dropped_keys.empty())
    registry.with_dropped_keys.erase(table);
  else
    registry.with_dropped_keys.insert(table);
}

bool is_linked(const std::string &table) { return !keys_of(table).empty() || !keys_to(table).empty(); }

std::shared_ptr<const ForeignKey> find(const std::string &database, const std::string &name) {
  std::lock_guard<std::mutex> guard(registry.mutex);
  for (auto child = registry.by_child.lower_bound(database);
       child != registry.by_child.end() && !child->first.compare(0, database.size(), database); ++child) {
    if (is_intermediate(child->first)) continue;
    for (const auto &key : child->second)
      if (same_name({key->name.data(), key->name.size()}, {name.data(), name.size()})) return key;
  }
  return nullptr;
}

ValueLocks value_locks_of(uint64_t number) {
  {
    std::lock_guard<std::mutex> guard(registry.mutex);
    const auto known = registry.value_locks.find(number);
    if (known != registry.value_locks.end()) return known->second;
    if (!is_known(number)) return nullptr;
  }
  FamilyHandle family;
  if (open_family(plugin.db, value_locks_name(number), &family) != TIDESDB_OK) return nullptr;
  std::lock_guard<std::mutex> guard(registry.mutex);
  if (!is_known(number)) return nullptr;
  ValueLocks &known = registry.value_locks[number];
  if (!known) known = std::move(family);
  return known;
}

int make_value_locks(uint64_t number) {
  DdlGroup group;
  tidesdb_family_options options;
  tidesdb_family_options_init(&options);
  int status = group.begin(plugin.db);
  if (status == TIDESDB_OK) status = group.create(value_locks_name(number), options, {});
  return status == TIDESDB_OK ? group.commit() : status;
}

}  // namespace foreign
}  // namespace tidesdb
