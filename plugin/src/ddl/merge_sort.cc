#include "ddl/merge_sort.h"

#include <algorithm>

#include "key/sql_headers.h"
#include "mysqld.h"

namespace tidesdb {

namespace {

/* Runs of one size that are merged into one. */
constexpr size_t FAN_IN = 32;
/* Least buffer of a file. */
constexpr size_t LEAST_BUFFER = 64 * 1024;
constexpr size_t HEAD_SIZE = 8;
/* Memory is counted in steps of this. */
constexpr size_t STEP = 256 * 1024;
constexpr size_t BYTES_FOR_EACH_PLACE = sizeof(size_t);

int compare(Slice a, Slice b) {
  const int bytes = memcmp(a.data, b.data, std::min(a.size, b.size));
  if (bytes) return bytes;
  return a.size < b.size ? -1 : a.size > b.size;
}

void append_entry(ByteBuffer *to, Slice key, Slice value) {
  uchar head[HEAD_SIZE];
  int4store(head, static_cast<uint32>(key.size));
  int4store(head + 4, static_cast<uint32>(value.size));
  to->append(head, HEAD_SIZE);
  to->append(key);
  to->append(value);
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

  ~Run() {
    if (file >= 0) my_close(file, MYF(0));
  }

  bool open() {
    char name[FN_REFLEN];
    file = create_temp_file(name, mysql_tmpdir, "tidesdb-sort", O_BINARY | O_SEQUENTIAL,
                            MYF(MY_WME | MY_TEMPORARY));
    return file >= 0;
  }
  bool write(Slice entry_key, Slice entry_value, size_t buffer_size) {
    append_entry(&buffer, entry_key, entry_value);
    return buffer.size() < buffer_size || flush();
  }
  bool flush() {
    if (!buffer.empty() && my_pwrite(file, buffer.data(), buffer.size(), size, MYF(MY_WME | MY_NABP)))
      return false;
    size += buffer.size();
    buffer.clear();
    return true;
  }
  /* Makes `bytes` after `at` be in the buffer, if the file has them. */
  bool fill(size_t bytes, size_t buffer_size) {
    if (buffer.size() - at >= bytes) return true;
    const size_t rest = buffer.size() - at;
    if (rest != 0) memmove(buffer.data(), buffer.data() + at, rest);
    buffer.truncate(rest);
    at = 0;
    const size_t wanted =
        static_cast<size_t>(std::min<my_off_t>(std::max(bytes, buffer_size) - rest, size - read));
    if (wanted == 0) return true;
    if (my_pread(file, buffer.reserve(wanted), wanted, read, MYF(MY_WME | MY_NABP))) return false;
    buffer.grow_by(wanted);
    read += wanted;
    return true;
  }
  bool advance(size_t buffer_size, bool *found) {
    if (!fill(HEAD_SIZE, buffer_size)) return false;
    *found = buffer.size() - at >= HEAD_SIZE;
    if (!*found) return true;
    const size_t key_size = uint4korr(buffer.data() + at), value_size = uint4korr(buffer.data() + at + 4);
    if (!fill(HEAD_SIZE + key_size + value_size, buffer_size)) return false;
    const uchar *entry = buffer.data() + at + HEAD_SIZE;
    key = {entry, key_size};
    value = {entry + key_size, value_size};
    at += HEAD_SIZE + key_size + value_size;
    return true;
  }
};

/* Reads several runs in the order of their keys. */
class MergeSort::Merge {
 public:
  explicit Merge(size_t memory) : memory_(memory) {}

  bool begin(std::vector<std::unique_ptr<Run>> runs) {
    buffer_size_ = std::max(LEAST_BUFFER, memory_ / std::max<size_t>(1, runs.size()));
    runs_ = std::move(runs);
    for (const std::unique_ptr<Run> &run : runs_) {
      bool found;
      if (!run->advance(buffer_size_, &found)) return false;
      if (found) heap_.push_back(run.get());
    }
    std::make_heap(heap_.begin(), heap_.end(), behind);
    return true;
  }
  bool next(Slice *key, Slice *value, bool *found) {
    if (given_) {
      bool more;
      if (!given_->advance(buffer_size_, &more)) return false;
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
  static bool behind(const Run *a, const Run *b) { return compare(a->key, b->key) > 0; }

  const size_t memory_;
  size_t buffer_size_ = LEAST_BUFFER;
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<Run *> heap_;
  Run *given_ = nullptr; /* whose entry was given last */
};

MergeSort::MergeSort(size_t memory) : memory_(memory) {}

MergeSort::~MergeSort() { hold(0); }

void MergeSort::hold(size_t bytes) {
  tidesdb_count_sort_memory(static_cast<int64_t>(bytes) - static_cast<int64_t>(held_));
  held_ = bytes;
}

Slice MergeSort::key_at(size_t at) const {
  return {entries_.data() + at + HEAD_SIZE, uint4korr(entries_.data() + at)};
}

bool MergeSort::add(Slice key, Slice value) {
  const size_t taken = entries_.size() + places_.size() * BYTES_FOR_EACH_PLACE;
  if (!places_.empty() && taken + HEAD_SIZE + key.size + value.size > memory_ && !spill()) return false;
  places_.push_back(entries_.size());
  append_entry(&entries_, key, value);
  if (taken >= held_ + STEP) hold(taken);
  return true;
}

void MergeSort::sort_memory() {
  std::sort(places_.begin(), places_.end(),
            [this](size_t a, size_t b) { return compare(key_at(a), key_at(b)) < 0; });
}

bool MergeSort::spill() {
  sort_memory();
  std::unique_ptr<Run> run(new Run);
  if (!run->open()) return false;
  for (const size_t at : places_) {
    const Slice key = key_at(at);
    const Slice value{key.data + key.size, uint4korr(entries_.data() + at + 4)};
    if (!run->write(key, value, LEAST_BUFFER)) return false;
  }
  if (!run->flush()) return false;
  entries_.clear();
  places_.clear();
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
  hold(held + memory_);
  Merge merge(memory_);
  if (!merged->open() || !merge.begin(std::move(last))) return false;
  for (;;) {
    Slice key, value;
    bool found;
    if (!merge.next(&key, &value, &found)) return false;
    if (!found) break;
    if (!merged->write(key, value, LEAST_BUFFER)) return false;
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
  if (!places_.empty() && !spill()) return false;
  entries_ = ByteBuffer();
  places_ = {};
  hold(0);
  /* Of each level there are fewer than FAN_IN: more than two levels of them are merged once more. */
  while (runs_.size() > 2 * FAN_IN)
    if (!merge_last(FAN_IN)) return false;
  hold(memory_);
  merge_.reset(new Merge(memory_));
  return merge_->begin(std::move(runs_));
}

bool MergeSort::next(Slice *key, Slice *value, bool *found) {
  if (merge_) return merge_->next(key, value, found);
  *found = read_ < places_.size();
  if (!*found) return true;
  const size_t at = places_[read_++];
  *key = key_at(at);
  *value = {key->data + key->size, uint4korr(entries_.data() + at + 4)};
  return true;
}

}  // namespace tidesdb
