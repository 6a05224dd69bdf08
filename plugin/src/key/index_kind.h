/*
  Kinds of secondary indexes: which entries a row has in one.

  Everything that writes, builds, compares or checks an index asks its kind for a row's entries, and takes any
  number of them. The entries are the engine's: a kind decides their keys and values, and nothing of how they
  are locked, kept for snapshots, counted or expired.

  KeyCodec is the kind of indexes in the order of their columns, with one entry a row. FullTextKind has one
  for each word (search/full_text_kind.h). ddl/index_kinds.h makes that of an index.
*/
#ifndef TIDESDB_KEY_INDEX_KIND_H
#define TIDESDB_KEY_INDEX_KIND_H

#include <memory>

#include "key/entry_set.h"
#include "key/sql_headers.h"

namespace tidesdb {

class FullTextKind;
class KeyCodec;

class IndexKind {
 public:
  virtual ~IndexKind() = default;

  /* Sets `entries` to those of the row in `record`, in the order of their keys. The record has the values of
     the index's virtual columns. `primary_key`: the row's key in the primary family. */
  void entries(const uchar *record, Slice primary_key, EntrySet *entries) const {
    entries->clear();
    add_entries(record, primary_key, entries);
    entries->sort();
  }
  /* Whether some entry may be one whose key no other row has (EntrySet::Entry::decides). */
  virtual bool is_unique() const = 0;
  /* The key in the primary family of the row an entry belongs to; points into key or value. False: damaged
     bytes. */
  virtual bool primary_key(Slice key, Slice value, Slice *primary_key) const = 0;
  /* How the server's search keys find entries; nullptr: these are not in the order of the columns. */
  virtual const KeyCodec *columns() const { return nullptr; }
  /* How searches for words find entries; nullptr: these are not those of words. */
  virtual const FullTextKind *full_text() const { return nullptr; }

 protected:
  IndexKind() = default;
  /* Adds the row's entries, no two of them with one key. */
  virtual void add_entries(const uchar *record, Slice primary_key, EntrySet *entries) const = 0;
};

}  // namespace tidesdb
#endif
