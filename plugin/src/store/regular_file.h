/*
  Files that are ours to read and write, in the data directory and in the store: regular ones alone. A FIFO
  in the place of one would hold up the start of the server, and a symbolic link lead out of the directory:
  what is written would go over a file of another program.
*/
#ifndef TIDESDB_STORE_REGULAR_FILE_H
#define TIDESDB_STORE_REGULAR_FILE_H

#include <sys/types.h>

#include <string>

namespace tidesdb {

/* open(2), which does not wait; -1 with an errno also for what is no regular file. */
int open_regular_file(const std::string &path, int flags, mode_t mode = 0);

/* Why open_regular_file() failed, by its errno. */
std::string why_not_opened(int error);

/* The whole of a small file; false with an errno as above. */
bool read_regular_file(const std::string &path, std::string *bytes);

/* Writes a small file as a whole and durably: a crash leaves the old one or this one. true with an errno:
 * failed. */
bool replace_regular_file(const std::string &directory, const char *name, const std::string &text);

}  // namespace tidesdb
#endif
