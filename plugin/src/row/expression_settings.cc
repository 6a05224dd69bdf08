#include "row/expression_settings.h"

#include <map>
#include <mutex>

#include "sql_class.h"
#include "tztime.h"

#include "key/hash.h"

namespace tidesdb {

namespace {

constexpr sql_mode_t DATE_MODES =
    MODE_NO_ZERO_DATE | MODE_NO_ZERO_IN_DATE | MODE_INVALID_DATES | MODE_TIME_ROUND_FRACTIONAL;
constexpr sql_mode_t STRICT_MODES = MODE_STRICT_TRANS_TABLES | MODE_STRICT_ALL_TABLES;
constexpr sql_mode_t VALUE_MODES =
    DATE_MODES | STRICT_MODES | MODE_PAD_CHAR_TO_FULL_LENGTH | MODE_NO_UNSIGNED_SUBTRACTION;
constexpr sql_mode_t VALUE_OLD_MODES = OLD_MODE_ZERO_DATE_TIME_CAST;

std::string name_of(const Time_zone *zone) {
  const String *name = zone->get_name();
  return std::string(name->ptr(), name->length());
}

uint32_t day_of(const Time_zone *zone, my_time_t moment) {
  MYSQL_TIME time;
  zone->gmt_sec_to_TIME(&time, moment);
  return time.year * 10000 + time.month * 100 + time.day;
}

}  // namespace

uint64_t rules_of(const Time_zone *zone) {
  static std::mutex mutex;
  static std::map<std::string, uint64_t> known;
  const std::string name = name_of(zone);
  const std::lock_guard<std::mutex> guard(mutex);
  const auto before = known.find(name);
  if (before != known.end()) return before->second;
  /* No rule of a zone lasts shorter. */
  constexpr my_time_t STEP = 9 * 24 * 3600, END = UINT_MAX32;
  uint64_t hash = 0;
  for (my_time_t moment = 1; moment < END; moment += STEP) {
    MYSQL_TIME time;
    zone->gmt_sec_to_TIME(&time, moment);
    hash = mix_hash(hash ^ TIME_to_ulonglong_datetime(&time));
  }
  return known[name] = hash;
}

ExpressionSettings ExpressionSettings::of(THD *thd, uint32_t needs) {
  const system_variables &variables = thd->variables;
  ExpressionSettings settings;
  if (needs & (NEEDS_ZONE | NEEDS_DAY)) {
    settings.zone = name_of(variables.time_zone);
    settings.zone_rules = rules_of(variables.time_zone);
  }
  if (needs & NEEDS_DAY) {
    settings.moment = static_cast<int64_t>(thd->query_start());
    settings.day = day_of(variables.time_zone, thd->query_start());
  }
  settings.sql_mode = variables.sql_mode & VALUE_MODES;
  settings.old_mode = variables.old_behavior & VALUE_OLD_MODES;
  settings.regex_flags = variables.default_regex_flags;
  settings.division = static_cast<uint32_t>(variables.div_precincrement);
  settings.packet = variables.max_allowed_packet;
  if (needs & NEEDS_COLLATIONS) settings.collations = CharsetCollations::text_of(thd);
  return settings;
}

const char *ExpressionSettings::difference(const ExpressionSettings &other, uint32_t needs) const {
  const uint64_t modes = sql_mode ^ other.sql_mode;
  if ((needs & NEEDS_ZONE) && zone_rules != other.zone_rules) return "time_zone";
  if ((needs & NEEDS_DAY) && day != other.day) return "the current day";
  if ((needs & NEEDS_DATE_MODES) && (modes & DATE_MODES)) return "sql_mode";
  if ((needs & NEEDS_DATE_MODES) && old_mode != other.old_mode) return "old_mode";
  if ((needs & NEEDS_PADDING) && (modes & MODE_PAD_CHAR_TO_FULL_LENGTH)) return "sql_mode";
  if ((needs & NEEDS_SUBTRACTION) && (modes & MODE_NO_UNSIGNED_SUBTRACTION)) return "sql_mode";
  if ((needs & NEEDS_STRICTNESS) && !(sql_mode & STRICT_MODES) != !(other.sql_mode & STRICT_MODES))
    return "sql_mode";
  if ((needs & NEEDS_DIVISION) && division != other.division) return "div_precision_increment";
  if ((needs & NEEDS_PATTERNS) && regex_flags != other.regex_flags) return "default_regex_flags";
  if ((needs & NEEDS_COLLATIONS) && collations != other.collations) return "character_set_collations";
  if ((needs & NEEDS_PACKET) && packet != other.packet) return "max_allowed_packet";
  return nullptr;
}

bool ExpressionSettings::is_same(const ExpressionSettings &other, uint32_t needs) const {
  return zone == other.zone && zone_rules == other.zone_rules && sql_mode == other.sql_mode &&
         old_mode == other.old_mode && regex_flags == other.regex_flags && division == other.division &&
         packet == other.packet && collations == other.collations &&
         (!(needs & NEEDS_DAY) || moment == other.moment);
}

SettingsScope::SettingsScope(THD *thd, const ExpressionSettings &settings, Time_zone *zone,
                             CharsetCollations *collations)
    : thd_(thd),
      collations_(collations),
      zone_(thd->variables.time_zone),
      sql_mode_(thd->variables.sql_mode),
      old_mode_(thd->variables.old_behavior),
      regex_flags_(thd->variables.default_regex_flags),
      division_(thd->variables.div_precincrement),
      packet_(thd->variables.max_allowed_packet),
      start_time_(thd->start_time),
      start_fraction_(thd->start_time_sec_part),
      counted_(thd->count_cuted_fields),
      aborts_(thd->abort_on_warning) {
  system_variables &variables = thd->variables;
  variables.time_zone = zone;
  variables.sql_mode = (variables.sql_mode & ~VALUE_MODES) | settings.sql_mode;
  variables.old_behavior = (variables.old_behavior & ~VALUE_OLD_MODES) | settings.old_mode;
  variables.default_regex_flags = settings.regex_flags;
  variables.div_precincrement = settings.division;
  variables.max_allowed_packet = static_cast<ulong>(settings.packet);
  collations_->exchange(thd);
  if (settings.moment != 0) {
    thd->start_time = static_cast<my_time_t>(settings.moment);
    thd->start_time_sec_part = 0;
  }
  thd->count_cuted_fields = CHECK_FIELD_IGNORE;
  thd->abort_on_warning = false;
  thd->push_internal_handler(this);
}

SettingsScope::~SettingsScope() {
  system_variables &variables = thd_->variables;
  thd_->pop_internal_handler();
  variables.time_zone = zone_;
  variables.sql_mode = sql_mode_;
  variables.old_behavior = old_mode_;
  variables.default_regex_flags = regex_flags_;
  variables.div_precincrement = division_;
  variables.max_allowed_packet = packet_;
  collations_->exchange(thd_);
  thd_->start_time = start_time_;
  thd_->start_time_sec_part = start_fraction_;
  thd_->count_cuted_fields = counted_;
  thd_->abort_on_warning = aborts_;
}

}  // namespace tidesdb
