#include "memory_sizes.h"

#include "sql_class.h"
#include "set_var.h"
#include "sys_vars_shared.h"

namespace tidesdb {

namespace {

constexpr ulonglong MB = 1024 * 1024;
/* Below it a transaction's part of the write buffer holds too few rows. */
constexpr ulonglong LEAST_WRITE_BUFFER = 1 * MB;

/* Whether somebody gave the variable its value, in an option file or on the command line. */
bool is_set(const char *name) {
  mysql_prlock_rdlock(&LOCK_system_variables_hash);
  const sys_var *variable = intern_find_sys_var(name, strlen(name));
  const bool set = variable && variable->value_origin != sys_var::COMPILE_TIME;
  mysql_prlock_unlock(&LOCK_system_variables_hash);
  return set;
}

ulonglong sum(const tidesdb_memory_plan &plan) {
  /* One write buffer takes writes while as much again is being flushed. */
  return plan.block_cache_size + 2 * plan.write_buffer_size;
}

void report(const tidesdb_memory_plan &wanted, const tidesdb_memory_plan &plan) {
  const bool set_reduced = (plan.block_cache_is_set && plan.block_cache_size < wanted.block_cache_size) ||
                           (plan.write_buffer_is_set && plan.write_buffer_size < wanted.write_buffer_size);
  if (set_reduced) {
    sql_print_warning(
        "TidesDB: tidesdb_block_cache_size=%llu and twice "
        "tidesdb_unified_memtable_write_buffer_size=%llu are %llu MB together, and need a quarter more for "
        "the rest; "
        "of %llu MB of memory the engine takes %llu MB, so they are reduced to %llu MB and %llu MB",
        static_cast<ulonglong>(wanted.block_cache_size), static_cast<ulonglong>(wanted.write_buffer_size),
        sum(wanted) / MB, static_cast<ulonglong>(plan.available / MB),
        static_cast<ulonglong>(plan.max_memory / MB), static_cast<ulonglong>(plan.block_cache_size / MB),
        static_cast<ulonglong>(plan.write_buffer_size / MB));
  } else if (plan.cache_grows) {
    sql_print_information(
        "TidesDB: of %llu MB of memory the engine takes up to %llu MB: tidesdb_block_cache_size is %llu MB "
        "and grows while others leave it more, tidesdb_unified_memtable_write_buffer_size %llu MB",
        static_cast<ulonglong>(plan.available / MB), static_cast<ulonglong>(plan.max_memory / MB),
        static_cast<ulonglong>(plan.block_cache_size / MB),
        static_cast<ulonglong>(plan.write_buffer_size / MB));
  } else if (sum(plan) < sum(wanted)) {
    sql_print_information(
        "TidesDB: of %llu MB of memory the engine takes %llu MB: tidesdb_block_cache_size is %llu MB and "
        "tidesdb_unified_memtable_write_buffer_size %llu MB",
        static_cast<ulonglong>(plan.available / MB), static_cast<ulonglong>(plan.max_memory / MB),
        static_cast<ulonglong>(plan.block_cache_size / MB),
        static_cast<ulonglong>(plan.write_buffer_size / MB));
  }
}

}  // namespace

bool choose_memory_sizes(ulonglong max_memory_usage, ulonglong block_cache_size, ulonglong write_buffer_size,
                         tidesdb_memory_plan *plan) {
  const bool automatic = write_buffer_size == 0;
  if (automatic) write_buffer_size = DEFAULT_WRITE_BUFFER_SIZE;
  if (write_buffer_size < LEAST_WRITE_BUFFER) {
    sql_print_warning("TidesDB: tidesdb_unified_memtable_write_buffer_size=%llu is raised to %llu",
                      write_buffer_size, LEAST_WRITE_BUFFER);
    write_buffer_size = LEAST_WRITE_BUFFER;
  }
  tidesdb_memory_plan wanted{};
  wanted.max_memory = max_memory_usage;
  wanted.block_cache_size = block_cache_size;
  wanted.write_buffer_size = write_buffer_size;
  wanted.max_memory_is_set = max_memory_usage != 0;
  wanted.block_cache_is_set = is_set("tidesdb_block_cache_size");
  wanted.write_buffer_is_set = !automatic && is_set("tidesdb_unified_memtable_write_buffer_size");
  *plan = wanted;
  if (tidesdb_plan_memory(plan) != TIDESDB_OK) {
    sql_print_error(
        "TidesDB: tidesdb_max_memory_usage=%llu is less than tidesdb_block_cache_size=%llu and "
        "twice tidesdb_unified_memtable_write_buffer_size=%llu together; raise it or lower them",
        max_memory_usage, block_cache_size, write_buffer_size);
    return true;
  }
  report(wanted, *plan);
  return false;
}

}  // namespace tidesdb
