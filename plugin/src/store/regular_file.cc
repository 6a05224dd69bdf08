#include "store/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tidesdb {

int open_regular_file(const std::string &path, int flags, mode_t mode) {
  const int file = open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
  if (file < 0) {
    /* A FIFO without a reader, a socket, and a directory that is to be written. */
    if (errno == ENXIO || errno == EISDIR) errno = EINVAL;
    return -1;
  }
  struct stat info;
  const bool unknown = fstat(file, &info) != 0;
  if (!unknown && S_ISREG(info.st_mode)) return file;
  const int error = unknown ? errno : EINVAL;
  close(file);
  errno = error;
  return -1;
}

std::string why_not_opened(int error) {
  switch (error) {
    case ELOOP:
      return "it is a symbolic link, and only regular files are opened: remove it";
    case EINVAL:
      return "it is no regular file, and only such are opened: remove it";
    default:
      return strerror(error);
  }
}

bool read_regular_file(const std::string &path, std::string *bytes) {
  const int file = open_regular_file(path, O_RDONLY);
  if (file < 0) return false;
  bytes->clear();
  char buffer[4096];
  ssize_t count;
  while ((count = read(file, buffer, sizeof(buffer))) > 0) bytes->append(buffer, static_cast<size_t>(count));
  const int error = errno;
  close(file);
  errno = error;
  return count == 0;
}

}  // namespace tidesdb
