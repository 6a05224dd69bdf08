#include "ddl/merge_sort.h"

#include <algorithm>

#include "key/sql_headers.h"
#include "mysqld.h"

namespace tidesdb {

namespace {

constexpr size_t HEAD_SIZE = 8;
/* Memory is counted in steps of this. */
constexpr size_t STEP = 256 * 1024;

size_t entry_size(Slice key, Slice value) { return HEAD_SIZE + key.size + value.size; }

void write_entry(uchar *to, Slice key, Slice value) {
  int4store(to, static_cast<uint32>(key.size));
  int4store(to + 4, static_cast<uint32>(value.size));
  memcpy(to + HEAD_SIZE, key.data, key.size);
  if (value.size) memcpy(to + HEAD_SIZE + key.size, value.data, value.size);
}

}  // namespace

MergeSort::MergeSort(tidesdb_db *db, size_t memory, std::function<bool()> killed)
    : memory_(memory), held_(db), runs_(&held_, std::move(killed)) {}

Slice MergeSort::key_at(size_t at) const {
  const uchar *entry = entries_.at(at);
  return {entry + HEAD_SIZE, uint4korr(entry)};
}

Slice MergeSort::value_at(size_t at) const {
  const uchar *entry = entries_.at(at);
  return {entry + HEAD_SIZE + uint4korr(entry), uint4korr(entry + 4)};
}

bool MergeSort::add(Slice key, Slice value) {
  const size_t bytes = entry_size(key, value);
  if (!entries_.has_room(bytes)) {
    if (entries_.count() && !spill()) return false;
    if (!entries_.has_room(bytes) && !entries_.make(std::max(memory_, bytes + sizeof(size_t)))) return false;
  }
  write_entry(entries_.add(bytes), key, value);
  size_ += bytes;
  if (entries_.taken() >= held_.held() + STEP) held_.hold(entries_.taken());
  return true;
}

/* By the first bytes of the keys, where they differ: the others cost a look at each. */
void MergeSort::sort_memory() {
  struct Place {
    uint64_t head;
    size_t at;
  };
  const size_t count = entries_.count();
  const size_t held = held_.held();
  held_.hold(held + count * sizeof(Place));
  std::vector<Place> sorted(count);
  size_t *places = entries_.places();
  for (size_t i = 0; i < count; i++) sorted[i] = {key_head(key_at(places[i])), places[i]};
  std::sort(sorted.begin(), sorted.end(), [this](const Place &a, const Place &b) {
    return a.head != b.head ? a.head < b.head : compare_bytes(key_at(a.at), key_at(b.at)) < 0;
  });
  for (size_t i = 0; i < count; i++) places[i] = sorted[i].at;
  held_.hold(held);
}

bool MergeSort::spill() {
  sort_memory();
  if (!runs_.begin_run()) return false;
  const size_t *places = entries_.places();
  for (size_t i = 0; i < entries_.count(); i++)
    if (!runs_.write(key_at(places[i]), value_at(places[i]))) return false;
  entries_.clear();
  return runs_.end_run();
}

bool MergeSort::begin_reading() {
  if (runs_.empty()) {
    sort_memory();
    return true;
  }
  if (entries_.count() && !spill()) return false;
  entries_.release();
  held_.hold(0);
  merging_ = true;
  return runs_.begin_reading();
}

bool MergeSort::next(Slice *key, Slice *value, bool *found) {
  if (merging_) return runs_.next(key, value, found);
  *found = read_ < entries_.count();
  if (!*found) return true;
  const size_t at = entries_.places()[read_++];
  *key = key_at(at);
  *value = value_at(at);
  return true;
}

}  // namespace tidesdb
