#include "foreign/registry.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "store/handles.h"
#include "store/store.h"

namespace tidesdb {
namespace foreign {

namespace {

/* No table has such a name: it holds no `/`. */
constexpr char GUARDS[] = "#foreign-key-guards";

struct Registry {
  std::mutex mutex;
  std::map<std::string, ForeignKeys> by_child, by_parent;
  std::atomic<uint64_t> generation{1};
  FamilyHandle guards;
  std::atomic<tidesdb_family *> open_guards{nullptr};
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

bool same_case_folded(const std::string &a, const std::string &b) {
  return !system_charset_info->coll->strnncoll(
      system_charset_info, reinterpret_cast<const uchar *>(a.data()), a.size(),
      reinterpret_cast<const uchar *>(b.data()), b.size(), false);
}

int open_guards() {
  FamilyHandle family;
  const int status = open_family(plugin.db, GUARDS, &family);
  if (status != TIDESDB_OK) return status;
  std::lock_guard<std::mutex> guard(registry.mutex);
  if (registry.guards) return TIDESDB_OK;
  registry.guards = std::move(family);
  registry.open_guards = registry.guards.get();
  return TIDESDB_OK;
}

}  // namespace

int load() {
  std::vector<std::string> families;
  int status = list_families(plugin.db, {}, &families);
  if (status != TIDESDB_OK) return status;
  for (const std::string &family : families) {
    const std::string table = table_of_family(family);
    if (family == primary_family(table)) read_table(table);
  }
  status = open_guards();
  return status == TIDESDB_NO_SUCH_FAMILY ? static_cast<int>(TIDESDB_OK) : status;
}

void clear() {
  std::lock_guard<std::mutex> guard(registry.mutex);
  registry.by_child.clear();
  registry.by_parent.clear();
  registry.open_guards = nullptr;
  registry.guards.reset();
  registry.generation++;
}

void set_table(const std::string &table, ForeignKeys keys) {
  std::lock_guard<std::mutex> guard(registry.mutex);
  if (keys.empty() && !registry.by_child.count(table)) return;
  remove_child(table);
  for (const auto &key : keys) {
    if (is_intermediate(table)) continue;
    ForeignKeys &parent = registry.by_parent[key->parent];
    parent.insert(std::upper_bound(parent.begin(), parent.end(), key, precedes), key);
  }
  if (!keys.empty()) registry.by_child[table] = std::move(keys);
  registry.generation++;
}

void read_table(const std::string &table) {
  TableRecord record;
  set_table(table, read_record(table, &record) ? keys_in_record(table, record) : ForeignKeys());
}

void touch() { registry.generation++; }

uint64_t generation() { return registry.generation.load(std::memory_order_acquire); }

ForeignKeys keys_of(const std::string &table) { return found(registry.by_child, table); }

ForeignKeys keys_to(const std::string &table) { return found(registry.by_parent, table); }

bool is_linked(const std::string &table) {
  std::lock_guard<std::mutex> guard(registry.mutex);
  return registry.by_child.count(table) || registry.by_parent.count(table);
}

std::shared_ptr<const ForeignKey> find(const std::string &database, const std::string &name) {
  std::lock_guard<std::mutex> guard(registry.mutex);
  for (auto child = registry.by_child.lower_bound(database);
       child != registry.by_child.end() && !child->first.compare(0, database.size(), database); ++child) {
    if (is_intermediate(child->first)) continue;
    for (const auto &key : child->second)
      if (same_case_folded(key->name, name)) return key;
  }
  return nullptr;
}

tidesdb_family *guards() { return registry.open_guards.load(std::memory_order_acquire); }

int make_guards() {
  if (guards()) return TIDESDB_OK;
  DdlGroup group;
  tidesdb_family_options options;
  tidesdb_family_options_init(&options);
  int status = group.begin(plugin.db);
  if (status == TIDESDB_OK) status = group.create(GUARDS, options, {});
  if (status == TIDESDB_OK) status = group.commit();
  if (status != TIDESDB_OK && status != TIDESDB_FAMILY_EXISTS) return status;
  return open_guards();
}

}  // namespace foreign
}  // namespace tidesdb
