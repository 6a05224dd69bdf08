#include "ddl/sorted_runs.h"

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
/* Entries merged between two looks whether the statement is killed. */
constexpr uint ENTRIES_BETWEEN_LOOKS = 4096;

void write_entry(uchar *to, Slice key, Slice value) {
  int4store(to, static_cast<uint32>(key.size));
  int4store(to + 4, static_cast<uint32>(value.size));
  memcpy(to + HEAD_SIZE, key.data, key.size);
  if (value.size) memcpy(to + HEAD_SIZE + key.size, value.data, value.size);
}

}  // namespace

/* A temporary file with entries in order. */
struct SortedRuns::Run {
  File file = -1;
  uint level = 0;   /* how often its entries have been merged */
  size_t place = 0; /* reading: among those that are merged */
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
    const size_t bytes = HEAD_SIZE + entry_key.size + entry_value.size;
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
class SortedRuns::Merge {
 public:
  bool begin(std::vector<std::unique_ptr<Run>> runs) {
    runs_ = std::move(runs);
    for (size_t i = 0; i < runs_.size(); i++) {
      Run *const run = runs_[i].get();
      run->place = i;
      bool found;
      if (!run->advance(&found)) return false;
      if (found) heap_.push_back(run);
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
    if (a->head != b->head) return a->head > b->head;
    const int order = compare_bytes(a->key, b->key);
    return order != 0 ? order > 0 : a->place > b->place;
  }

  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<Run *> heap_;
  Run *given_ = nullptr; /* whose entry was given last */
};

SortedRuns::SortedRuns(CountedMemory *memory, std::function<bool()> killed)
    : memory_(memory), killed_(std::move(killed)) {}

SortedRuns::~SortedRuns() = default;

bool SortedRuns::begin_run() {
  runs_.emplace_back(new Run);
  return runs_.back()->open();
}

bool SortedRuns::write(Slice key, Slice value) { return runs_.back()->write(key, value); }

bool SortedRuns::end_run() {
  if (!runs_.back()->flush()) return false;
  runs_.back()->buffer.release_beyond(0);
  for (;;) {
    const uint level = runs_.back()->level;
    size_t alike = 0;
    while (alike < runs_.size() && runs_[runs_.size() - 1 - alike]->level == level) alike++;
    if (alike < FAN_IN) return true;
    if (!merge_last(FAN_IN)) return false;
  }
}

bool SortedRuns::merge_last(size_t count) {
  std::vector<std::unique_ptr<Run>> last;
  for (size_t i = runs_.size() - count; i < runs_.size(); i++) last.push_back(std::move(runs_[i]));
  runs_.resize(runs_.size() - count);
  std::unique_ptr<Run> merged(new Run);
  merged->level = last.front()->level + 1;
  const size_t held = memory_->held();
  memory_->hold(held + count * BUFFER);
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
  merged->buffer.release_beyond(0);
  memory_->hold(held);
  runs_.push_back(std::move(merged));
  return true;
}

bool SortedRuns::begin_reading() {
  /* Of each level there are fewer than FAN_IN: more than two levels of them are merged once more. */
  while (runs_.size() > 2 * FAN_IN)
    if (!merge_last(FAN_IN)) return false;
  memory_->hold(memory_->held() + runs_.size() * BUFFER);
  merge_.reset(new Merge);
  return merge_->begin(std::move(runs_));
}

bool SortedRuns::next(Slice *key, Slice *value, bool *found) { return merge_->next(key, value, found); }

}  // namespace tidesdb
