/*
  The entries of a full text index that is being built, for rows in the order of their keys: inverted in
  memory, with a list of postings for each term. A full memory becomes a run in a temporary file
  (ddl/sorted_runs.h). Runs are in the order of rows, so that their lists follow each other: only terms are
  sorted, and compared.

  A posting is the number of its row, as the distance from the term's posting before, and the word's positions
  as the entry has them (search/posting.h). What the entries of a row share stands once.
*/
#ifndef TIDESDB_DDL_INVERSION_H
#define TIDESDB_DDL_INVERSION_H

#include <cstdint>
#include <functional>
#include <vector>

#include "ddl/sort_memory.h"
#include "ddl/sorted_runs.h"
#include "key/bytes.h"

namespace tidesdb {

class Inversion {
 public:
  /* Appends the term of a word; false: the word is in no index, and nothing was appended. Equal words have
     equal terms. */
  using MakeTerm = std::function<bool(Slice word, ByteBuffer *to)>;

  /* `memory`: bytes that rows take at most before they go to a file; a row that needs more gets it. Merging
     runs takes 128 KB for each. All of it is counted as the store's, which must outlive this. `killed`: as in
     ddl/sorted_runs.h. */
  Inversion(tidesdb_db *db, size_t memory, std::function<bool()> killed, MakeTerm make_term);
  Inversion(const Inversion &) = delete;
  Inversion &operator=(const Inversion &) = delete;

  /* All return false where memory or a temporary file failed, and the client has been told; or the statement
     is killed. */

  /* The words of a row, then its end. `expiry`: the second in which it expires; 0: it does not. */
  bool add_word(Slice word, uint32_t position);
  bool end_row(Slice row_key, uint64_t expiry);
  /* In place of these: an entry, those of one row without others between them. */
  bool add_entry(Slice term, Slice row_key, Slice value, uint64_t expiry);

  /* Bytes of all entries so far, as MergeSort counts them. */
  ulonglong size() const { return size_; }

  /* After the last row: terms in their order, each with some of its entries at a time. */
  bool begin_reading();
  /* *found: whether there are more; they live until the next call. */
  bool next(Slice *term, Slice *entries, bool *found);
  /* Calls take(row key, value, expiry) for each of them, as long as it returns true. False: damaged. */
  template <class Take>
  static bool for_each(Slice entries, Take take);

 private:
  /* In memory, in units of 8 bytes; 0: none. */
  using Place = uint32_t;

  struct LongWord;
  struct Term;
  struct Row;
  struct Slot {
    uint64_t word; /* see word_of(); 0: free */
    Place term;    /* 0: the word is in no index */
    Place bytes;   /* of a long word */
  };
  struct Occurrence {
    uint64_t word; /* a short one; 0: the term is known */
    Place term;
    uint32_t position;
    uint32_t next; /* of the term in the row */
  };
  struct SortedTerm {
    uint64_t head;
    Place place;
  };
  /* Reads the postings of a term. */
  struct List {
    const uchar *at = nullptr, *end = nullptr; /* in a chunk */
    size_t chunk = 0;                          /* bytes of it */
    Place place = 0, last = 0;                 /* of this chunk, and of the last one */
    size_t used = 0;                           /* bytes of the last one */
    size_t row = 0;                            /* of the posting before */
  };

  template <class T>
  T *at(Place place);
  bool make_room(size_t bytes);
  Place take(size_t bytes);
  Place take_zeros(size_t bytes);
  bool begin_run();
  void add_occurrence(const Occurrence &occurrence);
  void grow_occurrences();
  void count_row();
  void release_large();
  bool end_entries();
  bool spill();

  template <class IsIt>
  bool find_slot(uint64_t word, IsIt is_it, size_t *slot);
  bool find_short_word(uint64_t word, Place *term);
  bool find_long_word(Slice bytes, uint64_t word, Place *term);
  bool add_new_word(size_t slot, uint64_t word, Slice bytes, Place *term);
  bool find_term(Slice bytes, Place *term);
  bool grow_words();
  bool grow_terms();

  bool find_terms();
  void chain(uint32_t occurrence);
  bool add_row(Slice row_key, uint64_t expiry, uchar length);
  bool append_positions(Place place, uint32_t occurrence);
  bool append_posting(Place place, uchar *positions, size_t size);
  void append(Term *term, const uchar *bytes, size_t size);

  void sort_terms();
  void next_in_memory(Slice *term, bool *found);
  void open(Place place);
  void next_chunk();
  bool has_more() const { return list_.at != list_.end || list_.place != list_.last; }
  size_t read_number();
  void write_entry();

  const size_t limit_;
  const MakeTerm make_term_;
  ulonglong size_ = 0;
  CountedMemory held_;
  SortMemory memory_;              /* words, terms, their tables and lists; and rows, as entries */
  bool has_tables_ = false;        /* is ready for rows */
  Place words_ = 0, terms_ = 0;    /* hash tables: of Slot, and of the places of terms */
  size_t word_slots_, term_slots_; /* powers of two */
  size_t words_used_ = 0, terms_used_ = 0;

  /* Of the row. */
  CountedMemory held_for_row_; /* the words' places */
  std::vector<Occurrence> occurrences_;
  std::vector<Place> distinct_; /* terms */
  bool in_order_ = true;        /* the occurrences are, by their positions */
  uint32_t stamp_ = 0;
  size_t entry_size_ = 0; /* of an entry but for its term and positions */
  ByteBuffer posting_;    /* room for a head, then the positions */
  ByteBuffer term_;

  std::vector<SortedTerm> sorted_;
  size_t read_ = 0; /* of these */
  List list_;
  ByteBuffer entries_;
  bool merging_ = false;
  SortedRuns runs_;
};

/* An entry: a varint with twice the size of the row's key, and 1 more where eight bytes with the expiry
   follow; the row's key; a varint with the size of the value; the value. */
template <class Take>
bool Inversion::for_each(Slice entries, Take take) {
  const uchar *at = entries.data, *const end = entries.data + entries.size;
  while (at < end) {
    ulonglong key_size, value_size;
    uint64_t expiry = 0;
    if (!read_varint(&at, end, &key_size)) return false;
    if (key_size & 1) {
      if (static_cast<size_t>(end - at) < sizeof(expiry)) return false;
      memcpy(&expiry, at, sizeof(expiry));
      at += sizeof(expiry);
    }
    key_size /= 2;
    if (static_cast<size_t>(end - at) < key_size) return false;
    const Slice key{at, static_cast<size_t>(key_size)};
    at += key_size;
    if (!read_varint(&at, end, &value_size) || static_cast<size_t>(end - at) < value_size) return false;
    if (!take(key, Slice{at, static_cast<size_t>(value_size)}, expiry)) return true;
    at += value_size;
  }
  return true;
}

}  // namespace tidesdb
#endif
