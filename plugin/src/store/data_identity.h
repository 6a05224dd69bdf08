/*
  The identity of the server's data directory: 32 hexadecimal digits in its file `tidesdb_identity`, drawn
  when a store is first opened for it. It moves and is copied with the data directory and is gone with it,
  while the store may lie next to it; so a new data directory does not meet the tables of the old one.
*/
#ifndef TIDESDB_STORE_DATA_IDENTITY_H
#define TIDESDB_STORE_DATA_IDENTITY_H

#include <string>

namespace tidesdb {

/* The identity of the data directory, made if it has none and the store in `home` has no owner with one.
   Errors are written to the error log; true: failed. */
bool data_identity(const std::string &data_directory, const std::string &home, std::string *identity);

}  // namespace tidesdb
#endif
