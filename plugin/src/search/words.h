/*
  The words of a text: maximal runs of letters, digits, marks and `_`, as InnoDB cuts them. A character of the
  settings' `blend` joins the words on its sides: "e-mail" is "e-mail", and "e" and "mail" as well.

  Each word has a position. All count, also those that no index has, so that phrases keep their distances.
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
  Kind look_up(const uchar *at, const uchar *end, size_t *size) const;

  CHARSET_INFO *charset_;
  size_t least_characters_, most_characters_;
  std::vector<my_wc_t> blend_;
  uchar known_ = 0; /* bytes below this are characters of a known kind */
  Kind kinds_[0x80];
};

}  // namespace tidesdb
#endif
