/*
  The parts of a server that sorts of new indexes call, for tests without one.
*/
#ifndef TIDESDB_TEST_SORT_SERVER_H
#define TIDESDB_TEST_SORT_SERVER_H

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "key/sql_headers.h"
#include "mysqld.h"
#include "tidesdb.h"

MY_TMPDIR mysql_tmpdir_list;
static int64_t sort_memory, most_sort_memory;
static bool disk_is_full;

extern "C" {
char *my_tmpdir(MY_TMPDIR *) { return const_cast<char *>("/tmp"); }
void tidesdb_count_sort_memory(tidesdb_db *, int64_t bytes) {
  sort_memory += bytes;
  most_sort_memory = std::max(most_sort_memory, sort_memory);
}
void *my_malloc(PSI_memory_key, size_t size, myf) { return malloc(size); }
void *my_realloc(PSI_memory_key, void *old, size_t size, myf) { return realloc(old, size); }
void my_free(void *data) { free(data); }
File create_temp_file(char *to, const char *, const char *, int, myf) {
  strcpy(to, "/tmp/sort_test-XXXXXX");
  const File file = mkstemp(to);
  unlink(to);
  return file;
}
int my_close(File file, myf) { return close(file); }
size_t my_pwrite(File file, const uchar *from, size_t size, my_off_t at, myf) {
  return disk_is_full || pwrite(file, from, size, static_cast<off_t>(at)) != static_cast<ssize_t>(size);
}
size_t my_pread(File file, uchar *to, size_t size, my_off_t at, myf) {
  return pread(file, to, size, static_cast<off_t>(at)) != static_cast<ssize_t>(size);
}
}

#define CHECK(what)                                                      \
  do {                                                                   \
    if (!(what)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
      exit(1);                                                           \
    }                                                                    \
  } while (false)

#endif
