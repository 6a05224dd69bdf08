#include "ddl/entry_load.h"

#include <algorithm>
#include <vector>

#include "row/row_ttl.h"
#include "search/full_text_kind.h"
#include "store/chunked_load.h"
#include "store/store.h"
#include "sysvars.h"

namespace tidesdb {

namespace {

/* Part of the write buffer that the entries of all indexes take in memory while they are sorted. */
constexpr ulonglong SORTS_IN_WRITE_BUFFER = 16;
/* The same where a row has an entry for each of its words. */
constexpr ulonglong WORD_SORTS_IN_WRITE_BUFFER = 4;
constexpr ulonglong LEAST_SORT_MEMORY = 1024 * 1024;
constexpr ulonglong LEAST_LOADS = 16;
/* Entries that go to the engine in one call. */
constexpr size_t ENTRIES_OF_A_WRITE = 32;
/* Entries between two looks at KILL. */
constexpr ulonglong ENTRIES_BETWEEN_LOOKS = 1024;

size_t sort_memory(const IndexKind &kind, size_t loads) {
  const ulonglong part = kind.full_text() ? WORD_SORTS_IN_WRITE_BUFFER : SORTS_IN_WRITE_BUFFER;
  return std::max(LEAST_SORT_MEMORY, sysvars::write_buffer_size() / part / loads);
}

/* An entry carries its row's time of expiry through the sort, after its value. */
void append_expiry(uint64_t expiry, ByteBuffer *value) {
  if (expiry != 0) value->append(&expiry, sizeof(expiry));
  value->append_byte(expiry != 0);
}

uint64_t cut_expiry(Slice *value) {
  uint64_t expiry = 0;
  if (value->data[--value->size] == 0) return 0;
  value->size -= sizeof(expiry);
  memcpy(&expiry, value->data + value->size, sizeof(expiry));
  return expiry;
}

/* Sorted entries on their way to the engine, some in one call. The last one waits, and can be taken back. */
class Writes {
 public:
  Writes(THD *thd, tidesdb_family *family, bool few, Ingest *tables)
      : thd_(thd), family_(family), few_(few), tables_(tables) {}

  /* All return the engine's status. */
  int begin() { return few_ ? chunks_.begin(thd_) : TIDESDB_OK; }
  int add(Slice key, Slice value, uint64_t expiry) {
    const int status = sizes_.size() == ENTRIES_OF_A_WRITE ? write() : TIDESDB_OK;
    bytes_.append(key);
    bytes_.append(value);
    sizes_.push_back({key.size, value.size, expiry});
    return status;
  }
  void take_last_back() {
    bytes_.truncate(bytes_.size() - sizes_.back().key - sizes_.back().value);
    sizes_.pop_back();
  }
  int end() {
    const int status = sizes_.empty() ? TIDESDB_OK : write();
    return status == TIDESDB_OK && few_ ? chunks_.finish() : status;
  }

 private:
  struct Sizes {
    size_t key, value;
    uint64_t expiry;
  };

  int write() {
    ops_.clear();
    const uchar *at = bytes_.data();
    for (const Sizes &size : sizes_) {
      ops_.push_back({family_, {at, size.key}, {at + size.key, size.value}, TIDESDB_PUT, 0, 0, size.expiry});
      at += size.key + size.value;
    }
    const int status =
        few_ ? chunks_.write(ops_.data(), ops_.size()) : tables_->add(plugin.db, ops_.data(), ops_.size());
    bytes_.clear();
    sizes_.clear();
    return status == TIDESDB_OK && few_ && chunks_.is_full() ? chunks_.next_chunk() : status;
  }

  THD *thd_;
  tidesdb_family *family_;
  const bool few_;
  Ingest *tables_;
  ChunkedLoad chunks_;
  ByteBuffer bytes_;
  std::vector<Sizes> sizes_; /* of keys and values in `bytes_` */
  std::vector<tidesdb_op> ops_;
};

}  // namespace

size_t most_entry_loads() {
  return std::max(LEAST_LOADS, sysvars::write_buffer_size() / SORTS_IN_WRITE_BUFFER / LEAST_SORT_MEMORY);
}

EntryLoad::EntryLoad(const IndexKind &kind, size_t loads, Owner owner)
    : kind_(kind), owner_(std::move(owner)), sort_(plugin.db, sort_memory(kind, loads), owner_.killed) {}

int EntryLoad::add(Slice key, Slice value, uint64_t expiry) {
  value_.assign(value);
  append_expiry(expiry, &value_);
  Slice term{nullptr, 0}, row;
  if (const FullTextKind *words = kind_.full_text(); words && !words->terms().split(key, &term, &row))
    term.size = 0;
  return sort_.add(key, value_.slice(), term.size) ? 0 : sort_failed();
}

int EntryLoad::write(THD *thd, tidesdb_family *family, Ingest *tables) {
  const bool few = sort_.size() < least_of_tables();
  if (!sort_.begin_reading()) return sort_failed();
  Writes writes(thd, family, few, tables);
  int status = writes.begin();
  const bool unique = kind_.is_unique();
  ByteBuffer previous;
  /* Rows that have expired, but not for everybody, are in nobody's way. */
  const uint64_t now = expiry_second(plugin.db);
  uint64_t previous_expiry = 0;
  for (ulonglong entries = 1; status == TIDESDB_OK; entries++) {
    Slice key, value;
    bool found;
    if (!sort_.next(&key, &value, &found)) return sort_failed();
    if (!found) break;
    const uint64_t expiry = cut_expiry(&value);
    if (entries % ENTRIES_BETWEEN_LOOKS == 0 && owner_.killed()) return HA_ERR_ABORTED_BY_USER;
    if (unique) {
      if (entries > 1 && same_bytes(previous.slice(), key)) {
        if (has_expired(expiry, now)) continue;
        /* The later of two entries counts. */
        if (!has_expired(previous_expiry, now)) return owner_.duplicate(key, value);
        writes.take_last_back();
      }
      previous.assign(key);
      previous_expiry = expiry;
    }
    status = writes.add(key, value, expiry);
  }
  if (status == TIDESDB_OK) status = writes.end();
  return status == TIDESDB_OK ? 0 : owner_.failed(status);
}

}  // namespace tidesdb
