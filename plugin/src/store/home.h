/*
  Where the store lies: what tidesdb_data_home_dir may name, where a store is looked for without it, and where
  a new one is made.
*/
#ifndef TIDESDB_STORE_HOME_H
#define TIDESDB_STORE_HOME_H

#include <string>

namespace tidesdb {

/* Name of the store's directory inside the server's data directory; never shown as a database. */
constexpr const char INSIDE_DIRECTORY[] = "#tidesdb";
/* The server's name for a directory of a database with that name: what mariadb-upgrade makes of it on a
   server without the engine, which hides it from nobody. */
constexpr const char RENAMED_DIRECTORY[] = "@0023tidesdb";
/* Name of the store's directory next to the server's data directory. */
constexpr const char BESIDE_DIRECTORY[] = "tidesdb_data";

/* The path without symbolic links, as far as it exists, and without a slash at its end. */
std::string real_place(const std::string &path);

/* mariadb-upgrade renames directories that look like databases of an old release, and the store's looks so to
   a server without the engine. It gets its name back, and loses the file that the server put into it. */
void take_back_renamed(const std::string &data_directory);

/* Whether tidesdb_data_home_dir names a place that a store must not take; the error log says why. */
bool refuse_home(const std::string &data_directory);

/* Where the store is, if there is one. */
std::string find_home(const std::string &data_directory);

/* The directory of a new store; "" and a line in the log where none can be made. */
std::string make_home(const std::string &data_directory);

/* Files without which no store was ever opened. The engine names those that are missing. */
bool has_store(const std::string &home);

}  // namespace tidesdb
#endif
