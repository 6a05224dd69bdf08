/*
  One search of a statement: the rows that match, with their scores, at the moment of the search.

  The server holds it as an FT_INFO and closes it when the statement's items go, which may be after the
  handler serves another statement: it owns all its memory, and no cursor.
*/
#ifndef TIDESDB_SEARCH_SEARCH_H
#define TIDESDB_SEARCH_SEARCH_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "search/conditions.h"

namespace tidesdb {

/* The key of a row, in memory of its list. */
struct RowName {
  uint64_t head = 0; /* its first bytes, in the order of keys */
  Slice key{nullptr, 0};

  static RowName of(Slice key);
  int compare(const RowName &other) const {
    if (head != other.head) return head < other.head ? -1 : 1;
    return key.size <= sizeof head && key.size == other.key.size ? 0 : compare_bytes(key, other.key);
  }
};

/* Bytes that stay where they are. */
class Arena {
 public:
  Slice keep(Slice bytes);
  size_t size() const { return size_; }

 private:
  static constexpr size_t CHUNK = 64 * 1024;
  std::vector<std::unique_ptr<uchar[]>> chunks_;
  size_t used_ = CHUNK, size_ = 0;
};

/* The rows that have one lookup's terms, in the order of their keys, each once. */
class PostingList {
 public:
  /* Of rows in any order where the lookup is a beginning. */
  void add(const Lookup &lookup, Slice row_key, const Posting &posting);
  /* False: killed() was true. */
  bool finish(const Lookup &lookup, const std::function<bool()> &killed);

  size_t size() const { return rows_.size(); }
  const RowName &row(size_t i) const { return rows_[i]; }
  const Posting &posting(size_t i) const { return postings_[i]; }
  size_t memory() const {
    return bytes_.size() + rows_.capacity() * sizeof(RowName) + postings_.capacity() * sizeof(Posting);
  }

 private:
  Arena bytes_;
  std::vector<RowName> rows_;
  std::vector<Posting> postings_;
};

struct Hit {
  RowName row;
  float score;
};

class RowSearch {
 public:
  explicit RowSearch(std::unique_ptr<Conditions> conditions) : conditions_(std::move(conditions)) {}

  const Conditions &conditions() const { return *conditions_; }

  /* How the search reads; all but killed() return 0 or an error. */
  struct Source {
    /* Calls for each entry of a lookup, in the order of keys, until that returns false. */
    std::function<int(const Lookup &, const std::function<bool(Slice key, Slice value)> &)> read;
    /* Sets in how many rows the lookup's terms are, for its weight: of so many by the lists. */
    std::function<int(const Lookup &, uint64_t *rows)> count;
    std::function<bool()> killed;
  };
  enum class Result : uchar { DONE, FAILED, DAMAGED, TOO_LARGE, KILLED };
  /* `all_candidates`: rows that some lookups find and the conditions do not are among the hits, with the
     score 0. `error`: of the source. */
  Result run(const FullTextKind &kind, const Source &source, size_t most_memory, bool all_candidates,
             int *error);
  /* Bytes that it holds. */
  size_t memory() const;

  /* The rows to give: all, in the order of their keys, unless one of these is called. */
  size_t count() const { return is_chosen_ ? chosen_.size() : hits_.size(); }
  const Hit &hit(size_t place) const { return hits_[is_chosen_ ? chosen_[place] : place]; }
  /* All, the best first, those of one score by their keys. False: killed() was true. */
  bool sort(const std::function<bool()> &killed);
  /* The best, so many and those that tie with the last of them, in the order of their keys. */
  void keep_best(size_t most);
  /* 0: the row does not match. */
  float score_of(Slice row_key) const;

 private:
  Result read_lists(const FullTextKind &kind, const Source &source, size_t most_memory, int *error);
  Result match_rows(const Source &source, size_t most_memory, bool all_candidates);

  std::unique_ptr<Conditions> conditions_;
  std::vector<PostingList> lists_;
  std::vector<Hit> hits_;
  bool is_chosen_ = false;
  std::vector<uint32_t> chosen_; /* places in hits_ */
};

}  // namespace tidesdb
#endif
