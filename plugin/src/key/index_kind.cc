#include "key/index_kind.h"

#include "key/key_codec.h"

namespace tidesdb {

std::unique_ptr<IndexKind> IndexKind::make(TABLE *table, uint index, const KeyCodec *primary) {
  return KeyCodec::make(table, index, primary);
}

}  // namespace tidesdb
