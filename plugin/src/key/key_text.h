/*
  Keys as people read them: `id=3, name='apple'`.

  A KeyText is made of an open table and stands without it: reports name keys of tables that other
  connections use. Values that a key does not hold are shown by what it holds: text of a collation that
  ignores case and accents by its plain letters, of types without a reading here in hexadecimal (X'...').
*/
#ifndef TIDESDB_KEY_KEY_TEXT_H
#define TIDESDB_KEY_KEY_TEXT_H

#include <string>
#include <vector>

#include "key/key_part.h"

namespace tidesdb {

class KeyText {
 public:
  /* Of an index, by the server's number; MAX_KEY: of the rows of a table without a primary key. */
  static KeyText make(const TABLE *table, uint index);

  /* `is_cut`: these are the first bytes of a longer key. Any bytes give a text: bounds of ranges are keys
     that no row has. */
  std::string text(Slice key, bool is_cut) const;

 private:
  struct Part {
    std::string column;
    KeyPart key; /* without its field */
    enum_field_types type;
    uint decimals;
    uint precision;
    bool is_unsigned;
  };

  void add(const TABLE *table, const KEY &key);
  static bool append_fixed(const Part &part, const uchar **at, const uchar *end, std::string *out);
  static bool append_string(const Part &part, const uchar **at, const uchar *end, std::string *out);

  std::vector<Part> parts_; /* empty: a hidden row number */
  bool terms_ = false;      /* words by their weights, which have no reading */
};

/* X'...' */
void append_hex_literal(Slice bytes, std::string *out);

}  // namespace tidesdb
#endif
