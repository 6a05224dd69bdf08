/*
  The settings of a session on which the value of a virtual column depends, found from the text of its
  expression and the types of the columns in it.

  The server lets an index have only expressions that it holds to be deterministic. It means the functions:
  a TIMESTAMP read as a date still depends on the time zone, a zero date on sql_mode, and so on. The answer
  here errs on one side alone. A word that is not known needs everything.
*/
#ifndef TIDESDB_ROW_EXPRESSION_NEEDS_H
#define TIDESDB_ROW_EXPRESSION_NEEDS_H

#include <cstdint>
#include <string>

namespace tidesdb {

/* Bits of what an expression needs to know. */
enum ExpressionNeed : uint32_t {
  NEEDS_ZONE = 1,         /* time_zone */
  NEEDS_DAY = 2,          /* the current day: a TIME becomes a DATETIME of it */
  NEEDS_DATE_MODES = 4,   /* sql_mode: zero and invalid dates, rounding of seconds; old_mode: casts of TIME */
  NEEDS_PADDING = 8,      /* sql_mode: PAD_CHAR_TO_FULL_LENGTH */
  NEEDS_SUBTRACTION = 16, /* sql_mode: NO_UNSIGNED_SUBTRACTION */
  NEEDS_DIVISION = 32,    /* div_precision_increment */
  NEEDS_PATTERNS = 64,    /* default_regex_flags */
  NEEDS_COLLATIONS = 128, /* character_set_collations */
  NEEDS_STRICTNESS = 256, /* sql_mode: strict modes make NULL of bytes that are no text */
  NEEDS_PACKET = 512,     /* max_allowed_packet: longer texts are NULL */
  /* All the rest also as it was when the server opened the table: dates in constants are converted then. */
  NEEDS_OPENING = 1024,
  NEEDS_ALL = 2047
};

/* Bits of the columns that an expression reads, or fills. */
enum ColumnKind : uint32_t {
  TIMESTAMP_COLUMN = 1,
  TIME_COLUMN = 2,
  DATE_COLUMN = 4, /* DATE or DATETIME */
  CHAR_COLUMN = 8,
  LARGE_COLUMN = 16,        /* of 64 KiB and more */
  COMPUTED_DATE_COLUMN = 32 /* a DATE, DATETIME or TIMESTAMP that is computed */
};

/* `text`: as the server prints it into definitions. `columns`: bits of ColumnKind. */
uint32_t needs_of_expression(const std::string &text, uint32_t columns);

}  // namespace tidesdb
#endif
