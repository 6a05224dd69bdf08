#include "handler/index_sample.h"

#include <mysql/plugin.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "handler/snapshot_reader.h"

namespace tidesdb {

namespace {

/* A place is named by so many bytes of its key at most. */
constexpr size_t PLACE_BYTES = 256;
/* Entries between two looks at KILL. */
constexpr uint64_t ENTRIES_BETWEEN_LOOKS = 128;

constexpr uint64_t FEW_ENDS = 3;

/* Counts, for each number of leading columns, where neighbours differ. */
class ValueCounter {
 public:
  explicit ValueCounter(const SampledIndex &index)
      : index_(index), ends_(index.columns), ends_between_(index.columns) {}

  /* An entry at or after `place` was counted. */
  bool has_passed(const std::string &place) const {
    if (entries_ == 0) return false;
    const int order = memcmp(place.data(), last_.data(), std::min(place.size(), last_.size()));
    return order < 0 || (order == 0 && place.size() <= last_.size());
  }

  /* `follows`: it stands right behind the entry before. */
  void add(Slice key, bool follows) {
    if (entries_++) compare(key, follows ? &ends_ : &ends_between_);
    pairs_ += entries_ > 1 && follows;
    last_.assign(key);
  }

  /* In hundredths. `whole`: all entries were counted; else the table has `rows`. */
  uint64_t rows_of_a_value(uint column, uint64_t rows, bool whole) const {
    const uint64_t seen = 1 + ends_[column] + ends_between_[column];
    if (whole) return std::max<uint64_t>(100, entries_ * 100 / seen);
    const uint64_t all = std::max(rows, entries_);
    if (seen == 1) return all * 50; /* one value all over the sample: at least half of the table */
    /* Two or three ends in so few entries are chance; that many values lie far apart, and the stretches meet
     * them. */
    if (ends_[column] <= FEW_ENDS) return std::max<uint64_t>(100, all * 100 / seen);
    const double ends = static_cast<double>(all - 1) * static_cast<double>(ends_[column]) /
                        static_cast<double>(std::max<uint64_t>(1, pairs_));
    const uint64_t values = std::max(seen, 1 + static_cast<uint64_t>(ends));
    return std::max<uint64_t>(100, all * 100 / values);
  }

 private:
  /* Counts one for each number of columns by which the key differs from the last one. */
  void compare(Slice key, std::vector<uint64_t> *counts) {
    size_t common = 0;
    const size_t shortest = std::min(key.size, last_.size());
    while (common < shortest && key.data[common] == last_.data()[common]) common++;
    const uchar *at = key.data, *const end = key.data + key.size;
    size_t column = 0;
    const auto count = [&](const std::vector<KeyPart> &parts) {
      for (const KeyPart &part : parts) {
        if (column >= counts->size()) return;
        bool is_null;
        if (at < end && !skip_part(part, &at, end, &is_null)) return;
        if (common < static_cast<size_t>(at - key.data)) (*counts)[column]++;
        column++;
      }
    };
    count(*index_.parts);
    if (index_.behind) count(*index_.behind);
    /* Columns that are not in the key (of a unique index): each entry is its own value. */
    for (; column < counts->size(); column++) (*counts)[column]++;
  }

  const SampledIndex &index_;
  uint64_t entries_ = 0;
  /* Neighbours that were compared. */
  uint64_t pairs_ = 0;
  std::vector<uint64_t> ends_;
  /* The same between the last entry of a stretch and the first of the next. */
  std::vector<uint64_t> ends_between_;
  ByteBuffer last_;
};

/* Counts up to `most` entries from `key` on; from the first where it is empty. TIDESDB_NOT_FOUND: the index
   ended. */
int count_stretch(tidesdb_cursor *cursor, tidesdb_txn *txn, Slice key, uint64_t most, const THD *thd,
                  ValueCounter *counter) {
  int status = seek_snapshot(cursor, txn, key, key.size ? TIDESDB_SEEK_AT_OR_AFTER : TIDESDB_SEEK_FIRST);
  for (uint64_t read = 0; status == TIDESDB_OK && read < most; read++) {
    const tidesdb_row &row = cursor->rows[cursor->position];
    counter->add({row.key, row.key_size}, read > 0);
    if (read % ENTRIES_BETWEEN_LOOKS == 0 && thd_kill_level(thd) >= THD_ABORT_SOFTLY)
      return TIDESDB_INTERRUPTED;
    status = tidesdb_cursor_next(cursor);
  }
  return status;
}

/* Keys at places evenly apart, in order. */
int find_places(tidesdb_family *family, uint count, std::vector<std::string> *places) {
  for (uint place = 0; place < count; place++) {
    char key[PLACE_BYTES];
    size_t size = 0;
    const int status = tidesdb_key_at(family, static_cast<double>(place) / count,
                                      reinterpret_cast<uint8_t *>(key), sizeof(key), &size);
    if (status == TIDESDB_NOT_FOUND) continue;
    if (status != TIDESDB_OK) return status;
    places->emplace_back(key, size);
  }
  std::sort(places->begin(), places->end());
  return TIDESDB_OK;
}

int count_at_places(const SampledIndex &index, tidesdb_cursor *cursor, tidesdb_txn *txn,
                    const SampleSize &size, const THD *thd, ValueCounter *counter) {
  std::vector<std::string> places;
  int status = find_places(index.family, size.places, &places);
  for (const std::string &place : places) {
    if (status != TIDESDB_OK) break;
    if (counter->has_passed(place)) continue;
    const Slice key{reinterpret_cast<const uchar *>(place.data()), place.size()};
    status = count_stretch(cursor, txn, key, std::max<uint64_t>(2, size.entries / size.places), thd, counter);
  }
  return status == TIDESDB_NOT_FOUND ? TIDESDB_OK : status;
}

}  // namespace

int sample_index(const SampledIndex &index, tidesdb_txn *txn, uint64_t rows, const SampleSize &size,
                 const THD *thd, std::vector<uint64_t> *rows_of_a_value) {
  CursorHandle cursor;
  int status = open_cursor(index.family, &cursor);
  if (status != TIDESDB_OK) return status;
  ValueCounter counter(index);
  bool whole = false;
  if (rows <= size.entries) {
    status = count_stretch(cursor.get(), txn, {nullptr, 0}, size.entries, thd, &counter);
    whole = status == TIDESDB_NOT_FOUND;
    if (whole) status = TIDESDB_OK;
  } else {
    status = count_at_places(index, cursor.get(), txn, size, thd, &counter);
  }
  if (status != TIDESDB_OK) return status;
  for (uint column = 0; column < index.columns; column++)
    rows_of_a_value->push_back(counter.rows_of_a_value(column, rows, whole));
  return TIDESDB_OK;
}

}  // namespace tidesdb
