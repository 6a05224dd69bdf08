/*
  How the words of a full text index are found: kept with the index from its making on, so that a changed
  variable leaves no entry of another rule in it. Variables give them to new indexes.
*/
#ifndef TIDESDB_SEARCH_SETTINGS_H
#define TIDESDB_SEARCH_SETTINGS_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace tidesdb {

/* The rule by which this build cuts words and encodes entries. A build that reads another one from a table's
   record refuses the table. */
constexpr uint8_t FULL_TEXT_RULE = 1;

/* OWN: a list that is kept with the index. */
enum class Stopwords : uint8_t { NONE = 0, INNODB = 1, OWN = 2 };

/* Name of the parser (WITH PARSER) that cuts runs of letters into ngrams. */
constexpr char NGRAM_PARSER[] = "ngram";
/* Characters of an ngram. */
constexpr uint8_t LEAST_NGRAM = 1, MOST_NGRAM = 10;

/* Of a list of an index: words, and bytes of it. */
constexpr size_t MOST_STOPWORDS = 10000, MOST_STOPWORD_BYTES = 65535;

struct FullTextSettings {
  uint8_t rule = FULL_TEXT_RULE;
  /* Characters of a word; shorter and longer ones are in no index. Of ngrams both are their number. */
  uint8_t least_characters = 3, most_characters = 84;
  Stopwords stopwords = Stopwords::INNODB;
  /* Characters, in utf8mb4, that stay inside a word, which stands in the index whole and in its parts. */
  std::string blend;
  std::string parser; /* empty: the engine's words */
  /* OWN: the words in utf8mb4, in the order of their bytes, each once and with a zero byte after it. */
  std::string stopword_list;

  bool cuts_ngrams() const { return parser == NGRAM_PARSER; }

  bool operator==(const FullTextSettings &other) const {
    return rule == other.rule && least_characters == other.least_characters &&
           most_characters == other.most_characters && stopwords == other.stopwords && blend == other.blend &&
           parser == other.parser && stopword_list == other.stopword_list;
  }
  bool operator!=(const FullTextSettings &other) const { return !(*this == other); }
};

}  // namespace tidesdb
#endif
