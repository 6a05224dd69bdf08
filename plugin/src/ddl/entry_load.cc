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
constexpr size_t ENTRIES_OF_A_WRITE = 128;
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

}  // namespace

/* Sorted entries on their way to the engine, some in one call. The last one waits, and can be taken back. */
class EntryLoad::Writes {
 public:
  explicit Writes(const Sink &sink) : sink_(sink) {}

  /* All return the engine's status. */
  int add(Slice key, Slice value, uint64_t expiry) { return add(key, {nullptr, 0}, value, expiry); }
  /* The key is in two pieces. */
  int add(Slice key, Slice rest, Slice value, uint64_t expiry) {
    const int status = sizes_.size() == ENTRIES_OF_A_WRITE ? write() : TIDESDB_OK;
    uchar *to = bytes_.reserve(key.size + rest.size + value.size);
    memcpy(to, key.data, key.size);
    if (rest.size != 0) memcpy(to + key.size, rest.data, rest.size);
    if (value.size != 0) memcpy(to + key.size + rest.size, value.data, value.size);
    bytes_.grow_by(key.size + rest.size + value.size);
    sizes_.push_back({key.size + rest.size, value.size, expiry});
    return status;
  }
  void take_last_back() {
    bytes_.truncate(bytes_.size() - sizes_.back().key - sizes_.back().value);
    sizes_.pop_back();
  }
  int end() { return sizes_.empty() ? TIDESDB_OK : write(); }

 private:
  struct Sizes {
    size_t key, value;
    uint64_t expiry;
  };

  int write() {
    ops_.clear();
    const uchar *at = bytes_.data();
    for (const Sizes &size : sizes_) {
      ops_.push_back({sink_.family,
                      {at, size.key},
                      {at + size.key, size.value},
                      sink_.kind,
                      sink_.flags,
                      0,
                      size.expiry});
      at += size.key + size.value;
    }
    const int status = sink_.take(ops_.data(), ops_.size());
    bytes_.clear();
    sizes_.clear();
    return status;
  }

  const Sink &sink_;
  ByteBuffer bytes_;
  std::vector<Sizes> sizes_; /* of keys and values in `bytes_` */
  std::vector<tidesdb_op> ops_;
};

size_t most_entry_loads() {
  return std::max(LEAST_LOADS, sysvars::write_buffer_size() / SORTS_IN_WRITE_BUFFER / LEAST_SORT_MEMORY);
}

EntryLoad::EntryLoad(const IndexKind &kind, size_t loads, Owner owner)
    : kind_(kind), owner_(std::move(owner)), sort_(plugin.db, sort_memory(kind, loads), owner_.killed) {
  const FullTextKind *words = kind.full_text();
  if (!words) return;
  const auto make_term = [words](Slice word, ByteBuffer *to) { return words->append_kept(word, to); };
  inversion_.reset(new Inversion(plugin.db, sort_memory(kind, loads), owner_.killed, make_term));
}

/* Memory that is short ends the statement, and not the server. */
template <class Call>
int EntryLoad::without_memory_errors(Call call) {
  try {
    return call();
  } catch (const std::bad_alloc &) {
    my_error(ER_OUT_OF_RESOURCES, MYF(0));
    return sort_failed();
  }
}

int EntryLoad::add_row(const uchar *record, Slice primary_key, uint64_t expiry) {
  if (!inversion_) {
    kind_.entries(record, primary_key, &entries_);
    for (const EntrySet::Entry &entry : entries_)
      if (const int error = add(entry.key.slice(), entry.value.slice(), expiry)) return error;
    return 0;
  }
  return without_memory_errors([&] {
    bool added = true;
    kind_.full_text()->for_each_word(record, [&](Slice word, uint32_t position) {
      added = added && inversion_->add_word(word, position);
    });
    return added && inversion_->end_row(primary_key, expiry) ? 0 : sort_failed();
  });
}

int EntryLoad::add(Slice key, Slice value, uint64_t expiry) {
  if (inversion_) {
    Slice term, row_key;
    if (!kind_.full_text()->terms().split(key, &term, &row_key)) return HA_ERR_CRASHED;
    return without_memory_errors(
        [&] { return inversion_->add_entry(term, row_key, value, expiry) ? 0 : sort_failed(); });
  }
  value_.assign(value);
  append_expiry(expiry, &value_);
  return sort_.add(key, value_.slice()) ? 0 : sort_failed();
}

int EntryLoad::begin_reading() {
  return (inversion_ ? inversion_->begin_reading() : sort_.begin_reading()) ? 0 : sort_failed();
}

int EntryLoad::write(const Sink &sink) {
  return without_memory_errors([&] {
    if (const int error = begin_reading()) return error;
    Writes writes(sink);
    return inversion_ ? write_inverted(&writes) : write_sorted(&writes);
  });
}

/* Few go through transactions: a table of their own would cost more than they do. */
int EntryLoad::write(THD *thd, tidesdb_family *family, Ingest *tables) {
  const auto to_tables = [tables](const tidesdb_op *ops, size_t count) {
    return tables->add(plugin.db, ops, count);
  };
  if ((inversion_ ? inversion_->size() : sort_.size()) >= least_of_tables())
    return write({family, TIDESDB_PUT, 0, to_tables});
  return without_memory_errors([&] {
    ChunkedLoad chunks;
    const auto to_chunks = [&chunks](const tidesdb_op *ops, size_t count) {
      const int status = chunks.write(ops, count);
      return status == TIDESDB_OK && chunks.is_full() ? chunks.next_chunk() : status;
    };
    int status = chunks.begin(thd);
    if (status != TIDESDB_OK) return owner_.failed(status);
    if (const int error = write({family, TIDESDB_PUT, 0, to_chunks})) return error;
    status = chunks.finish();
    return status == TIDESDB_OK ? 0 : owner_.failed(status);
  });
}

int EntryLoad::write_inverted(Writes *writes) {
  int status = TIDESDB_OK;
  while (status == TIDESDB_OK) {
    Slice term, entries;
    bool found;
    if (owner_.killed()) return HA_ERR_ABORTED_BY_USER;
    if (!inversion_->next(&term, &entries, &found)) return sort_failed();
    if (!found) break;
    const bool whole = Inversion::for_each(entries, [&](Slice row_key, Slice value, uint64_t expiry) {
      status = writes->add(term, row_key, value, expiry);
      return status == TIDESDB_OK;
    });
    if (!whole) return HA_ERR_CRASHED;
  }
  if (status == TIDESDB_OK) status = writes->end();
  return status == TIDESDB_OK ? 0 : owner_.failed(status);
}

int EntryLoad::write_sorted(Writes *writes) {
  int status = TIDESDB_OK;
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
        writes->take_last_back();
      }
      previous.assign(key);
      previous_expiry = expiry;
    }
    status = writes->add(key, value, expiry);
  }
  if (status == TIDESDB_OK) status = writes->end();
  return status == TIDESDB_OK ? 0 : owner_.failed(status);
}

}  // namespace tidesdb
