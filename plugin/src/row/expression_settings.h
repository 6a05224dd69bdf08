/*
  The settings of a session under which an index over virtual columns has its entries: those of the session
  that made the index. They stand beside the index in the table's record (ddl/table_record.h), so that every
  session computes the same entry for the same row, whatever its own settings are.

  A session whose own settings differ, in what the expression needs, would compute other values than stand in
  the entries. The optimizer does not get the index there (handler/virtual_indexes.cc).
*/
#ifndef TIDESDB_ROW_EXPRESSION_SETTINGS_H
#define TIDESDB_ROW_EXPRESSION_SETTINGS_H

#include <cstdint>
#include <string>

#include "key/sql_headers.h"
#include "row/expression_needs.h"
#include "server.h"

class Time_zone;

namespace tidesdb {

struct ExpressionSettings {
  std::string zone;        /* name of the time zone */
  uint64_t zone_rules = 0; /* hash of its offsets: SYSTEM may be another zone tomorrow */
  uint64_t sql_mode = 0;   /* the bits that matter to values; so old_mode */
  uint64_t old_mode = 0;
  uint64_t regex_flags = 0;
  uint32_t division = 0;  /* div_precision_increment */
  uint64_t packet = 0;    /* max_allowed_packet */
  int64_t moment = 0;     /* in seconds: its day is the current one */
  uint32_t day = 0;       /* of that moment in that zone, as the number YYYYMMDD */
  std::string collations; /* character_set_collations */

  /* Of the session, as far as `needs` says. */
  static ExpressionSettings of(THD *thd, uint32_t needs = NEEDS_ALL);
  /* The name of the first setting that differs in what `needs` says; nullptr: none does. */
  const char *difference(const ExpressionSettings &other, uint32_t needs) const;
  /* Whether one open table can compute with both. */
  bool is_same(const ExpressionSettings &other, uint32_t needs) const;
};

/* A hash of the offsets of a zone from 1970 to 2106. Computed once for each zone. */
uint64_t rules_of(const Time_zone *zone);

/* For the length of a scope the session has these settings, and nobody hears what its expressions say. */
class SettingsScope : public Internal_error_handler {
 public:
  /* `collations` are those of the settings; they come back as they were. */
  SettingsScope(THD *thd, const ExpressionSettings &settings, Time_zone *zone, CharsetCollations *collations);
  ~SettingsScope() override;
  SettingsScope(const SettingsScope &) = delete;
  SettingsScope &operator=(const SettingsScope &) = delete;

  bool handle_condition(THD *, uint, const char *, Sql_condition::enum_warning_level *, const char *,
                        Sql_condition **condition) override {
    *condition = nullptr;
    return true;
  }

 private:
  THD *thd_;
  CharsetCollations *collations_;
  Time_zone *zone_;
  sql_mode_t sql_mode_, old_mode_;
  ulonglong regex_flags_;
  ulong division_, packet_;
  my_time_t start_time_;
  ulong start_fraction_;
  enum_check_fields counted_;
  bool aborts_;
};

}  // namespace tidesdb
#endif
