#include "ddl/sort_memory.h"

#include <sys/mman.h>

#include "key/sql_headers.h"

namespace tidesdb {

namespace {

/* nullptr: the kernel has no memory, and the client has been told. */
uchar *map(size_t bytes) {
  void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data != MAP_FAILED) return static_cast<uchar *>(data);
  my_error(ER_OUTOFMEMORY, MYF(0), static_cast<int>(std::min<size_t>(bytes, INT_MAX32)));
  return nullptr;
}

size_t rounded(size_t capacity) { return capacity + sizeof(size_t) - capacity % sizeof(size_t); }

}  // namespace

bool SortMemory::make(size_t capacity) {
  release();
  data_ = map(rounded(capacity));
  if (data_) capacity_ = rounded(capacity);
  return data_ != nullptr;
}

bool SortMemory::grow(size_t capacity) {
  capacity = rounded(capacity);
  uchar *data = map(capacity);
  if (!data) return false;
  const size_t of_places = count_ * sizeof(size_t);
  if (used_ != 0) memcpy(data, data_, used_);
  if (of_places != 0) memcpy(data + capacity - of_places, places(), of_places);
  if (data_) munmap(data_, capacity_);
  data_ = data;
  capacity_ = capacity;
  return true;
}

void SortMemory::release() {
  if (data_) munmap(data_, capacity_);
  data_ = nullptr;
  capacity_ = used_ = count_ = 0;
}

}  // namespace tidesdb
