#include "search/stopwords.h"

#include <algorithm>

namespace tidesdb {

namespace {

constexpr const char *innodb_words[] = {
    "a",    "about", "an",  "are",  "as",   "at",    "be",  "by",   "com",  "de",  "en",   "for",
    "from", "how",   "i",   "in",   "is",   "it",    "la",  "of",   "on",   "or",  "that", "the",
    "this", "to",    "was", "what", "when", "where", "who", "will", "with", "und", "the",  "www",
};

}  // namespace

size_t number_of_stopwords(const FullTextSettings &settings) {
  return settings.stopwords == Stopwords::INNODB ? array_elements(innodb_words) : 0;
}

StopwordTerms::StopwordTerms(Stopwords which, const TermCodec &codec) {
  if (which == Stopwords::NONE) return;
  ByteBuffer term;
  for (const char *word : innodb_words) {
    term.clear();
    if (codec.append({reinterpret_cast<const uchar *>(word), strlen(word)}, &term))
      terms_.push_back(string_of(term.slice()));
  }
  std::sort(terms_.begin(), terms_.end());
}

bool StopwordTerms::has(Slice term) const {
  const auto at = std::lower_bound(
      terms_.begin(), terms_.end(), term,
      [](const std::string &known, Slice sought) { return compare_bytes(slice_of(known), sought) < 0; });
  return at != terms_.end() && same_bytes(slice_of(*at), term);
}

}  // namespace tidesdb
