#include "ddl/sort_memory.h"

#include <sys/mman.h>

#include "key/sql_headers.h"

namespace tidesdb {

bool SortMemory::make(size_t capacity) {
  release();
  capacity += sizeof(size_t) - capacity % sizeof(size_t);
  void *data = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    my_error(ER_OUTOFMEMORY, MYF(0), static_cast<int>(std::min<size_t>(capacity, INT_MAX32)));
    return false;
  }
  data_ = static_cast<uchar *>(data);
  capacity_ = capacity;
  return true;
}

void SortMemory::release() {
  if (data_) munmap(data_, capacity_);
  data_ = nullptr;
  capacity_ = used_ = count_ = 0;
}

}  // namespace tidesdb
