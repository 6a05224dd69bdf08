/*
  How many rows a value of an index has, from a sample of its entries.

  Entries are read in stretches at places that are evenly apart (tidesdb_key_at). Where the first n columns of
  neighbours differ a value ends, and of the index's rows as many values end as the sample's neighbours say:
  the same for values of one row and of a million. Stretches that lie apart count one value more where they
  differ, so that few values with many rows each are counted, too (cf. Haas et al., Sampling-based estimation
  of the number of distinct values, VLDB 1995, for what a sample of rows alone could say).
*/
#ifndef TIDESDB_HANDLER_INDEX_SAMPLE_H
#define TIDESDB_HANDLER_INDEX_SAMPLE_H

#include <vector>

#include "key/key_codec.h"
#include "key/sql_headers.h"
#include "store/handles.h"

namespace tidesdb {

/* Entries that are read, in so many places; an index with fewer is read as a whole. */
struct SampleSize {
  uint64_t entries;
  uint places;
};

/* What ANALYZE reads of an index, and SHOW INDEX where the last sample was smaller. */
constexpr SampleSize LARGE_SAMPLE{20000, 100};

struct SampledIndex {
  tidesdb_family *family;
  /* The columns of an entry: those of the index, then, unless null, those of the primary key. */
  const std::vector<KeyPart> *parts;
  const std::vector<KeyPart> *behind;
  /* How many of them the server counts (KEY::ext_key_parts). */
  uint columns;
};

/*
  Appends for each number of leading columns the rows of a value, in hundredths; `rows` is how many the table
  has. Status of the engine; TIDESDB_INTERRUPTED: `thd` was killed.
*/
int sample_index(const SampledIndex &index, tidesdb_txn *txn, uint64_t rows, const SampleSize &size,
                 const THD *thd, std::vector<uint64_t> *rows_of_a_value);

}  // namespace tidesdb
#endif
