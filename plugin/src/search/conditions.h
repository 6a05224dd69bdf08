/*
  A query as an index answers it: its words are terms, each once, and those that the index never has are gone.

  Whether a row matches, and its score, is decided here, from what the row has of each term: the same for rows
  that postings tell of and for one that is cut into words anew.
*/
#ifndef TIDESDB_SEARCH_CONDITIONS_H
#define TIDESDB_SEARCH_CONDITIONS_H

#include <string>
#include <unordered_map>
#include <vector>

#include "search/posting.h"
#include "search/query.h"

namespace tidesdb {

class FullTextKind;

/* Parameters of BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009). */
struct Bm25 {
  double k1 = 1.2, b = 0.75;
  double rows = 0;        /* of the table */
  double mean_length = 1; /* different words of a row */

  /* Of a term that so many rows have; never 0. */
  double weight(double rows_with) const;
  double score(double weight, double frequency, double length) const;
};

/* What a search looks up: a term, or all terms that begin alike. */
struct Lookup {
  std::string first; /* the term, or the first bytes of the terms */
  std::string whole; /* of a beginning: its term, as if it were a word */
  bool is_prefix = false;
  bool needs_positions = false;
  float times = 1; /* as often as the query has the word */
};

struct Condition {
  enum class Kind : uchar { LOOKUP, PHRASE, GROUP };
  struct PhraseWord {
    uint lookup;
    uint32_t offset; /* from the phrase's first word */
    uint place;      /* of the lookup among the phrase's different ones */
  };

  Kind kind = Kind::GROUP;
  Bearing bearing = Bearing::HELPS;
  float boost = 1;
  uint lookup = 0;
  std::vector<PhraseWord> words;
  std::vector<uint> different; /* lookups of the phrase */
  ulonglong distance = 0;
  std::vector<Condition> parts;
};

/* Words and groups of one query, and words of a phrase. */
constexpr size_t MOST_LOOKUPS = 10000, MOST_PHRASE = 1000;

class Conditions {
 public:
  Conditions(const FullTextKind &kind, const Bm25 &scoring) : kind_(kind), scoring_(scoring) {}

  /* Natural language: all words of the text help. */
  void add_words(Slice text);
  /* One more word that helps. */
  void add_term(Slice term);
  void set(const QueryNode &query);

  /* The query has more different words than are looked up; some are left out. */
  bool has_too_many_words() const { return too_many_; }

  /* Parts and words that are judged for a row. */
  size_t size() const { return size_; }
  const std::vector<Lookup> &lookups() const { return lookups_; }
  const Condition &root() const { return root_; }
  const Bm25 &scoring() const { return scoring_; }

  /* Once it is known in how many rows the lookup's terms are. */
  void set_rows_with(uint lookup, uint64_t rows);

  /* What a row has of each lookup; nullptr: nothing. */
  using Found = std::vector<const Posting *>;
  /* Whether the row matches; then *score is above 0. False as well where positions are damaged. */
  bool matches(const Found &found, float *score) const;

 private:
  struct Outcome {
    bool matches;
    double score;
  };

  /* Counts a part of a boolean query. */
  bool has_room_for_one_more();
  Condition translate(const QueryNode &node);
  Condition of_text(const QueryNode &node);
  Condition of_ngrams(const QueryNode &node);
  Condition of_phrase(Slice text, Condition phrase);
  /* False: the word has no weight. */
  bool look_up_beginning(Slice word, Condition *part);
  static Condition group_of_parts(const QueryNode &node, std::vector<Condition> parts);
  uint lookup_of(const std::string &first, const std::string &whole, bool is_prefix);
  Outcome judge(const Condition &condition, const Found &found) const;
  Outcome judge_phrase(const Condition &condition, const Found &found) const;
  Outcome judge_group(const Condition &condition, const Found &found) const;

  const FullTextKind &kind_;
  Bm25 scoring_;
  std::vector<Lookup> lookups_;
  std::unordered_map<std::string, uint> known_; /* lookups by what they look up */
  size_t size_ = 0;
  bool too_many_ = false;
  std::vector<double> weights_; /* of each lookup */
  Condition root_;
};

}  // namespace tidesdb
#endif
