#include "store/live_options.h"

#include <atomic>
#include <mutex>

#include "sql_class.h"
#include "mysqld.h"
#include "set_var.h"

#include "store/memory_sizes.h"
#include "store/store.h"

namespace tidesdb {

namespace {

constexpr ulonglong MB = 1024 * 1024;
/* A cache that nobody set begins with this much, or there is too little memory for the other sizes. */
constexpr ulonglong LEAST_GROWING_CACHE = 16 * MB;

/* One change at a time reads the options and sets them. */
std::mutex changes;
bool budget_is_set, cache_is_set;
/* By MemorySize: what the variable shows of the last change. Read under the server's lock of variables, which
   no connection holds while it waits for a change. */
std::atomic<ulonglong> last_sizes[3];

class GlobalVariablesUnlocked {
 public:
  GlobalVariablesUnlocked() { mysql_mutex_unlock(&LOCK_global_system_variables); }
  ~GlobalVariablesUnlocked() { mysql_mutex_lock(&LOCK_global_system_variables); }
  GlobalVariablesUnlocked(const GlobalVariablesUnlocked &) = delete;
  GlobalVariablesUnlocked &operator=(const GlobalVariablesUnlocked &) = delete;
};

bool refuse() {
  my_printf_error(ER_WRONG_VALUE_FOR_VAR, "TidesDB: %s", MYF(0), tidesdb_last_error());
  return true;
}

bool set(const std::function<void(tidesdb_live_options *)> &edit) {
  tidesdb_live_options options;
  if (!plugin.db) {
    my_printf_error(ER_UNKNOWN_ERROR, "TidesDB: the store is not open", MYF(0));
    return true;
  }
  if (tidesdb_get_live_options(plugin.db, &options) != TIDESDB_OK) return refuse();
  edit(&options);
  return tidesdb_set_live_options(plugin.db, &options) != TIDESDB_OK && refuse();
}

/* The plan for the sizes in force with one of them changed; true: the client knows why there is none. */
bool plan_sizes(MemorySize which, ulonglong value, bool *budget_is_given, tidesdb_memory_plan *plan) {
  tidesdb_live_options now;
  if (!plugin.db || tidesdb_get_live_options(plugin.db, &now) != TIDESDB_OK) return refuse();
  tidesdb_memory_plan wanted{};
  const bool automatic = which == MemorySize::WRITE_BUFFER && value == 0;
  *budget_is_given = which == MemorySize::BUDGET ? value != 0 : budget_is_set;
  wanted.max_memory = which == MemorySize::BUDGET ? value : now.max_memory;
  wanted.block_cache_is_set = which == MemorySize::BLOCK_CACHE || cache_is_set;
  wanted.block_cache_size = which == MemorySize::BLOCK_CACHE ? value
                            : cache_is_set                   ? now.block_cache_size
                                                             : DEFAULT_BLOCK_CACHE_SIZE;
  wanted.write_buffer_size = which == MemorySize::WRITE_BUFFER ? value : now.write_buffer_size;
  if (automatic) wanted.write_buffer_size = DEFAULT_WRITE_BUFFER_SIZE;
  wanted.max_memory_is_set = *budget_is_given;
  wanted.write_buffer_is_set = !automatic;
  *plan = wanted;
  const bool fits = tidesdb_plan_memory(plan) == TIDESDB_OK;
  const ulonglong least_cache = wanted.block_cache_is_set ? wanted.block_cache_size : LEAST_GROWING_CACHE;
  if (fits && plan->block_cache_size >= least_cache &&
      (automatic || plan->write_buffer_size >= wanted.write_buffer_size))
    return false;
  const ulonglong sum = (least_cache + 2 * wanted.write_buffer_size) / MB;
  if (!fits)
    my_printf_error(
        ER_WRONG_VALUE_FOR_VAR,
        "TidesDB: tidesdb_block_cache_size and twice tidesdb_unified_memtable_write_buffer_size are %llu MB "
        "together, tidesdb_max_memory_usage is %llu MB; raise it or lower them",
        MYF(0), sum, static_cast<ulonglong>(wanted.max_memory / MB));
  else
    my_printf_error(
        ER_WRONG_VALUE_FOR_VAR,
        "TidesDB: tidesdb_block_cache_size and twice tidesdb_unified_memtable_write_buffer_size are %llu MB "
        "together, and need a quarter more for the rest; of %llu MB of memory the engine takes at most %llu "
        "MB",
        MYF(0), sum, static_cast<ulonglong>(plan->available / MB),
        static_cast<ulonglong>(plan->max_memory / MB));
  return true;
}

}  // namespace

void note_sizes_of_start(const tidesdb_memory_plan &plan) {
  budget_is_set = plan.max_memory_is_set;
  cache_is_set = plan.block_cache_is_set;
}

bool change_live_options(const std::function<void(tidesdb_live_options *)> &edit,
                         const std::function<void(const tidesdb_live_options &)> &look) {
  {
    const GlobalVariablesUnlocked unlocked;
    std::lock_guard<std::mutex> guard(changes);
    if (set(edit)) return true;
  }
  /* Another connection may have changed it since. */
  tidesdb_live_options now;
  if (tidesdb_get_live_options(plugin.db, &now) == TIDESDB_OK) look(now);
  return false;
}

static bool change_size_of_store(MemorySize which, ulonglong value) {
  const GlobalVariablesUnlocked unlocked;
  std::lock_guard<std::mutex> guard(changes);
  bool budget_is_given;
  tidesdb_memory_plan plan;
  if (plan_sizes(which, value, &budget_is_given, &plan)) return true;
  const bool failed = set([&plan](tidesdb_live_options *options) {
    options->max_memory = plan.max_memory;
    options->block_cache_size = plan.block_cache_size;
    options->cache_grows = plan.cache_grows;
    options->write_buffer_size = plan.write_buffer_size;
  });
  if (failed) return true;
  budget_is_set = budget_is_given;
  cache_is_set = plan.block_cache_is_set;
  last_sizes[static_cast<size_t>(which)] = which == MemorySize::WRITE_BUFFER ? plan.write_buffer_size : value;
  last_sizes[static_cast<size_t>(MemorySize::BLOCK_CACHE)] = plan.block_cache_size;
  return false;
}

bool change_memory_size(MemorySize which, ulonglong *value, ulonglong *block_cache) {
  if (change_size_of_store(which, *value)) return true;
  /* Another connection may have changed it since. */
  *value = last_sizes[static_cast<size_t>(which)];
  *block_cache = last_sizes[static_cast<size_t>(MemorySize::BLOCK_CACHE)];
  return false;
}

}  // namespace tidesdb
