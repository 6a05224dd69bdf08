#include "names_without_effect.h"

#include <atomic>
#include <cstdio>
#include <iterator>

#include "log.h"
#include "sql_class.h"

namespace tidesdb {
namespace sysvars {

namespace {

const char *const names_without_effect[] = {
    "unified_memtable",
    "unified_memtable_skip_list_max_level",
    "unified_memtable_skip_list_probability",
    "s3_multipart_threshold",
    "s3_multipart_part_size",
    "objstore_local_cache_max",
    "objstore_max_concurrent_uploads",
    "objstore_max_concurrent_downloads",
    "compact_after_range_delete_min_rows",
    "default_write_buffer_size",
    "default_block_indexes",
    "default_dividing_level_offset",
    "default_skip_list_max_level",
    "default_skip_list_probability",
    "default_index_sample_ratio",
    "default_block_index_prefix_len",
    "flush_threads",
    "max_concurrent_flushes",
};
static_assert(std::size(names_without_effect) == NAMES_WITHOUT_EFFECT);

}  // namespace

std::string text_of(ulonglong value) { return std::to_string(value); }
std::string text_of(ulong value) { return std::to_string(value); }
std::string text_of(my_bool value) { return value ? "ON" : "OFF"; }
std::string text_of(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%g", value);
  return text;
}

void log_without_effect(NameWithoutEffect name, const std::string &value) {
  static std::atomic<bool> logged[NAMES_WITHOUT_EFFECT];
  if (logged[name].exchange(true)) return;
  sql_print_information("TidesDB: tidesdb_%s=%s has no effect in this design", names_without_effect[name],
                        value.c_str());
}

void push_note_without_effect(THD *thd, NameWithoutEffect name) {
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR,
                      "TidesDB: tidesdb_%s has no effect", names_without_effect[name]);
}

}  // namespace sysvars
}  // namespace tidesdb
