// Inputs come from anybody's script: what the header says must be checked against the file before memory is asked for.
#include "core/frontend/safetensors.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "core/base/error.h"

namespace memtune::frontend {
namespace {

namespace fs = std::filesystem;

class File {
 public:
  explicit File(const std::string& content) { std::ofstream(path, std::ios::binary) << content; }
  ~File() { fs::remove(path); }
  fs::path path = fs::temp_directory_path() / ("memtune-" + std::to_string(::getpid()) + ".safetensors");
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
    read_safetensors(file.path);
  } catch (const UsageError& error) {
    std::string start = "'" + file.path.string() + "' is not a safetensors file memtune can read: ",
                text = error.what();
    CHECK(text.substr(0, start.size()) == start);
    return text.substr(start.size());
  }
  return "no error";
}

TEST_CASE("tensors come in file order with their dtype, shape and bits") {
  std::string data("\x01\x02\x00\x00\x80\x3f\x00\x00\x00\x40", 10);
  File file(safetensors(R"({"__metadata__": {"by": "hand"},
    "last": {"dtype": "F32", "shape": [2, 1], "data_offsets": [2, 10]},
    "first": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}})",
                        data));
  auto tensors = read_safetensors(file.path);
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].first == "first");
  CHECK(at::equal(tensors[0].second, at::tensor({1, 2}, at::kByte)));
  CHECK(tensors[1].first == "last");
  CHECK(at::equal(tensors[1].second, at::tensor({1.0F, 2.0F}).view({2, 1})));
}

TEST_CASE("scalars and tensors without elements are fine, and so is a file without tensors") {
  File file(safetensors(R"({"none": {"dtype": "I64", "shape": [0, 3], "data_offsets": [0, 0]},
    "one": {"dtype": "BOOL", "shape": [], "data_offsets": [0, 1]}})",
                        "\x01"));
  auto tensors = read_safetensors(file.path);
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].second.sizes() == at::IntArrayRef{0, 3});
  CHECK(tensors[1].second.item<bool>());
  CHECK(read_safetensors(File(safetensors("{}")).path).empty());
}

TEST_CASE("a file that is missing, short or something else is refused") {
  CHECK_THROWS_WITH_AS(read_safetensors("/no/such.safetensors"), "cannot read '/no/such.safetensors': no such file",
                       UsageError);
  CHECK(refusal("abc") == "it has only 3 bytes");
  CHECK(refusal(with_length(uint64_t{1} << 60, "{}")) ==
        "its header is said to have 1152921504606846976 bytes, the file has 10");
  CHECK(refusal(safetensors("{\"a\": ")) == "its header is no JSON");
  CHECK(refusal(safetensors("[1]")) == "its header is no JSON object");
}

TEST_CASE("what the header says of a tensor must be possible") {
  auto entry = [](const std::string& text) { return safetensors("{\"a\": " + text + "}", "12345678"); };
  CHECK(refusal(entry(R"({"dtype": "F32"})")) == "'a' lacks dtype, shape or data_offsets");
  CHECK(refusal(entry(R"({"dtype": "F3", "shape": [2], "data_offsets": [0, 8]})")) ==
        "'a' has the unknown dtype \"F3\"");
  CHECK(refusal(entry(R"({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]})")) ==
        "'a' has 8 bytes, its shape needs 12");
  CHECK(refusal(entry(R"({"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8]})")) ==
        "'a' has 8 bytes, its shape needs more than can be counted");
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

TEST_CASE("a name that is there twice is refused") {
  std::string entry = R"({"dtype": "U8", "shape": [1], "data_offsets": [0, 1]})";
  CHECK(refusal(safetensors("{\"a\": " + entry + ", \"a\": " + entry + "}", "1")) == "'a' is there twice");
}

}  // namespace
}  // namespace memtune::frontend
