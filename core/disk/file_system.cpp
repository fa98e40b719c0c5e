#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/disk/file_io.h"

namespace memtune::disk {
namespace {

int result_of(int value) { return value < 0 ? -errno : value; }

class SystemCalls final : public FileSystem {
 public:
  int open(const std::filesystem::path& path, int flags) override {
    return result_of(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  }
  int unlink(const std::filesystem::path& path) override { return result_of(::unlink(path.c_str())); }
  int status(int file, struct statfs& status) override { return result_of(::fstatfs(file, &status)); }
  int allocate(int file, int64_t offset, int64_t bytes) override {
    return result_of(::fallocate(file, 0, offset, bytes));
  }
  int resize(int file, int64_t bytes) override { return result_of(::ftruncate(file, bytes)); }

  int64_t direct_alignment([[maybe_unused]] int file) override {
#ifdef STATX_DIOALIGN
    struct statx info {};
    if (::statx(file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0) return -errno;
    if ((info.stx_mask & STATX_DIOALIGN) == 0) return -EOPNOTSUPP;
    return std::max(info.stx_dio_mem_align, info.stx_dio_offset_align);
#else
    return -ENOSYS;
#endif
  }

  std::unique_ptr<FileIo> start_io(int file, int depth, Backend backend) override {
    auto uring = backend == Backend::threads ? nullptr : make_uring_io(file, depth);
    return uring || backend == Backend::uring ? std::move(uring) : make_thread_io(file, depth);
  }
};

}  // namespace

FileSystem& system_calls() {
  static SystemCalls calls;
  return calls;
}

}  // namespace memtune::disk
