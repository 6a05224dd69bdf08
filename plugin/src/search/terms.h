/*
  Terms: words as the entries of an index have them. Words are one term exactly if the collation finds them
  equal.

  A term is the word's weights, level by level, each as escaped bytes (key/units.h): no term is the first part
  of another. The entry's key is the term and the row's key.
*/
#ifndef TIDESDB_SEARCH_TERMS_H
#define TIDESDB_SEARCH_TERMS_H

#include "key/bytes.h"
#include "key/sql_headers.h"

namespace tidesdb {

class TermCodec {
 public:
  explicit TermCodec(CHARSET_INFO *charset);

  /* Appends the term of a word. False: the word has no weight, and is in no index; nothing was appended. */
  bool append(Slice word, ByteBuffer *out) const;
  /* Appends the first bytes of the terms of all words that begin as this one in the collation's first level.
   */
  bool append_prefix(Slice word, ByteBuffer *out) const;
  /* Of a term that begins with these bytes: whether it does in the other levels, too, where `whole` is the
     term of the prefix as a word. */
  bool begins_with(Slice term, Slice whole) const;

  /* Cuts an entry's key into the term and the row's key. False: damaged. */
  bool split(Slice key, Slice *term, Slice *row_key) const;

 private:
  /* How the Czech collations of the 1990s, which know no flags, write all of their levels at once. */
  enum class Old : uchar { NONE, SEPARATED, HALVES };

  size_t write_level(Slice word, uint level) const;
  bool begins_with_old(Slice term, Slice whole) const;

  CHARSET_INFO *charset_;
  uint levels_; /* those that decide, as bits; 1: the collation's weights as a whole */
  Old old_;
  mutable ByteBuffer weights_;
};

}  // namespace tidesdb
#endif
