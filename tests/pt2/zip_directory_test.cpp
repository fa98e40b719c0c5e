// The zip directory decides what is refused before unpacking. All of its fields are checked against the file.
#include "core/model/pt2/zip_directory.h"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/pt2/made_up_zip.h"
#include "tests/support/run_program.h"
namespace memtune::model::zip_directory_test {
namespace {

using test::little;
using test::zip;

struct Archive {
  test::ScratchFolder folder;
  std::optional<std::vector<ZipDirectoryEntry>> records(const std::string& content) const {
    std::ofstream(folder.path / "a", std::ios::binary) << content;
    const RandomAccessFileReader file(folder.path / "a");
    return read_zip_directory(zip_bytes(file));
  }
};

// Returns the first entry of the directory. Its unpacked size is at byte 24.
size_t first_of(const std::string& archive) { return archive.find("PK\1\2"); }

TEST_CASE("the zip directory gives the name and offset and sizes of every record") {
  const Archive archive;
  const auto records = archive.records(zip({{"data.pkl", "abc"}, {"code/a.py", "pass"}}));
  REQUIRE(records);
  REQUIRE(records->size() == 2);
  CHECK((*records)[0].name == "m/data.pkl");
  CHECK((*records)[0].offset == 0);
  CHECK((*records)[0].stored_bytes == 3);
  CHECK((*records)[1].name == "m/code/a.py");
  CHECK((*records)[1].offset == 30 + 10 + 3);
  CHECK((*records)[1].unpacked_bytes == 4);
}

TEST_CASE("extra fields have only the 64-bit numbers that do not fit 32 bits") {
  const Archive archive;
  const std::string other = little(9, 2) + little(2, 2) + "xx";  // a field of another kind before it
  std::string content = zip({{"a", "abc"}}, other + little(1, 2) + little(16, 2) + little(uint64_t{5} << 32, 8) +
                                                little(uint64_t{7} << 32, 8));
  content.replace(first_of(content) + 24, 4, "\xFF\xFF\xFF\xFF", 4);  // its unpacked size
  content.replace(first_of(content) + 42, 4, "\xFF\xFF\xFF\xFF", 4);  // its offset
  const auto records = archive.records(content);
  REQUIRE(records);
  CHECK(records->front().unpacked_bytes == uint64_t{5} << 32);
  CHECK(records->front().stored_bytes == 3);
  CHECK(records->front().offset == uint64_t{7} << 32);
}

TEST_CASE("a zip directory with 64-bit offsets is found") {
  const Archive archive;
  const std::string plain = zip({{"a", "abc"}});
  const size_t begin = first_of(plain), end = plain.find("PK\5\6");
  const std::string long_end = "PK\6\6" + little(0, 36) + little(end - begin, 8) + little(begin, 8);
  const std::string locator = "PK\6\7" + little(0, 4) + little(end, 8) + little(0, 4);
  const std::string short_end = "PK\5\6" + little(0, 8) + little(0xFFFFFFFF, 4) + little(0xFFFFFFFF, 4) + little(0, 2);
  const auto records = archive.records(plain.substr(0, end) + long_end + locator + short_end);
  REQUIRE(records);
  CHECK(records->front().name == "m/a");
}

TEST_CASE("a zip directory that is truncated or misplaced or invalid is refused") {
  const Archive archive;
  const std::string whole = zip({{"a", "abc"}, {"b", "abc"}});
  const size_t first = first_of(whole), second = whole.find("PK\1\2", first + 1), end = whole.find("PK\5\6");
  const auto with = [&](size_t at, const std::string& bytes) {
    return std::string(whole).replace(at, bytes.size(), bytes);
  };
  CHECK(archive.records(whole));
  CHECK_FALSE(archive.records(""));
  CHECK_FALSE(archive.records(whole.substr(0, whole.size() - 1)));
  CHECK_FALSE(archive.records(whole.substr(end)));
  CHECK_FALSE(archive.records(with(end + 16, little(whole.size() + 1, 4))));  // starts beyond the file
  CHECK_FALSE(archive.records(with(end + 12, little(whole.size(), 4))));      // ends beyond the file
  CHECK_FALSE(archive.records(with(second, "XX")));                           // no record
  CHECK_FALSE(archive.records(with(second + 28, little(60000, 2))));          // a name beyond the directory
}

}  // namespace
}  // namespace memtune::model::zip_directory_test
