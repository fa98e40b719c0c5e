#include "core/base/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"

namespace memtune {
namespace {

namespace fs = std::filesystem;

fs::path temporary_folder() {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  if (!error) return fs::absolute(folder).lexically_normal();
  const char* place = std::getenv("TMPDIR");
  throw IoError("no temporary files can be made in " + std::string(place ? place : "/tmp") + ": " + error.message());
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::string& name) {
  std::string path = (temporary_folder() / ("memtune-" + name + "-XXXXXX")).string();
  if (!mkdtemp(path.data())) throw_io_error("make", path, errno);
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace memtune
