/*
  The words of a text: maximal runs of letters, digits, marks and `_`, as InnoDB cuts them. A character of the
  settings' `blend` joins the words on its sides: "e-mail" is "e-mail", and "e" and "mail" as well.

  Each word has a position. All count, also those that no index has, so that phrases keep their distances.

  For an index of ngrams the words of a run are all its parts of so many characters, which overlap. Their
  positions count characters, and one between runs: no ngram stands next to one of another run.
*/
#ifndef TIDESDB_SEARCH_WORDS_H
#define TIDESDB_SEARCH_WORDS_H

#include <vector>

#include "key/bytes.h"
#include "key/sql_headers.h"
#include "search/settings.h"

namespace tidesdb {

class WordRules {
 public:
  WordRules(CHARSET_INFO *charset, const FullTextSettings &settings);

  struct Word {
    Slice text;
    size_t characters;
    uint32_t position;
  };

  /* Calls take(word) for each word, of any length. Those of a blended word come before it. Returns the
     position after the last one. */
  template <class Take>
  uint32_t for_each(Slice text, uint32_t position, Take take) const {
    return ngram_ != 0 ? for_each_ngram(text, position, take) : for_each_word(text, position, take);
  }

  /* Calls take(run, characters) for each maximal run of characters of words. */
  template <class Take>
  void for_each_run(Slice text, Take take) const {
    const uchar *at = text.data, *const end = text.data + text.size;
    while (at < end) {
      const uchar *const begin = at;
      size_t characters = 0, size = 1;
      for (; at < end && kind_of(at, end, &size) == Kind::WORD; at += size) characters++;
      if (characters != 0)
        take(Slice{begin, static_cast<size_t>(at - begin)}, characters);
      else
        at += size;
    }
  }

  /* Characters of an ngram; 0: the index has words. */
  size_t ngram() const { return ngram_; }

  /* Whether a word of so many characters may be in the index. */
  bool has_length(size_t characters) const {
    return characters >= least_characters_ && characters <= most_characters_;
  }

  enum class Kind : uchar { OTHER, BLEND, WORD };
  /* Of the character at `at`; *size: its bytes. Bytes that are no character are OTHER. */
  Kind kind_of(const uchar *at, const uchar *end, size_t *size) const {
    if (*at >= known_) return look_up(at, end, size);
    *size = 1;
    return kinds_[*at];
  }

 private:
  template <class Take>
  uint32_t for_each_word(Slice text, uint32_t position, Take take) const {
    const uchar *at = text.data, *const end = text.data + text.size;
    while (at < end) {
      size_t size;
      if (kind_of(at, end, &size) != Kind::WORD) {
        at += size;
        continue;
      }
      const uint32_t first_position = position;
      const uchar *const begin = at, *part = at, *last = at;
      size_t characters = 0, of_part = 0, of_last = 0;
      for (; at < end; at += size) {
        const Kind kind = kind_of(at, end, &size);
        if (kind == Kind::OTHER) break;
        characters++;
        if (kind == Kind::WORD) {
          of_part++;
          last = at + size;
          of_last = characters;
          continue;
        }
        if (of_part != 0) take(Word{{part, static_cast<size_t>(at - part)}, of_part, position++});
        of_part = 0;
        part = at + size;
      }
      if (of_part != 0) take(Word{{part, static_cast<size_t>(at - part)}, of_part, position++});
      if (position - first_position > 1)
        take(Word{{begin, static_cast<size_t>(last - begin)}, of_last, first_position});
    }
    return position;
  }

  template <class Take>
  uint32_t for_each_ngram(Slice text, uint32_t position, Take take) const {
    const uchar *begins[MOST_NGRAM]; /* of the last characters */
    const uchar *const end = text.data + text.size;
    size_t characters = 0, size;
    for (const uchar *at = text.data; at < end; at += size) {
      if (kind_of(at, end, &size) != Kind::WORD) {
        position += characters != 0;
        characters = 0;
        continue;
      }
      begins[characters % ngram_] = at;
      characters++;
      position++;
      if (characters < ngram_) continue;
      const uchar *const begin = begins[characters % ngram_];
      take(Word{
          {begin, static_cast<size_t>(at + size - begin)}, ngram_, position - static_cast<uint32_t>(ngram_)});
    }
    return position + (characters != 0);
  }

  Kind look_up(const uchar *at, const uchar *end, size_t *size) const;

  CHARSET_INFO *charset_;
  size_t least_characters_, most_characters_, ngram_;
  std::vector<my_wc_t> blend_;
  uchar known_ = 0; /* bytes below this are characters of a known kind */
  Kind kinds_[0x80];
};

}  // namespace tidesdb
#endif
