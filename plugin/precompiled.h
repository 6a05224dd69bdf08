/*
  The server's headers that most files begin with, read once for all of them: nine tenths of a compilation were
  that. Each file still includes its own, as clang-tidy reads it.
*/
#include "key/sql_headers.h"

#include "log.h"
#include "mysqld.h"
#include "sql_class.h"
#include "sql_lex.h"
#include "sql_table.h"
#include <mysql/plugin.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>
