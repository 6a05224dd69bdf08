/*
  Words that no full text index has: InnoDB's list (INNODB_FT_DEFAULT_STOPWORD), or that of the index.
*/
#ifndef TIDESDB_SEARCH_STOPWORDS_H
#define TIDESDB_SEARCH_STOPWORDS_H

#include <memory>
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

/* What all handlers of an index have in common, and indexes of one collation with equal settings: up to 64 KB
   of words and their terms. */
struct IndexWords {
  FullTextSettings settings;
  StopwordTerms stopwords;

  IndexWords(const FullTextSettings &of, CHARSET_INFO *charset);
  /* Lives as long as somebody has it. */
  static std::shared_ptr<const IndexWords> of(const FullTextSettings &settings, CHARSET_INFO *charset);
};

}  // namespace tidesdb
#endif
