#include "core/engine/disk/new_file.h"

#include "core/base/error.h"

namespace memtune::disk {

NewFile::NewFile(const std::filesystem::path& path, int64_t bytes, FileSystem& files, DiskSystem& system)
    : TransferFile(system, 0), path_(path), file_(path, files) {
  direct_ = can_do_direct_io() && system.make_direct(descriptor()) >= 0;
  grow(round_up(bytes));
}

void NewFile::finish(int64_t bytes) {
  file_.cut(bytes);
  file_.finish();
}

std::exception_ptr NewFile::failure(int error, const std::string& doing) const {
  const std::string what = "cannot write '" + path_.string() + "': " + words(error, doing);
  if (error == EFBIG) return std::make_exception_ptr(DiskFull(what));
  if (is_full(error)) return std::make_exception_ptr(DiskFull(what + "; free some, or choose another disk"));
  return std::make_exception_ptr(IoError(what));
}

}  // namespace memtune::disk
