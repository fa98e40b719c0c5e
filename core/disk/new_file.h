// A file that is made with transfers: beside its name until it is whole, as an OutputFile.
#pragma once

#include <filesystem>

#include "core/base/file.h"
#include "core/disk/transfer_file.h"

namespace memtune::disk {

class NewFile final : public TransferFile {
 public:
  // Takes room for `bytes`. The name is `files`'; `system`, beneath it, is what the open file is asked through.
  // IoError, DiskFull with the numbers.
  NewFile(const std::filesystem::path& path, int64_t bytes, FileSystem& files, DiskSystem& system);

  int descriptor() const override { return file_.descriptor(); }
  // Once every transfer is done: that many bytes of it are there, under its name, durable. IoError. Without it nothing
  // is left.
  void finish(int64_t bytes);

  // IoError, or a DiskFull.
  std::exception_ptr failure(int error, const std::string& doing) const override;

 private:
  std::filesystem::path path_;
  OutputFile file_;
};

}  // namespace memtune::disk
