/*
  Which kind an index has (key/index_kind.h), by the server's definition and the table's record.
*/
#ifndef TIDESDB_DDL_INDEX_KINDS_H
#define TIDESDB_DDL_INDEX_KINDS_H

#include <memory>

#include "ddl/table_record.h"
#include "key/index_kind.h"
#include "key/key_codec.h"

namespace tidesdb {

/* Of a secondary index of an open table. `primary`: as of KeyCodec::make(). nullptr when memory is short. */
std::unique_ptr<IndexKind> make_index_kind(TABLE *table, uint index, const KeyCodec *primary,
                                           const IndexRecord &record);

}  // namespace tidesdb
#endif
