#include "ddl/inversion.h"

#include <algorithm>

#include "key/hash.h"
#include "key/sql_headers.h"
#include "search/posting.h"

namespace tidesdb {

namespace {

constexpr size_t UNIT = 8;
constexpr size_t FIRST_SLOTS = 1024;
/* Bytes of a list's chunks: the first has so many, each other twice as many as the one before, up to a bound.
 */
constexpr size_t LEAST_CHUNK = 16, MOST_CHUNK = 1024;
/* Of a chunk: the place of the next one. */
constexpr size_t CHUNK_HEAD = sizeof(uint32_t);
/* Before the positions of a posting. */
constexpr size_t POSTING_HEAD = 2 * MAX_VARINT_SIZE;
/* Bytes from which on a term's entries are given in another piece. */
constexpr size_t PIECE = 16 * 1024;
/* Memory is counted in steps of this. */
constexpr size_t STEP = 256 * 1024;
constexpr uint32_t NONE = UINT32_MAX;
/* Words of a row that stay allocated for the next one. */
constexpr size_t MOST_KEPT_OCCURRENCES = 1 << 16;
constexpr size_t FIRST_OCCURRENCES = 1 << 10;

/* Bytes that are copied at once where a copy of their number would cost a call. */
constexpr size_t SHORT_COPY = 16;
/* Bytes of a short word. */
constexpr size_t MOST_SHORT = 7;

constexpr size_t rounded(size_t bytes) { return (bytes + UNIT - 1) / UNIT * UNIT; }

/* A short word as its bytes, and their number above them; of another the hash, with the highest bit. */
uint64_t word_of(Slice bytes) {
  const size_t size = bytes.size;
  const uchar *at = bytes.data;
  if (size > MOST_SHORT) return hash_of(bytes, 0) | 1ULL << 63;
  uint64_t word = uint64_t{size} << 56;
  if (size >= 4) return word | uint64_t{uint4korr(at)} | uint64_t{uint4korr(at + size - 4)} << 8 * (size - 4);
  for (size_t i = 0; i < size; i++) word |= uint64_t{at[i]} << 8 * i;
  return word;
}

Slice bytes_of(uint64_t word, uchar *to) {
  const size_t size = word >> 56;
  for (size_t i = 0; i < size; i++) to[i] = static_cast<uchar>(word >> 8 * i);
  return {to, size};
}

}  // namespace

/* Its bytes follow. */
struct Inversion::LongWord {
  uint64_t size;

  Slice bytes() const { return {reinterpret_cast<const uchar *>(this + 1), size}; }
};

/* Its bytes follow. */
struct Inversion::Term {
  uint32_t hash, size;
  uint32_t stamp;       /* of the row that had it last */
  uint32_t first, last; /* its occurrences there */
  uint32_t row;         /* of the last posting; 1: the first row */
  Place list, chunk;    /* its chunks: the first and the last one */
  uint16_t used, chunk_size;

  Slice bytes() const { return {reinterpret_cast<const uchar *>(this + 1), size}; }
};

/* Then the expiry, if it has one, and the key. */
struct Inversion::Row {
  uint32_t key_size;
  uchar length;
  bool has_expiry;

