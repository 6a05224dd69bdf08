#include "search/stopwords.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "sql_string.h"

namespace tidesdb {

namespace {

constexpr const char *innodb_words[] = {
    "a",    "about", "an",  "are",  "as",   "at",    "be",  "by",   "com",  "de",  "en",   "for",
    "from", "how",   "i",   "in",   "is",   "it",    "la",  "of",   "on",   "or",  "that", "the",
    "this", "to",    "was", "what", "when", "where", "who", "will", "with", "und", "the",  "www",
};

}  // namespace

size_t number_of_stopwords(const FullTextSettings &settings) {
  switch (settings.stopwords) {
    case Stopwords::INNODB:
      return array_elements(innodb_words);
    case Stopwords::OWN:
      return static_cast<size_t>(
          std::count(settings.stopword_list.begin(), settings.stopword_list.end(), '\0'));
    default:
      return 0;
  }
}

StopwordTerms::StopwordTerms(const FullTextSettings &settings, CHARSET_INFO *charset,
                             const TermCodec &codec) {
  if (settings.stopwords == Stopwords::INNODB)
    for (const char *word : innodb_words) add({reinterpret_cast<const uchar *>(word), strlen(word)}, codec);
  if (settings.stopwords == Stopwords::OWN)
    for (size_t at = 0, end; (end = settings.stopword_list.find('\0', at)) != std::string::npos;
         at = end + 1) {
      /* No word of the index is equal to one that its character set does not have. */
      String word;
      uint errors = 0;
      if (word.copy(settings.stopword_list.data() + at, end - at, &my_charset_utf8mb4_bin, charset,
                    &errors) ||
          errors != 0)
        continue;
      add({reinterpret_cast<const uchar *>(word.ptr()), word.length()}, codec);
    }
  std::sort(terms_.begin(), terms_.end());
}

void StopwordTerms::add(Slice word, const TermCodec &codec) {
  ByteBuffer term;
  if (codec.append(word, &term)) terms_.push_back(string_of(term.slice()));
}

IndexWords::IndexWords(const FullTextSettings &of, CHARSET_INFO *charset)
    : settings(of), stopwords(of, charset, TermCodec(charset)) {}

std::shared_ptr<const IndexWords> IndexWords::of(const FullTextSettings &settings, CHARSET_INFO *charset) {
  static std::mutex mutex;
  static std::multimap<const CHARSET_INFO *, std::weak_ptr<const IndexWords>> all;
  std::lock_guard<std::mutex> guard(mutex);
  for (auto [at, end] = all.equal_range(charset); at != end;) {
    const std::shared_ptr<const IndexWords> known = at->second.lock();
    if (known && known->settings == settings) return known;
    at = known ? std::next(at) : all.erase(at);
  }
  auto made = std::make_shared<const IndexWords>(settings, charset);
  all.emplace(charset, made);
  return made;
}

bool StopwordTerms::has(Slice term) const {
  const auto at = std::lower_bound(
      terms_.begin(), terms_.end(), term,
      [](const std::string &known, Slice sought) { return compare_bytes(slice_of(known), sought) < 0; });
  return at != terms_.end() && same_bytes(slice_of(*at), term);
}

}  // namespace tidesdb
