// One file that nobody sees: it has no name, so that the kernel takes it back however this process ends.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/file.h"
#include "core/disk/transfer_file.h"

namespace memtune::disk {

class ScratchFile final : public TransferFile {
 public:
  // Throws UsageError when the directory is missing, not writable, or held in memory and `allow_memory` is not set.
  ScratchFile(DiskSystem& system, std::filesystem::path directory, bool allow_memory);

  int descriptor() const override { return file_.get(); }
  // "io_uring, direct, unnamed": how it is used.
  std::string describe(const FileIo& io) const override;
  // DiskFull or DiskError.
  std::exception_ptr failure(int error, const std::string& doing) const override;

 private:
  void open();
  bool try_open(bool unnamed, bool direct);
  void refuse_memory() const;

  std::filesystem::path directory_;
  Descriptor file_;
  bool unnamed_ = false;  // never had a name, not even for a moment
};

// The folder that holds what is written to the overlay mounted as device `device` ("0:45"), by the text of
// /proc/self/mountinfo; "" when there is none.
std::string upper_folder(const std::string& mountinfo, const std::string& device);

}  // namespace memtune::disk
