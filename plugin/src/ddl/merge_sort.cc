#include "ddl/merge_sort.h"

#include <algorithm>

#include "key/sql_headers.h"
#include "mysqld.h"

namespace tidesdb {

namespace {

/* Runs of one size that are merged into one. */
constexpr size_t FAN_IN = 32;
/* Buffer of a file. */
constexpr size_t BUFFER = 128 * 1024;
constexpr size_t HEAD_SIZE = 8;
/* Memory is counted in steps of this. */
constexpr size_t STEP = 256 * 1024;
/* Entries merged between two looks whether the statement is killed. */
constexpr uint ENTRIES_BETWEEN_LOOKS = 4096;

size_t entry_size(Slice key, Slice value) { return HEAD_SIZE + key.size + value.size; }

void write_entry(uchar *to, Slice key, Slice value) {
  int4store(to, static_cast<uint32>(key.size));
  int4store(to + 4, static_cast<uint32>(value.size));
  memcpy(to + HEAD_SIZE, key.data, key.size);
  if (value.size) memcpy(to + HEAD_SIZE + key.size, value.data, value.size);
}

}  // namespace

/* A temporary file with entries in order. */
struct MergeSort::Run {
  File file = -1;
  uint level = 0; /* how often its entries have been merged */
  my_off_t size = 0;
  ByteBuffer buffer; /* writing: not yet written; reading: what was read */
  size_t at = 0;     /* reading: of the next entry in the buffer */
  my_off_t read = 0; /* bytes of the file that have been in the buffer */
  Slice key{nullptr, 0}, value{nullptr, 0};
  uint64_t head = 0; /* of the key */

  ~Run() {
    if (file >= 0) my_close(file, MYF(0));
  }

  bool open() {
    char name[FN_REFLEN];
    file = create_temp_file(name, mysql_tmpdir, "tidesdb-sort", O_BINARY | O_SEQUENTIAL,
                            MYF(MY_WME | MY_TEMPORARY));
    return file >= 0;
  }
  bool write(Slice entry_key, Slice entry_value) {
    const size_t bytes = entry_size(entry_key, entry_value);
    if (buffer.size() + bytes > BUFFER && !flush()) return false;
    write_entry(buffer.reserve(bytes), entry_key, entry_value);
    buffer.grow_by(bytes);
    return true;
  }
  bool flush() {
    if (!buffer.empty() && my_pwrite(file, buffer.data(), buffer.size(), size, MYF(MY_WME | MY_NABP)))
      return false;
    size += buffer.size();
    buffer.clear();
    return true;
  }
  /* Makes `bytes` after `at` be in the buffer, if the file has them. */
  bool fill(size_t bytes) {
    if (buffer.size() - at >= bytes) return true;
    const size_t rest = buffer.size() - at;
    if (rest != 0) memmove(buffer.data(), buffer.data() + at, rest);
    buffer.truncate(rest);
    at = 0;
    const size_t wanted =
        static_cast<size_t>(std::min<my_off_t>(std::max(bytes, BUFFER) - rest, size - read));
    if (wanted == 0) return true;
    if (my_pread(file, buffer.reserve(wanted), wanted, read, MYF(MY_WME | MY_NABP))) return false;
    buffer.grow_by(wanted);
    read += wanted;
    return true;
  }
  bool advance(bool *found) {
    if (!fill(HEAD_SIZE)) return false;
    *found = buffer.size() - at >= HEAD_SIZE;
    if (!*found) return true;
    const size_t key_size = uint4korr(buffer.data() + at), value_size = uint4korr(buffer.data() + at + 4);
    if (!fill(HEAD_SIZE + key_size + value_size)) return false;
    const uchar *entry = buffer.data() + at + HEAD_SIZE;
    key = {entry, key_size};
    head = key_head(key);
    value = {entry + key_size, value_size};
    at += HEAD_SIZE + key_size + value_size;
    return true;
  }
};

/* Reads several runs in the order of their keys. */
class MergeSort::Merge {
 public:
  bool begin(std::vector<std::unique_ptr<Run>> runs) {
    runs_ = std::move(runs);
    for (const std::unique_ptr<Run> &run : runs_) {
      bool found;
      if (!run->advance(&found)) return false;
      if (found) heap_.push_back(run.get());
    }
    std::make_heap(heap_.begin(), heap_.end(), behind);
    return true;
  }
  bool next(Slice *key, Slice *value, bool *found) {
    if (given_) {
      bool more;
      if (!given_->advance(&more)) return false;
      if (more) {
        heap_.push_back(given_);
        std::push_heap(heap_.begin(), heap_.end(), behind);
      }
      given_ = nullptr;
    }
    *found = !heap_.empty();
    if (!*found) return true;
    std::pop_heap(heap_.begin(), heap_.end(), behind);
    given_ = heap_.back();
    heap_.pop_back();
    *key = given_->key;
    *value = given_->value;
    return true;
  }

