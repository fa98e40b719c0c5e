#include "core/engine/disk/atomic_output_file.h"

#include "core/base/error.h"

namespace memtune::disk {

AtomicOutputFile::AtomicOutputFile(const std::filesystem::path& path, int64_t bytes, FileSystem& files,
                                   AsyncDirectIoFileSystem& system)
    : DirectOrBufferedIoFile(system, 0), path_(path), file_(path, files) {
  direct_ = can_do_direct_io() && system.make_direct(descriptor()) >= 0;
  grow(round_up(bytes));
}

void AtomicOutputFile::finish(int64_t bytes) {
  file_.cut(bytes);
  file_.finish();
}

std::exception_ptr AtomicOutputFile::failure(int error, const std::string& doing) const {
  const std::string what = "cannot write '" + path_.string() + "': " + words(error, doing);
  if (error == EFBIG) return std::make_exception_ptr(DiskFullError(what));
  if (is_full(error)) return std::make_exception_ptr(DiskFullError(what + "; free some, or choose another disk"));
  return std::make_exception_ptr(IoError(what));
}

}  // namespace memtune::disk
