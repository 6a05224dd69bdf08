/*
 * A program for the tests of the library: makes the calls that its arguments name, and prints the result of
 * each, or the name of its error. Files are numbered in the order in which they were opened.
 *
 *   exercise create FILE, open FILE, dir PATH       opens
 *   write N TEXT, pwrite N OFFSET TEXT, pread N OFFSET SIZE, fill N OFFSET SIZE LETTER
 *   fsync N, fdatasync N, range N, close N, allocate N SIZE, truncate N SIZE
 *   rename FROM TO, link FROM TO, unlink FILE, mkdir PATH, kill
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 64
static int files[FILES], opened;
static char **next;

static char *word(void) {
  if (!*next) {
    fprintf(stderr, "exercise: an argument is missing\n");
    exit(2);
  }
  return *next++;
}

static long number(void) { return atol(word()); }
static int file(void) { return files[number()]; }

static void print(long result) {
  if (result < 0)
    printf("%s\n", strerrorname_np(errno));
  else
    printf("%ld\n", result);
  fflush(stdout);
}

static void print_opened(int fd) {
  int error = errno;
  if (fd >= 0) files[opened++] = fd;
  errno = error;
  print(fd < 0 ? -1 : 0);
}

static long read_text(int fd, long offset, long size) {
  char *text = calloc(1, (size_t)size + 1);
  long got = pread(fd, text, (size_t)size, offset);
  if (got >= 0) printf("%s ", text);
  free(text);
  return got;
}

static long fill(int fd, long offset, long size, char letter) {
  char *text = malloc((size_t)size);
  memset(text, letter, (size_t)size);
  long done = pwrite(fd, text, (size_t)size, offset);
  free(text);
  return done;
}

int main(int count, char **arguments) {
  (void)count;
  next = arguments + 1;
  while (*next) {
    char *call = word();
    if (strcmp(call, "create") == 0) {
      print_opened(open(word(), O_RDWR | O_CREAT | O_TRUNC, 0600));
    } else if (strcmp(call, "open") == 0) {
      print_opened(open(word(), O_RDWR));
    } else if (strcmp(call, "dir") == 0) {
      print_opened(open(word(), O_RDONLY | O_DIRECTORY));
    } else if (strcmp(call, "write") == 0) {
      int fd = file();
      char *text = word();
      print(write(fd, text, strlen(text)));
    } else if (strcmp(call, "pwrite") == 0) {
      int fd = file();
      long offset = number();
      char *text = word();
      print(pwrite(fd, text, strlen(text), offset));
    } else if (strcmp(call, "pread") == 0) {
      int fd = file();
      long offset = number();
      print(read_text(fd, offset, number()));
    } else if (strcmp(call, "fill") == 0) {
      int fd = file();
      long offset = number(), size = number();
      print(fill(fd, offset, size, *word()));
    } else if (strcmp(call, "fsync") == 0) {
      print(fsync(file()));
    } else if (strcmp(call, "fdatasync") == 0) {
      print(fdatasync(file()));
    } else if (strcmp(call, "range") == 0) {
      print(sync_file_range(file(), 0, 0, 0));
    } else if (strcmp(call, "close") == 0) {
      print(close(file()));
    } else if (strcmp(call, "allocate") == 0) {
      int fd = file();
      print(fallocate(fd, 0, 0, number()));
    } else if (strcmp(call, "truncate") == 0) {
      int fd = file();
      print(ftruncate(fd, number()));
    } else if (strcmp(call, "rename") == 0) {
      char *from = word();
      print(rename(from, word()));
    } else if (strcmp(call, "link") == 0) {
      char *from = word();
      print(link(from, word()));
    } else if (strcmp(call, "unlink") == 0) {
      print(unlink(word()));
    } else if (strcmp(call, "mkdir") == 0) {
      print(mkdir(word(), 0700));
    } else if (strcmp(call, "kill") == 0) {
      raise(SIGKILL);
    } else {
      fprintf(stderr, "exercise: there is no call '%s'\n", call);
      return 2;
    }
  }
  return 0;
}
