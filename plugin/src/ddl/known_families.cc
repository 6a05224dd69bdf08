#include "ddl/known_families.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "ddl/table_path.h"

namespace tidesdb {

namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<uint32_t, std::shared_ptr<const KnownFamily>> families;
};

/* Tables may be closed when the process ends. */
Registry &registry() {
  static Registry *const only = new Registry;
  return *only;
}

bool exists(const tidesdb_key_part &key) { return key.size != TIDESDB_UNKNOWN; }

std::string quoted(const TableNames &names) {
  std::string text = "`" + names.schema + "`.`" + names.table + "`";
  return names.partition.empty() ? text : text + " partition " + names.partition;
}

std::string key_text(const KnownFamily *family, const tidesdb_key_part &key) {
  const bool is_cut = key.size > key.bytes.size;
  if (family) return family->keys.text(key.bytes, is_cut);
  std::string text;
  append_hex_literal(key.bytes, &text);
  return is_cut ? text + "..." : text;
}

/* Of a range its first key and the first after it; "start" and "end" are those of the index. */
std::string text_of(const KnownFamily *family, const tidesdb_lock_info &lock) {
  if (!exists(lock.key)) return "";
  const std::string key = key_text(family, lock.key);
  if (lock.kind != TIDESDB_LOCKED_RANGE) return key;
  const std::string from = lock.key.size == 0 ? "start" : key;
  const std::string to = exists(lock.range_end) ? key_text(family, lock.range_end) : "end";
  return "[" + from + "; " + to + ")";
}

}  // namespace

void KnownFamilies::add(const tidesdb_family *family, const std::string &table, const TABLE *open,
                        uint index) {
  const uint32_t number = tidesdb_family_id(family);
  std::string name = index == MAX_KEY ? "HIDDEN" : std::string(open->key_info[index].name.str);
  auto made =
      std::make_shared<const KnownFamily>(KnownFamily{table, std::move(name), KeyText::make(open, index)});
  known_.emplace_back(number, made);
  Registry &all = registry();
  const std::lock_guard<std::mutex> guard(all.mutex);
  all.families[number] = std::move(made);
}

void KnownFamilies::clear() {
  Registry &all = registry();
  const std::lock_guard<std::mutex> guard(all.mutex);
  for (const auto &[number, family] : known_) {
    /* Another share of the table may have come since. */
    const auto at = all.families.find(number);
    if (at != all.families.end() && at->second == family) all.families.erase(at);
  }
  known_.clear();
}

std::shared_ptr<const KnownFamily> known_family(uint32_t family) {
  Registry &all = registry();
  const std::lock_guard<std::mutex> guard(all.mutex);
  const auto at = all.families.find(family);
  return at == all.families.end() ? nullptr : at->second;
}

size_t family_label(void *, uint32_t family, tidesdb_slice name, char *to, size_t room) {
  const std::string all(reinterpret_cast<const char *>(name.data), name.size);
  std::string label = quoted(table_names(table_of_family(all)));
  uint32_t number;
  if (const std::shared_ptr<const KnownFamily> known = known_family(family)) {
    label += " index " + known->index;
  } else if (index_of_family(all, &number)) {
    /* Its name is in the dictionary, which nobody may ask now. */
    label += " index no. " + std::to_string(number);
  }
  const size_t size = std::min(label.size(), room);
  memcpy(to, label.data(), size);
  return size;
}

std::string lock_text(const tidesdb_lock_info &lock) {
  return text_of(known_family(lock.family).get(), lock);
}

std::string lock_place(const tidesdb_lock_info &lock) {
  const std::shared_ptr<const KnownFamily> family = known_family(lock.family);
  std::string place;
  if (family) {
    place = quoted(table_names(family->table));
    if (exists(lock.key)) place += " index " + family->index;
  } else {
    place = "family " + std::to_string(lock.family);
  }
  const std::string key = text_of(family.get(), lock);
  return key.empty() ? place : place + ", " + key;
}

}  // namespace tidesdb
