/*
  Transaction identifiers as the engine keeps them: format id (8 bytes, little-endian), length of the
  global part, length of the branch (1 byte each), and their bytes. At most 138 bytes.
*/
#ifndef TIDESDB_TXN_XID_H
#define TIDESDB_TXN_XID_H

#include "key/sql_headers.h"
#include "tidesdb.h"

namespace tidesdb {

constexpr size_t MAX_ENCODED_XID = 8 + 2 + XIDDATASIZE;
static_assert(MAX_ENCODED_XID <= 140, "the engine's bound");

struct EncodedXid {
  uchar bytes[MAX_ENCODED_XID];
  size_t size;
};

void encode_xid(const XID &xid, EncodedXid *encoded);
/* The identifier of the connection's transaction, as the server's coordinator or XA START set it. */
void encode_session_xid(THD *thd, EncodedXid *encoded);
/* false: not made by encode_xid. */
bool decode_xid(tidesdb_slice bytes, XID *xid);

}  // namespace tidesdb
#endif
