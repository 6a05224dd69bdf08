#include "ddl/index_kinds.h"

#include "search/full_text_kind.h"
#include "server.h"

namespace tidesdb {

std::unique_ptr<IndexKind> make_index_kind(TABLE *table, uint index, const KeyCodec *primary,
                                           const IndexRecord &record) {
  if (is_full_text(table->key_info[index]))
    return std::unique_ptr<IndexKind>(new (std::nothrow) FullTextKind(table, index, record.full_text));
  return KeyCodec::make(table, index, primary);
}

}  // namespace tidesdb
