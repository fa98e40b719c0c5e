#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "core/engine/disk/async_file_io.h"

namespace memtune::disk {

AlignedBuffer aligned_bytes(int64_t bytes) {
  AlignedBuffer data(static_cast<char*>(std::aligned_alloc(kAlignment, static_cast<size_t>(round_up(bytes)))));
  if (!data) throw std::bad_alloc();
  return data;
}

int64_t AsyncDirectIoFileSystem::direct_alignment([[maybe_unused]] int file) {
#ifdef STATX_DIOALIGN
  struct statx info {};
  if (::statx(file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0) return -errno;
  if ((info.stx_mask & STATX_DIOALIGN) == 0) return -EOPNOTSUPP;
  return std::max(info.stx_dio_mem_align, info.stx_dio_offset_align);
#else
  return -ENOSYS;
#endif
}

int AsyncDirectIoFileSystem::make_direct(int file) {
  const int flags = ::fcntl(file, F_GETFL);
  return flags < 0 || ::fcntl(file, F_SETFL, flags | O_DIRECT) != 0 ? -errno : 0;
}

std::unique_ptr<AsyncFileIo> AsyncDirectIoFileSystem::start_io(int file, int depth, IoBackend backend) {
  auto uring = backend == IoBackend::threads ? nullptr : make_uring_io(file, depth);
  return uring || backend == IoBackend::uring ? std::move(uring) : make_thread_io(file, depth);
}

AsyncDirectIoFileSystem& system_disk() {
  static AsyncDirectIoFileSystem disk;
  return disk;
}

}  // namespace memtune::disk
