/*
  The kind of a FULLTEXT index: an entry for each different word of the row's columns (search/posting.h).
*/
#ifndef TIDESDB_SEARCH_FULL_TEXT_KIND_H
#define TIDESDB_SEARCH_FULL_TEXT_KIND_H

#include <vector>

#include "key/index_kind.h"
#include "search/settings.h"
#include "search/stopwords.h"
#include "search/term_cache.h"
#include "search/terms.h"
#include "search/words.h"

namespace tidesdb {

class FullTextKind final : public IndexKind {
 public:
  FullTextKind(TABLE *table, uint index, const FullTextSettings &settings);

  bool is_unique() const override { return false; }
  bool primary_key(Slice key, Slice value, Slice *primary_key) const override;
  const FullTextKind *full_text() const override { return this; }
  /* Between statements: gives back memory that a long one has made use of. */
  void release() const;

  CHARSET_INFO *charset() const { return charset_; }
  const FullTextSettings &settings() const { return words_->settings; }
  const WordRules &rules() const { return rules_; }
  const TermCodec &terms() const { return codec_; }
  /* Appends the term of a word. False: the word is in no index; nothing was appended. */
  bool append_term(const WordRules::Word &word, ByteBuffer *to) const {
    return rules_.has_length(word.characters) && append_kept(word.text, to);
  }
  /* The same of a word whose length fits. */
  bool append_kept(Slice word, ByteBuffer *to) const;
  /* Calls take(word, position) for each word of the row whose length fits. */
  template <class Take>
  void for_each_word(const uchar *record, Take take) const;

 private:
  void add_entries(const uchar *record, Slice primary_key, EntrySet *entries) const override;
  bool has_stopword(Slice ngram) const;
  /* False: the row has none there. */
  bool read_text(Field *column, const uchar *record, String *buffer, Slice *text) const;

  /* Between the words of two columns: no phrase goes from one into the next. */
  static constexpr uint32_t COLUMN_GAP = 1 << 16;

  struct Occurrence {
    uint64_t head; /* of the term: its first bytes, in the order of terms */
    size_t begin;  /* of the term, in bytes_ */
    uint32_t size;
    uint32_t position;
  };

  TABLE *table_;
  std::vector<Field *> columns_;
  CHARSET_INFO *charset_;
  WordRules rules_;
  TermCodec codec_;
  std::shared_ptr<const IndexWords> words_;
  mutable TermCache cache_;
  mutable ByteBuffer part_;  /* term of a part of an ngram */
  mutable ByteBuffer bytes_; /* terms of the row's words */
  mutable std::vector<Occurrence> occurrences_;
};

template <class Take>
void FullTextKind::for_each_word(const uchar *record, Take take) const {
  uint32_t position = 0;
  for (Field *column : columns_) {
    String buffer;
    Slice text;
    if (read_text(column, record, &buffer, &text))
      position = rules_.for_each(text, position, [&](const WordRules::Word &word) {
        if (rules_.has_length(word.characters)) take(word.text, word.position);
      });
    position += COLUMN_GAP;
  }
}

}  // namespace tidesdb
#endif
