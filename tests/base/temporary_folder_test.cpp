#include "core/base/temporary_folder.h"

#include <doctest/doctest.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/support/run_program.h"

namespace memtune::temporary_folder_test {

using namespace memtune;
namespace fs = std::filesystem;

TEST_CASE("a temporary folder is private with an absolute path and is removed with its content") {
  fs::path path;
  {
    const test::Variable here("TMPDIR", ".");
    const TemporaryFolder folder("try");
    path = folder.path();
    CHECK(path.is_absolute());
    CHECK(path.filename().string().starts_with("memtune-try-"));
    CHECK((fs::status(path).permissions() & fs::perms::mask) == fs::perms::owner_all);
    std::ofstream(path / "file") << "text";
  }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a failure to make temporary files is reported") {
  const test::Variable nowhere("TMPDIR", "/no/such/folder");
  CHECK_THROWS_WITH_AS(TemporaryFolder("try"),
                       "no temporary files can be made in /no/such/folder: No such file or directory", IoError);
}

}  // namespace memtune::temporary_folder_test
