/*
  Words that no full text index has: InnoDB's list (INNODB_FT_DEFAULT_STOPWORD), or that of the index.
*/
#ifndef TIDESDB_SEARCH_STOPWORDS_H
#define TIDESDB_SEARCH_STOPWORDS_H

#include <string>
#include <vector>

#include "search/settings.h"
#include "search/terms.h"

namespace tidesdb {

/* Of the list of an index. */
size_t number_of_stopwords(const FullTextSettings &settings);

class StopwordTerms {
 public:
  StopwordTerms(const FullTextSettings &settings, CHARSET_INFO *charset, const TermCodec &codec);
  bool is_empty() const { return terms_.empty(); }
  bool has(Slice term) const;

 private:
  void add(Slice word, const TermCodec &codec);

  std::vector<std::string> terms_; /* sorted */
};

}  // namespace tidesdb
#endif
