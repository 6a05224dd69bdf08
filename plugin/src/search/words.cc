#include "search/words.h"

#include <algorithm>
#include <iterator>

namespace tidesdb {

WordRules::WordRules(CHARSET_INFO *charset, const FullTextSettings &settings)
    : charset_(charset),
      least_characters_(settings.least_characters),
      most_characters_(settings.most_characters),
      ngram_(settings.cuts_ngrams() ? settings.least_characters : 0) {
  CHARSET_INFO *utf8 = &my_charset_utf8mb4_bin;
  const uchar *at = reinterpret_cast<const uchar *>(settings.blend.data());
  const uchar *const end = at + settings.blend.size();
  while (at < end) {
    my_wc_t character;
    const int size = utf8->cset->mb_wc(utf8, &character, at, end);
    if (size <= 0) break;
    blend_.push_back(character);
    at += size;
  }
  if (charset->mbminlen > 1 || charset->state & MY_CS_NONASCII) return;
  for (uchar byte = 0; byte < std::size(kinds_); byte++) {
    size_t size;
    kinds_[byte] = look_up(&byte, &byte + 1, &size);
  }
  known_ = std::size(kinds_);
}

WordRules::Kind WordRules::look_up(const uchar *at, const uchar *end, size_t *size) const {
  int type = 0;
  const int bytes = charset_->cset->ctype(charset_, &type, at, end);
  *size = bytes > 0   ? static_cast<size_t>(bytes)
          : bytes < 0 ? std::min<size_t>(static_cast<size_t>(-bytes), static_cast<size_t>(end - at))
                      : 1;
  if (bytes > 0 && (type & (_MY_U | _MY_L | _MY_NMR) || *at == '_')) return Kind::WORD;
  if (bytes <= 0 || blend_.empty()) return Kind::OTHER;
  my_wc_t character;
  if (charset_->cset->mb_wc(charset_, &character, at, end) <= 0) return Kind::OTHER;
  return std::find(blend_.begin(), blend_.end(), character) != blend_.end() ? Kind::BLEND : Kind::OTHER;
}

}  // namespace tidesdb
