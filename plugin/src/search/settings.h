/*
  How the words of a full text index are found: kept with the index from its making on, so that a changed
  variable leaves no entry of another rule in it. Variables give them to new indexes.
*/
#ifndef TIDESDB_SEARCH_SETTINGS_H
#define TIDESDB_SEARCH_SETTINGS_H

#include <cstdint>
#include <string>

namespace tidesdb {

/* The rule by which this build cuts words and encodes entries. A build that reads another one from a table's
   record refuses the table. */
constexpr uint8_t FULL_TEXT_RULE = 1;

enum class Stopwords : uint8_t { NONE = 0, INNODB = 1 };

struct FullTextSettings {
  uint8_t rule = FULL_TEXT_RULE;
  /* Characters of a word; shorter and longer ones are in no index. */
  uint8_t least_characters = 3, most_characters = 84;
  Stopwords stopwords = Stopwords::INNODB;
  /* Characters, in utf8mb4, that stay inside a word, which stands in the index whole and in its parts. */
  std::string blend;

  bool operator==(const FullTextSettings &other) const {
    return rule == other.rule && least_characters == other.least_characters &&
           most_characters == other.most_characters && stopwords == other.stopwords && blend == other.blend;
  }
  bool operator!=(const FullTextSettings &other) const { return !(*this == other); }
};

}  // namespace tidesdb
#endif
