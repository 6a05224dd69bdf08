#include "txn/xid.h"

#include <mysql/plugin.h>

namespace tidesdb {

void encode_xid(const XID &xid, EncodedXid *encoded) {
  const size_t data_size = static_cast<size_t>(xid.gtrid_length + xid.bqual_length);
  int8store(encoded->bytes, static_cast<ulonglong>(xid.formatID));
  encoded->bytes[8] = static_cast<uchar>(xid.gtrid_length);
  encoded->bytes[9] = static_cast<uchar>(xid.bqual_length);
  memcpy(encoded->bytes + 10, xid.data, data_size);
  encoded->size = 10 + data_size;
}

void encode_session_xid(THD *thd, EncodedXid *encoded) {
  XID xid;
  xid.null();
  thd_get_xid(thd, reinterpret_cast<MYSQL_XID *>(&xid));
  encode_xid(xid, encoded);
}

bool decode_xid(tidesdb_slice bytes, XID *xid) {
  if (bytes.size < 10) return false;
  const size_t gtrid = bytes.data[8], bqual = bytes.data[9];
  if (gtrid > MAXGTRIDSIZE || bqual > MAXBQUALSIZE || bytes.size != 10 + gtrid + bqual) return false;
  xid->set(static_cast<long>(uint8korr(bytes.data)), reinterpret_cast<const char *>(bytes.data + 10),
           static_cast<long>(gtrid), reinterpret_cast<const char *>(bytes.data + 10 + gtrid),
           static_cast<long>(bqual));
  return true;
}

}  // namespace tidesdb
