#include "store/handles.h"

#include <cstring>

namespace tidesdb {

int family_record(const tidesdb_family *family, std::vector<uint8_t> *record) {
  size_t needed = 0;
  int status = tidesdb_family_record(family, nullptr, 0, &needed);
  while (status == TIDESDB_OK) {
    record->resize(needed);
    status = tidesdb_family_record(family, record->data(), record->size(), &needed);
    if (needed <= record->size()) {
      record->resize(needed);
      break;
    }
  }
  return status;
}

tidesdb_family_stats stats_of(tidesdb_family *family) {
  tidesdb_family_stats stats;
  memset(&stats, 0, sizeof(stats));
  stats.struct_size = sizeof(stats);
  if (tidesdb_family_get_stats(family, &stats) != TIDESDB_OK) memset(&stats, 0, sizeof(stats));
  return stats;
}

uint64_t expiry_second(tidesdb_db *db) {
  uint64_t lag = 0;
  if (tidesdb_expiry_clock_lag(db, &lag) != TIDESDB_OK) lag = 0;
  return static_cast<uint64_t>(time(nullptr)) + lag;
}

static int remember_name(void *context, tidesdb_slice name) {
  static_cast<std::vector<std::string> *>(context)->emplace_back(reinterpret_cast<const char *>(name.data),
                                                                 name.size);
  return 0;
}

int list_families(tidesdb_db *db, const std::string &prefix, std::vector<std::string> *names) {
  return tidesdb_family_list(db, slice_of(prefix), remember_name, names);
}

}  // namespace tidesdb
