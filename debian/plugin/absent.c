/*
  Stands in for the engine where no build of it fits the server: the server's plugin directory then has this as
  ha_tidesdb.so (debian/plugin/choose-plugin).

  It takes every setting tidesdb_* from the option files, which would end the server's start otherwise, says in the error
  log what to do, and goes away: the server starts, has no engine TidesDB, and answers 1286 for its tables. A server that
  is started with tidesdb=FORCE ends, as its owner asks.

  A plugin for full-text parsers, because their interface has one version in all servers. That of engines changes with
  each patch release.
*/
#include <mysql/plugin.h>

#include <stdio.h>
#include <time.h>

/* The error log is the server's standard error. A line has the server's form. */
static int say_what_is_missing(void *unused) {
  const time_t now = time(NULL);
  struct tm fields;
  char when[32] = "";
  (void)unused;
  if (localtime_r(&now, &fields)) strftime(when, sizeof(when), "%Y-%m-%d %k:%M:%S", &fields);
  fprintf(stderr,
          "%s 0 [ERROR] TidesDB: the engine is not there. Its package, mariadb-plugin-tidesdb, is removed or has no "
          "build for this version of the server; it has builds for %s. Tables of the engine are kept; opening one gives "
          "error 1286. Install a mariadb-plugin-tidesdb with a build for this server, then restart the server\n",
          when, BUILDS);
  return 1;
}

/* names.h has a line SETTING(name) for each variable of the engine. */
#define SETTING(name)        \
  static char *value_##name; \
  static MYSQL_SYSVAR_STR(name, value_##name, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY, "Not in use", NULL, NULL, NULL);
#include "names.h"
#undef SETTING

#define SETTING(name) MYSQL_SYSVAR(name),
static struct st_mysql_sys_var *settings[] = {
#include "names.h"
    NULL};

static struct st_mysql_ftparser parser = {MYSQL_FTPARSER_INTERFACE_VERSION, NULL, NULL, NULL};

maria_declare_plugin(tidesdb_absent){MYSQL_FTPARSER_PLUGIN,
                                     &parser,
                                     "TidesDB",
                                     "The TidesDB developers",
                                     "Stands in for the engine TidesDB, which has no build for this server",
                                     PLUGIN_LICENSE_GPL,
                                     say_what_is_missing,
                                     NULL,
                                     0x0001,
                                     NULL,
                                     settings,
                                     RELEASE,
                                     MariaDB_PLUGIN_MATURITY_STABLE} maria_declare_plugin_end;
