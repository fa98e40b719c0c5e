// Input files are untrusted. The header must be checked against the file before memory is allocated.
#include "core/model/safetensors/reader.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>

#include "core/base/error.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/run_program.h"
namespace memtune::safetensors::reader_test {
namespace {

namespace fs = std::filesystem;

class File {
 public:
  explicit File(const std::string& content) { std::ofstream(path, std::ios::binary) << content; }
  test::ScratchFolder folder;
  fs::path path = folder.path / "a.safetensors";
};

std::string with_length(uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}

std::string safetensors(const std::string& header, const std::string& data = "") {
  return with_length(header.size(), header + data);
}

std::string refusal(const std::string& content) {
  File file(content);
  try {
    Reader reader(file.path);
  } catch (const UsageError& error) {
    std::string start = "'" + file.path.string() + "' is not a safetensors file memtune can read: ",
                text = error.what();
    CHECK(text.substr(0, start.size()) == start);
    return text.substr(start.size());
  }
  return "no error";
}

std::string bytes_of(const Reader& reader, const TensorEntry& entry) {
  std::string bytes(static_cast<size_t>(entry.bytes()), '\0');
  reader.read(entry, bytes.data());
  return bytes;
}

TEST_CASE("tensors come in file order with their dtype and shape and bits") {
  std::string data("\x01\x02\x00\x00\x80\x3f\x00\x00\x00\x40", 10);
  File file(safetensors(R"({"__metadata__": {"by": "hand"},
    "last": {"dtype": "F32", "shape": [2, 1], "data_offsets": [2, 10]},
    "first": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}})",
                        data));
  const Reader reader(file.path);
  const auto& entries = reader.entries();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].name == "first");
  CHECK(entries[0].dtype == Dtype::u8);
  CHECK(entries[0].shape == std::vector<int64_t>{2});
  CHECK(bytes_of(reader, entries[0]) == "\x01\x02");
  CHECK(entries[1].name == "last");
  CHECK(entries[1].dtype == Dtype::f32);
  CHECK(entries[1].shape == std::vector<int64_t>{2, 1});
  CHECK(bytes_of(reader, entries[1]) == data.substr(2));
  CHECK(reader.metadata() == std::map<std::string, std::string>{{"by", "hand"}});
}

TEST_CASE("scalars and empty tensors and a file without tensors are valid") {
  File file(safetensors(R"({"none": {"dtype": "I64", "shape": [0, 3], "data_offsets": [0, 0]},
    "one": {"dtype": "BOOL", "shape": [], "data_offsets": [0, 1]}})",
                        "\x01"));
  const Reader reader(file.path);
  REQUIRE(reader.entries().size() == 2);
  CHECK(reader.entries()[0].shape == std::vector<int64_t>{0, 3});
  CHECK(bytes_of(reader, reader.entries()[0]).empty());
  CHECK(bytes_of(reader, reader.entries()[1]) == "\x01");
  CHECK(Reader(File(safetensors("{}")).path).entries().empty());
}

TEST_CASE("a file that is missing or short or of another format is rejected") {
  CHECK_THROWS_WITH_AS(Reader("/no/such.safetensors"), "cannot read '/no/such.safetensors': No such file or directory",
                       UsageError);
  CHECK(refusal("abc") == "it has only 3 bytes");
  CHECK(refusal(with_length(uint64_t{1} << 60, "{}")) ==
        "its header is said to have 1152921504606846976 bytes, the file has 10");
  CHECK(refusal(safetensors("{\"a\": ")) == "its header is no JSON");
  CHECK(refusal(safetensors("[1]")) == "its header is no JSON object");
}

TEST_CASE("a header beyond the size limit is rejected even if the file is that large") {
  const unsigned char length[8] = {0x01, 0xE1, 0xF5, 0x05};  // 100,000,001
  CHECK_THROWS_WITH(parse_length(length, 200'000'000), "its header has 100000001 bytes, and 100000000 are the most");
  CHECK_THROWS_WITH(parse_length(length, 100'000'008),
                    "its header is said to have 100000001 bytes, the file has 100000008");
}

