#include "foreign/constraint.h"

#include <algorithm>

namespace tidesdb {

bool Constraint::has_null(const uchar *record) const {
  for (const KeyPart &part : own)
    if (part.is_null(record)) return true;
  return false;
}

bool part_differs(const KeyPart &part, const uchar *a, const uchar *b) {
  const bool null = part.is_null(a);
  if (null != part.is_null(b)) return true;
  return !null && !same_bytes(record_value(part, a), record_value(part, b));
}

bool Constraint::differs(const uchar *a, const uchar *b) const {
  return std::any_of(own.begin(), own.end(), [&](const KeyPart &part) { return part_differs(part, a, b); });
}

}  // namespace tidesdb