 private:
  static bool behind(const Run *a, const Run *b) {
    return a->head != b->head ? a->head > b->head : compare_bytes(a->key, b->key) > 0;
  }

  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<Run *> heap_;
  Run *given_ = nullptr; /* whose entry was given last */
};

MergeSort::MergeSort(tidesdb_db *db, size_t memory, std::function<bool()> killed)
    : db_(db), memory_(memory), killed_(std::move(killed)) {}

MergeSort::~MergeSort() { hold(0); }

void MergeSort::hold(size_t bytes) {
  tidesdb_count_sort_memory(db_, static_cast<int64_t>(bytes) - static_cast<int64_t>(held_));
  held_ = bytes;
}

Slice MergeSort::key_at(size_t at) const {
  const uchar *entry = entries_.at(at);
  return {entry + HEAD_SIZE, uint4korr(entry)};
}

/* Before the sort: places go from the last entry to the first. */
size_t MergeSort::place_of(uint32_t number) { return entries_.places()[entries_.count() - 1 - number]; }

Slice MergeSort::value_at(size_t at) const {
  const uchar *entry = entries_.at(at);
  return {entry + HEAD_SIZE + uint4korr(entry), uint4korr(entry + 4)};
}

bool MergeSort::add(Slice key, Slice value, size_t group) {
  const size_t bytes = entry_size(key, value);
  if (!entries_.has_room(bytes)) {
    if (entries_.count() && !spill()) return false;
    if (!entries_.has_room(bytes) && !entries_.make(std::max(memory_, bytes + sizeof(size_t)))) return false;
  }
  write_entry(entries_.add(bytes), key, value);
  if (group != 0 && groups_.entries() + 1 == entries_.count()) groups_.add(key, group);
  size_ += bytes;
  const size_t taken = entries_.taken() + groups_.memory();
  if (taken >= held_ + STEP) hold(taken);
  return true;
}

/* By groups, or by the first bytes of the keys, where they differ: the others cost a look at each. */
void MergeSort::sort_memory() {
  struct Place {
    uint64_t head;
    size_t at;
  };
  const size_t count = entries_.count();
  const size_t held = held_;
  if (count != 0 && groups_.entries() == count && groups_.in_order()) {
    hold(held + count * sizeof(size_t));
    std::vector<size_t> sorted;
    sorted.reserve(count);
    groups_.for_each([&](uint32_t number) { sorted.push_back(place_of(number)); });
    std::copy(sorted.begin(), sorted.end(), entries_.places());
    hold(held);
    return;
  }
  hold(held + count * sizeof(Place));
  std::vector<Place> sorted(count);
  size_t *places = entries_.places();
  for (size_t i = 0; i < count; i++) sorted[i] = {key_head(key_at(places[i])), places[i]};
  std::sort(sorted.begin(), sorted.end(), [this](const Place &a, const Place &b) {
    return a.head != b.head ? a.head < b.head : compare_bytes(key_at(a.at), key_at(b.at)) < 0;
  });
  for (size_t i = 0; i < count; i++) places[i] = sorted[i].at;
  hold(held);
}

bool MergeSort::spill() {
  sort_memory();
  std::unique_ptr<Run> run(new Run);
  if (!run->open()) return false;
  const size_t *places = entries_.places();
  for (size_t i = 0; i < entries_.count(); i++)
    if (!run->write(key_at(places[i]), value_at(places[i]))) return false;
  if (!run->flush()) return false;
  entries_.clear();
  groups_.clear();
  runs_.push_back(std::move(run));
  for (;;) {
    const uint level = runs_.back()->level;
    size_t alike = 0;
    while (alike < runs_.size() && runs_[runs_.size() - 1 - alike]->level == level) alike++;
    if (alike < FAN_IN) return true;
    if (!merge_last(FAN_IN)) return false;
  }
}

bool MergeSort::merge_last(size_t count) {
  std::vector<std::unique_ptr<Run>> last;
  for (size_t i = runs_.size() - count; i < runs_.size(); i++) last.push_back(std::move(runs_[i]));
  runs_.resize(runs_.size() - count);
  std::unique_ptr<Run> merged(new Run);
  merged->level = last.front()->level + 1;
  const size_t held = held_;
  hold(held + count * BUFFER);
  Merge merge;
  if (!merged->open() || !merge.begin(std::move(last))) return false;
  for (uint entries = 1;; entries++) {
    Slice key, value;
    bool found;
    if (entries % ENTRIES_BETWEEN_LOOKS == 0 && killed_()) return false;
    if (!merge.next(&key, &value, &found)) return false;
    if (!found) break;
    if (!merged->write(key, value)) return false;
  }
  if (!merged->flush()) return false;
  hold(held);
  runs_.push_back(std::move(merged));
  return true;
}

bool MergeSort::begin_reading() {
  if (runs_.empty()) {
    sort_memory();
    return true;
  }
  if (entries_.count() && !spill()) return false;
  entries_.release();
  groups_.release();
  hold(0);
  /* Of each level there are fewer than FAN_IN: more than two levels of them are merged once more. */
  while (runs_.size() > 2 * FAN_IN)
    if (!merge_last(FAN_IN)) return false;
  hold(runs_.size() * BUFFER);
  merge_.reset(new Merge);
  return merge_->begin(std::move(runs_));
}

bool MergeSort::next(Slice *key, Slice *value, bool *found) {
  if (merge_) return merge_->next(key, value, found);
  *found = read_ < entries_.count();
  if (!*found) return true;
  const size_t at = entries_.places()[read_++];
  *key = key_at(at);
  *value = value_at(at);
  return true;
}

}  // namespace tidesdb