  const uchar *end() const { return reinterpret_cast<const uchar *>(this + 1); }
  Slice key() const { return {end() + (has_expiry ? sizeof(uint64_t) : 0), key_size}; }
};

Inversion::Inversion(tidesdb_db *db, size_t memory, std::function<bool()> killed, MakeTerm make_term)
    : limit_(memory),
      make_term_(std::move(make_term)),
      held_(db),
      word_slots_(FIRST_SLOTS),
      term_slots_(FIRST_SLOTS),
      held_for_row_(db),
      runs_(&held_, std::move(killed)) {}

template <class T>
T *Inversion::at(Place place) {
  return reinterpret_cast<T *>(memory_.at(place * UNIT));
}

bool Inversion::make_room(size_t bytes) {
  bytes = rounded(bytes);
  if (memory_.has_room(bytes)) return true;
  const size_t wanted = std::max(2 * memory_.capacity(), memory_.taken() + 2 * bytes);
  /* Of a row that has not ended, too. */
  held_.hold(std::max(held_.held(), memory_.taken()));
  if (wanted <= UINT32_MAX * UNIT) return memory_.grow(wanted);
  my_error(ER_OUTOFMEMORY, MYF(0), INT_MAX32);
  return false;
}

/* There is room. */
Inversion::Place Inversion::take(size_t bytes) {
  return static_cast<Place>(memory_.take(rounded(bytes)) / UNIT);
}

Inversion::Place Inversion::take_zeros(size_t bytes) {
  const Place place = take(bytes);
  memset(at<uchar>(place), 0, bytes);
  return place;
}

bool Inversion::begin_run() {
  const size_t words = word_slots_ * sizeof(Slot), terms = term_slots_ * sizeof(Place);
  if (memory_.capacity() == 0 && !memory_.make(limit_)) return false;
  if (!make_room(UNIT + words + terms)) return false;
  take(UNIT);
  words_ = take_zeros(words);
  terms_ = take_zeros(terms);
  words_used_ = terms_used_ = 0;
  has_tables_ = true;
  return true;
}

bool Inversion::grow_words() {
  const size_t slots = 2 * word_slots_;
  if (!make_room(slots * sizeof(Slot))) return false;
  const Place place = take_zeros(slots * sizeof(Slot));
  const Slot *old = at<Slot>(words_);
  Slot *grown = at<Slot>(place);
  for (size_t i = 0; i < word_slots_; i++) {
    if (old[i].word == 0) continue;
    size_t slot = mix_hash(old[i].word) & (slots - 1);
    while (grown[slot].word != 0) slot = (slot + 1) & (slots - 1);
    grown[slot] = old[i];
  }
  words_ = place;
  word_slots_ = slots;
  return true;
}

bool Inversion::grow_terms() {
  const size_t slots = 2 * term_slots_;
  if (!make_room(slots * sizeof(Place))) return false;
  const Place place = take_zeros(slots * sizeof(Place));
  const Place *old = at<Place>(terms_);
  Place *grown = at<Place>(place);
  for (size_t i = 0; i < term_slots_; i++) {
    if (old[i] == 0) continue;
    size_t slot = at<Term>(old[i])->hash & (slots - 1);
    while (grown[slot] != 0) slot = (slot + 1) & (slots - 1);
    grown[slot] = old[i];
  }
  terms_ = place;
  term_slots_ = slots;
  return true;
}

/* False: the word is new, and *slot is where it goes. */
template <class IsIt>
bool Inversion::find_slot(uint64_t word, IsIt is_it, size_t *slot) {
  const Slot *const slots = at<Slot>(words_);
  size_t at = mix_hash(word) & (word_slots_ - 1);
  while (slots[at].word != 0 && !(slots[at].word == word && is_it(slots[at])))
    at = (at + 1) & (word_slots_ - 1);
  *slot = at;
  return slots[at].word != 0;
}

bool Inversion::find_short_word(uint64_t word, Place *term) {
  size_t slot;
  uchar bytes[UNIT];
  const bool is_known = find_slot(
      word, [](const Slot &) { return true; }, &slot);
  if (!is_known) return add_new_word(slot, word, bytes_of(word, bytes), term);
  *term = at<Slot>(words_)[slot].term;
  return true;
}

bool Inversion::find_long_word(Slice bytes, uint64_t word, Place *term) {
  size_t slot;
  const auto is_it = [&](const Slot &known) { return same_bytes(at<LongWord>(known.bytes)->bytes(), bytes); };
  if (!find_slot(word, is_it, &slot)) return add_new_word(slot, word, bytes, term);
  *term = at<Slot>(words_)[slot].term;
  return true;
}

bool Inversion::add_new_word(size_t slot, uint64_t word, Slice bytes, Place *term) {
  term_.clear();
  *term = 0;
  if (make_term_(bytes, &term_) && !find_term(term_.slice(), term)) return false;
  Place place = 0;
  if (bytes.size > MOST_SHORT) {
    if (!make_room(sizeof(LongWord) + bytes.size)) return false;
    place = take(sizeof(LongWord) + bytes.size);
    LongWord *fresh = at<LongWord>(place);
    fresh->size = bytes.size;
    memcpy(fresh + 1, bytes.data, bytes.size);
  }
  at<Slot>(words_)[slot] = {word, *term, place};
  return 2 * ++words_used_ < word_slots_ || grow_words();
}

bool Inversion::find_term(Slice bytes, Place *term) {
  const uint32_t hash = static_cast<uint32_t>(hash_of(bytes, 0));
  const Place *const slots = at<Place>(terms_);
  size_t slot = hash & (term_slots_ - 1);
  for (; slots[slot] != 0; slot = (slot + 1) & (term_slots_ - 1)) {
    *term = slots[slot];
    if (at<Term>(*term)->hash == hash && same_bytes(at<Term>(*term)->bytes(), bytes)) return true;
  }
  if (!make_room(rounded(sizeof(Term) + bytes.size) + LEAST_CHUNK)) return false;
  *term = take(sizeof(Term) + bytes.size);
  const Place list = take(LEAST_CHUNK);
  Term *fresh = at<Term>(*term);
  *fresh = {hash, static_cast<uint32_t>(bytes.size), stamp_, 0, 0, 0, list, list, CHUNK_HEAD, LEAST_CHUNK};
  memcpy(fresh + 1, bytes.data, bytes.size);
  at<Place>(terms_)[slot] = *term;
  return 2 * ++terms_used_ < term_slots_ || grow_terms();
}

/* Short words are looked up at the row's end: their slots are on the way to the processor meanwhile. */
bool Inversion::add_word(Slice bytes, uint32_t position) {
  if (!has_tables_ && !begin_run()) return false;
  if (!occurrences_.empty() && position < occurrences_.back().position) in_order_ = false;
  const uint64_t word = word_of(bytes);
  if (bytes.size <= MOST_SHORT) {
    __builtin_prefetch(at<Slot>(words_) + (mix_hash(word) & (word_slots_ - 1)));
    add_occurrence({word, 0, position, NONE});
    return true;
  }
  Place term;
  if (!find_long_word(bytes, word, &term)) return false;
  if (term != 0) add_occurrence({0, term, position, NONE});
  return true;
}

void Inversion::add_occurrence(const Occurrence &occurrence) {
  if (occurrences_.size() == occurrences_.capacity()) grow_occurrences();
  occurrences_.push_back(occurrence);
}

/* A row has any number of words: they are counted before its end. */
void Inversion::grow_occurrences() {
  const size_t wanted = std::max(2 * occurrences_.capacity(), FIRST_OCCURRENCES);
  /* The old ones, too, until they are copied. */
  held_for_row_.hold(held_for_row_.held() + wanted * sizeof(Occurrence));
  occurrences_.reserve(wanted);
  count_row();
}

void Inversion::count_row() {
  const size_t bytes = occurrences_.capacity() * sizeof(Occurrence) + distinct_.capacity() * sizeof(Place);
  if (bytes != held_for_row_.held()) held_for_row_.hold(bytes);
}

/* Of the row's short words; those that are in no index go. */
bool Inversion::find_terms() {
  size_t kept = 0;
  for (Occurrence occurrence : occurrences_) {
    if (occurrence.word != 0 && !find_short_word(occurrence.word, &occurrence.term)) return false;
    if (occurrence.term == 0) continue;
    __builtin_prefetch(at<Term>(occurrence.term));
    occurrences_[kept++] = occurrence;
  }
  occurrences_.resize(kept);
  return true;
}

/* After the term's occurrences before. */
void Inversion::chain(uint32_t occurrence) {
  Term *term = at<Term>(occurrences_[occurrence].term);
  if (term->stamp != stamp_) {
    term->stamp = stamp_;
    term->first = occurrence;
    distinct_.push_back(occurrences_[occurrence].term);
    __builtin_prefetch(at<uchar>(term->chunk) + term->used, 1);
  } else {
    occurrences_[term->last].next = occurrence;
  }
  term->last = occurrence;
}

bool Inversion::end_row(Slice row_key, uint64_t expiry) {
  if (!find_terms()) return false;
  if (!in_order_)
    std::stable_sort(occurrences_.begin(), occurrences_.end(),
                     [](const Occurrence &a, const Occurrence &b) { return a.position < b.position; });
  in_order_ = true;
  if (occurrences_.empty()) {
    release_large();
    return end_entries();
  }
  stamp_++;
  for (uint32_t i = 0; i < occurrences_.size(); i++) chain(i);
  count_row();
  if (!add_row(row_key, expiry, length_class(static_cast<uint32_t>(distinct_.size())))) return false;
  for (const Place place : distinct_)
    if (!append_positions(place, at<Term>(place)->first)) return false;
  release_large();
  return end_entries();
}

/* Of the row; what a huge one took goes. */
void Inversion::release_large() {
  occurrences_.clear();
  distinct_.clear();
  if (occurrences_.capacity() > MOST_KEPT_OCCURRENCES) std::vector<Occurrence>().swap(occurrences_);
  if (distinct_.capacity() > MOST_KEPT_OCCURRENCES) std::vector<Place>().swap(distinct_);
  count_row();
}

/* Those of a chain that begins with `occurrence`. */
bool Inversion::append_positions(Place place, uint32_t occurrence) {
  if (occurrences_[occurrence].next == NONE) {
    uchar posting[POSTING_HEAD + MAX_VARINT_SIZE + SHORT_COPY];
    uchar *const positions = posting + POSTING_HEAD;
    const uchar *const end = write_varint(positions, occurrences_[occurrence].position);
    return append_posting(place, positions, static_cast<size_t>(end - positions));
  }
  posting_.clear();
  posting_.reserve(POSTING_HEAD);
  posting_.grow_by(POSTING_HEAD);
  uint32_t last = 0;
  for (size_t positions = 0; occurrence != NONE && positions < MOST_POSITIONS; positions++) {
    const Occurrence &at = occurrences_[occurrence];
    posting_.set_end(write_varint(posting_.reserve(MAX_VARINT_SIZE + SHORT_COPY), at.position - last));
    last = at.position;
    occurrence = at.next;
  }
  return append_posting(place, posting_.data() + POSTING_HEAD, posting_.size() - POSTING_HEAD);
}

bool Inversion::add_entry(Slice term, Slice row_key, Slice value, uint64_t expiry) {
  if (!has_tables_ && !begin_run()) return false;
  Place place;
  if (!find_term(term, &place)) return false;
  const size_t rows = memory_.count();
  const bool is_known =
      rows != 0 && same_bytes(reinterpret_cast<Row *>(memory_.at(memory_.places()[0]))->key(), row_key);
  if (!is_known && !add_row(row_key, expiry, value.data[0])) return false;
  posting_.clear();
  posting_.reserve(POSTING_HEAD + value.size + SHORT_COPY);
  posting_.grow_by(POSTING_HEAD);
  posting_.append(value.data + 1, value.size - 1);
  return append_posting(place, posting_.data() + POSTING_HEAD, value.size - 1) && end_entries();
}

bool Inversion::add_row(Slice row_key, uint64_t expiry, uchar length) {
  const size_t of_expiry = expiry != 0 ? sizeof(expiry) : 0;
  const size_t bytes = rounded(sizeof(Row) + of_expiry + row_key.size);
  if (!make_room(bytes)) return false;
  uchar *to = memory_.add(bytes);
  const Row row{static_cast<uint32_t>(row_key.size), length, expiry != 0};
  memcpy(to, &row, sizeof(row));
  if (of_expiry) memcpy(to + sizeof(row), &expiry, sizeof(expiry));
  memcpy(to + sizeof(row) + of_expiry, row_key.data, row_key.size);
  /* Two numbers of four bytes, the class and a byte that tells of the expiry. */
  entry_size_ = 2 * sizeof(uint32_t) + row_key.size + 2 + of_expiry;
  return true;
}

/* Of the last row. Before the positions there are POSTING_HEAD bytes for its head, and as many as SHORT_COPY
   can be read after them. */
bool Inversion::append_posting(Place place, uchar *positions, size_t size) {
  /* Chunks have a third more bytes at most, but for the last one. */
  if (!make_room(2 * (POSTING_HEAD + size) + MOST_CHUNK)) return false;
  Term *term = at<Term>(place);
  const uint32_t row = static_cast<uint32_t>(memory_.count());
  uchar head[POSTING_HEAD];
  uchar *const end = write_varint(write_varint(head, row - term->row), size);
  const size_t head_size = static_cast<size_t>(end - head);
  uchar *const begin = positions - head_size;
  memcpy(begin, head, head_size);
  append(term, begin, head_size + size);
  term->row = row;
  size_ += entry_size_ + term->size + size;
  return true;
}

/* There is room, and as many bytes as SHORT_COPY can be read. */
void Inversion::append(Term *term, const uchar *bytes, size_t size) {
  if (size <= SHORT_COPY && term->chunk_size - term->used >= static_cast<int>(SHORT_COPY)) {
    memcpy(at<uchar>(term->chunk) + term->used, bytes, SHORT_COPY);
    term->used = static_cast<uint16_t>(term->used + size);
    return;
  }
  for (;;) {
    uchar *const chunk = at<uchar>(term->chunk);
    const size_t part = std::min<size_t>(size, term->chunk_size - term->used);
    memcpy(chunk + term->used, bytes, part);
    term->used = static_cast<uint16_t>(term->used + part);
    if (part == size) return;
    bytes += part;
    size -= part;
    term->chunk_size = static_cast<uint16_t>(std::min<size_t>(2 * term->chunk_size, MOST_CHUNK));
    term->chunk = take(term->chunk_size);
    memcpy(chunk, &term->chunk, CHUNK_HEAD);
    term->used = CHUNK_HEAD;
  }
}

/* After what belongs together: a part is kept free for the next row. */
bool Inversion::end_entries() {
  if (memory_.taken() >= held_.held() + STEP) held_.hold(memory_.taken());
  return memory_.taken() <= limit_ - limit_ / 16 || spill();
}

void Inversion::sort_terms() {
  held_.hold(held_.held() + terms_used_ * sizeof(SortedTerm));
  sorted_.clear();
  sorted_.reserve(terms_used_);
  const Place *slots = has_tables_ ? at<Place>(terms_) : nullptr;
  for (size_t i = 0; slots && i < term_slots_; i++)
    if (slots[i] != 0 && at<Term>(slots[i])->row != 0)
      sorted_.push_back({key_head(at<Term>(slots[i])->bytes()), slots[i]});
  std::sort(sorted_.begin(), sorted_.end(), [this](const SortedTerm &a, const SortedTerm &b) {
    return a.head != b.head ? a.head < b.head
                            : compare_bytes(at<Term>(a.place)->bytes(), at<Term>(b.place)->bytes()) < 0;
  });
  read_ = 0;
}

bool Inversion::spill() {
  const size_t held = held_.held();
  sort_terms();
  /* Without a row there are words alone that are in no index. */
  const bool has_rows = memory_.count() != 0;
  if (has_rows && !runs_.begin_run()) return false;
  while (has_rows) {
    Slice term;
    bool found;
    next_in_memory(&term, &found);
    if (!found) break;
    if (!runs_.write(term, entries_.slice())) return false;
  }
  std::vector<SortedTerm>().swap(sorted_);
  memory_.clear();
  has_tables_ = false;
  if (memory_.capacity() > limit_ + UNIT) memory_.release();
  held_.hold(std::min(held, memory_.capacity()));
  if (word_slots_ * sizeof(Slot) + term_slots_ * sizeof(Place) > limit_ / 8)
    word_slots_ = term_slots_ = FIRST_SLOTS;
  return !has_rows || runs_.end_run();
}

bool Inversion::begin_reading() {
  if (runs_.empty()) {
    sort_terms();
    return true;
  }
  if (memory_.count() != 0 && !spill()) return false;
  memory_.release();
  held_.hold(0);
  merging_ = true;
  return runs_.begin_reading();
}

bool Inversion::next(Slice *term, Slice *entries, bool *found) {
  if (merging_) return runs_.next(term, entries, found);
  next_in_memory(term, found);
  *entries = entries_.slice();
  return true;
}

void Inversion::next_in_memory(Slice *term, bool *found) {
  *found = has_more() || read_ < sorted_.size();
  if (!*found) return;
  if (!has_more()) open(sorted_[read_++].place);
  *term = at<Term>(sorted_[read_ - 1].place)->bytes();
  entries_.clear();
  while (has_more() && entries_.size() < PIECE) write_entry();
}

void Inversion::open(Place place) {
  const Term *term = at<Term>(place);
  list_ = List();
  list_.last = term->chunk;
  list_.used = term->used;
  list_.place = term->list;
  list_.chunk = LEAST_CHUNK;
  list_.at = at<uchar>(list_.place) + CHUNK_HEAD;
  list_.end = at<uchar>(list_.place) + (list_.place == list_.last ? list_.used : list_.chunk);
}

void Inversion::next_chunk() {
  memcpy(&list_.place, at<uchar>(list_.place), CHUNK_HEAD);
  list_.chunk = std::min(2 * list_.chunk, MOST_CHUNK);
  list_.at = at<uchar>(list_.place) + CHUNK_HEAD;
  list_.end = at<uchar>(list_.place) + (list_.place == list_.last ? list_.used : list_.chunk);
}

size_t Inversion::read_number() {
  size_t number = 0;
  for (uint shift = 0;; shift += 7) {
    if (list_.at == list_.end) next_chunk();
    const uchar byte = *list_.at++;
    number |= static_cast<size_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
}

/* Appends the list's next posting as an entry (for_each()). */
void Inversion::write_entry() {
  list_.row += read_number();
  size_t positions = read_number();
  const Row *row = reinterpret_cast<const Row *>(memory_.at(memory_.place_of(list_.row - 1)));
  const Slice key = row->key();
  uchar *to = entries_.reserve(2 * MAX_VARINT_SIZE + 3 * UNIT + key.size + positions);
  to = write_varint(to, 2 * ulonglong{row->key_size} + row->has_expiry);
  if (row->has_expiry) {
    memcpy(to, row->end(), sizeof(uint64_t));
    to += sizeof(uint64_t);
  }
  /* Rows take whole units. */
  if (key.size <= UNIT)
    memcpy(to, key.data, UNIT);
  else
    memcpy(to, key.data, key.size);
  to = write_varint(to + key.size, 1 + positions);
  *to++ = row->length;
  if (positions <= UNIT && static_cast<size_t>(list_.end - list_.at) >= UNIT) {
    memcpy(to, list_.at, UNIT);
    to += positions;
    list_.at += positions;
    positions = 0;
  }
  while (positions != 0) {
    if (list_.at == list_.end) next_chunk();
    const size_t part = std::min(positions, static_cast<size_t>(list_.end - list_.at));
    memcpy(to, list_.at, part);
    to += part;
    list_.at += part;
    positions -= part;
  }
  entries_.set_end(to);
}

}  // namespace tidesdb