TEST_CASE("impossible entries of the header are rejected") {
  auto entry = [](const std::string& text) { return safetensors("{\"a\": " + text + "}", "12345678"); };
  CHECK(refusal(entry(R"({"dtype": "F32"})")) == "'a' lacks dtype, shape or data_offsets");
  CHECK(refusal(entry(R"({"dtype": "F3", "shape": [2], "data_offsets": [0, 8]})")) ==
        "'a' has the unknown dtype \"F3\"");
  CHECK(refusal(entry(R"({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]})")) ==
        "'a' has 8 bytes, its shape needs 12");
  CHECK(refusal(entry(R"({"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8]})")) ==
        "'a' has a shape that needs more bytes than can be counted");
  CHECK(refusal(entry(R"({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]})")) ==
        "'a' has the size or offset -2");
  CHECK(refusal(entry(R"({"dtype": "F32", "shape": [4], "data_offsets": [0, 16]})")) ==
        "'a' lies outside the file (bytes 0 to 16 of 8)");
  CHECK(refusal(entry(R"({"dtype": "F32", "shape": [1], "data_offsets": [0]})")) == "'a' has no two data_offsets");
  CHECK(refusal(entry(R"({"dtype": "F32", "shape": [1], "data_offsets": [4, 8]})")) ==
        "'a' overlaps another tensor or leaves a hole before it");
  CHECK(refusal(entry(R"({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})")) ==
        "4 bytes at its end belong to no tensor");
}

TEST_CASE("nesting and number of tensors and dimensions are limited") {
  CHECK(refusal(safetensors("{\"a\": " + std::string(60'000, '[') + std::string(60'000, ']') + "}")) ==
        "it is nested deeper than 64 levels");
  std::string names = "{\"__metadata__\": {}", ones;
  for (int i = 0; i <= 100'000; ++i)
    names += ", \"" + std::to_string(i) + R"(": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]})";
  CHECK(refusal(safetensors(names + "}")) == "it has more than 100000 tensors");
  for (int i = 0; i < 65; ++i) ones += i == 0 ? "1" : ",1";
  CHECK(refusal(safetensors("{\"a\": {\"dtype\": \"U8\", \"shape\": [" + ones + "], \"data_offsets\": [0, 1]}}",
                            "1")) == "'a' has more than 64 dimensions");
}

TEST_CASE("a duplicate name is rejected") {
  std::string entry = R"({"dtype": "U8", "shape": [1], "data_offsets": [0, 1]})";
  CHECK(refusal(safetensors("{\"a\": " + entry + ", \"a\": " + entry + "}", "1")) == "'a' is there twice");
  CHECK(refusal(safetensors(R"({"a": {"dtype": "U8", "dtype": "I8", "shape": [1], "data_offsets": [0, 1]}})", "1")) ==
        "'dtype' is there twice");
}

TEST_CASE("overlapping tensors are rejected") {
  CHECK(refusal(safetensors(R"({"a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
                              "b": {"dtype": "U8", "shape": [3], "data_offsets": [2, 5]}})",
                            "12345")) == "'b' overlaps another tensor or leaves a hole before it");
}

TEST_CASE("metadata that is not text is rejected") {
  CHECK(refusal(safetensors(R"({"__metadata__": {"by": 1}})")) == "its __metadata__ holds something else than text");
}

TEST_CASE("a truncated file is rejected and reads stay within the file after any flipped bit of the header") {
  const std::string header = R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    "b": {"dtype": "U8", "shape": [3, 1], "data_offsets": [8, 11]}})";
  const std::string whole = safetensors(header, "12345678abc");
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) CHECK(refusal(whole.substr(0, bytes)) != "no error");
  int accepted = 0;
  for (size_t bit = 0; bit < 8 * (8 + header.size()); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const File file(damaged);
    try {
      const Reader reader(file.path);
      int64_t bytes = 0;
      for (const TensorEntry& entry : reader.entries()) bytes += static_cast<int64_t>(bytes_of(reader, entry).size());
      CHECK(bytes == 11);
      ++accepted;
    } catch (const UsageError&) {
    }
  }
  CHECK(accepted > 0);  // a changed name is valid
  CHECK(accepted < 100);
}

TEST_CASE("a disk failure during a read is reported as an error") {
  const File file(safetensors(R"({"a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}})", "123"));
  int failing = 1;
  for (bool struck = true; struck; ++failing) {
    test::FaultyDisk disk;
    disk.arm({test::Fault::Kind::refused, EIO, failing});
    try {
      const Reader reader(file.path, disk);
      const std::string bytes = bytes_of(reader, reader.entries()[0]);
      CHECK(bytes == "123");
    } catch (const IoError&) {
    } catch (const UsageError&) {  // at opening
      CHECK(failing <= 2);
    }
    struck = disk.calls() >= failing;
  }
  CHECK(failing == 7);  // open, size, length, header, data; then none
}

}  // namespace
}  // namespace memtune::safetensors::reader_test
