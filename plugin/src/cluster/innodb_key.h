/*
  Bytes of certification keys as InnoDB makes them.

  Galera certifies by comparing bytes. Nodes that have a table in InnoDB and nodes that have it here certify
  against each other, so the bytes are InnoDB's in each detail, its oddities included.

  A key is the number of an index and bytes of its columns. InnoDB makes these bytes in two ways:
  - from a record of the server, of a row that a statement changes: row_key();
  - from a row as it stands in an index, of a parent that a row refers to, and of a row that an action of a
    foreign key changes: stored_key().
  Both agree for columns that are NOT NULL, but for some texts and where the index is not the primary key and
  the primary key has several columns.
*/
#ifndef TIDESDB_CLUSTER_INNODB_KEY_H
#define TIDESDB_CLUSTER_INNODB_KEY_H

#include "key/bytes.h"
#include "key/sql_headers.h"

namespace tidesdb::cluster {

class InnodbKey {
 public:
  /* Bytes after the number of the index. */
  static constexpr size_t LONGEST = 3500;

  /* Of the row in `record`, whose indexed virtual columns are set. */
  void row_key(const TABLE &table, uint index, const uchar *record);
  /* Of the row in `record`. MAX_KEY: the rows of a table without a primary key. */
  void stored_key(const TABLE &table, uint index, const uchar *record);

  /* Whether all parts of the row_key() are NULL. */
  bool is_null() const { return is_null_; }
  Slice slice() const { return {bytes_, 1 + size_}; }

 private:
  size_t room() const { return LONGEST - size_; }
  uchar *end() { return bytes_ + 1 + size_; }
  void append(const uchar *bytes, size_t count);
  void append_zeros(size_t count);
  void append_weights(CHARSET_INFO *charset, Slice text, size_t bound);
  void append_row_part(const KEY_PART_INFO &part, const TABLE &table, const uchar *record);
  void append_stored(const TABLE &table, const Field *field, uint prefix, const uchar *record);

  bool is_null_ = true;
  size_t size_ = 0;
  uchar bytes_[1 + LONGEST];
};

/* The position of an index among InnoDB's, which begin with the primary key. */
uint innodb_index_number(const TABLE &table, uint index);

constexpr size_t ROW_DIGEST_SIZE = 16;

/* The key of a row without a unique key: a digest of its stored columns. */
void digest_row(const TABLE &table, const uchar *record, uchar *digest);

}  // namespace tidesdb::cluster
#endif
