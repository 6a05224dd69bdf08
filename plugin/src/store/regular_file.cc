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

static bool sync_and_close(int file) {
  const bool failed = fsync(file) != 0;
  return close(file) != 0 || failed;
}

bool replace_regular_file(const std::string &directory, const char *name, const std::string &text) {
  const std::string path = directory + "/" + name, temporary = path + ".tmp";
  const int file = open_regular_file(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0640);
  if (file < 0) return true;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (sync_and_close(file) || !written || rename(temporary.c_str(), path.c_str()) != 0) return true;
  const int opened = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return opened < 0 || sync_and_close(opened);
}

}  // namespace tidesdb
