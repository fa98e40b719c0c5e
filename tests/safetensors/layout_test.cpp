// memtune and other readers must read back what is written, bit for bit.
#include "core/model/safetensors/layout.h"

#include <doctest/doctest.h>

#include <random>

#include "core/base/file.h"
#include "core/model/safetensors/reader.h"
#include "tests/support/run_program.h"
namespace memtune::safetensors::safetensors_layout_test {
namespace {

namespace fs = std::filesystem;

struct Content {
  std::vector<TensorNameDtypeAndShape> specs;
  std::map<std::string, std::string> metadata;
};

Content random_content(std::mt19937_64& random) {
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<uint64_t>(end)); };
  static const char* const kNames[] = {"", "layers.0.weight", "\xC3\xBC", "a \"b\"\n", "x", "data_offsets"};
  Content content;
  for (const char* name : kNames)
    if (below(3) > 0) {
      TensorNameDtypeAndShape spec{name, static_cast<Dtype>(below(10)), {}};
      for (int sizes = below(4); sizes > 0; --sizes) spec.shape.push_back(below(6));
      content.specs.push_back(spec);
    }
  for (int i = below(3); i > 0; --i) content.metadata["key " + std::to_string(i)] = std::string(kNames[below(6)]);
  return content;
}

// Bytes that encode their tensor.
std::string bytes_for(const TensorEntry& entry) {
  std::string bytes(static_cast<size_t>(entry.bytes()), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(std::hash<std::string>()(entry.name) + i);
  return bytes;
}

void write(const fs::path& path, const Content& content) {
  const Header header{lay_out(content.specs), content.metadata};
  std::string bytes = print_header(header);
  CHECK(bytes.size() % kDataAlignment == 0);
  for (const TensorEntry& entry : header.entries) bytes += bytes_for(entry);
  write_file(path, bytes);
}

TEST_CASE("names and types and shapes and bytes and metadata are read back and every tensor is aligned") {
  const test::ScratchFolder folder;
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const Content content = random_content(random);
    write(folder.path / "a", content);
    const Reader reader(folder.path / "a");
    CHECK(reader.metadata() == content.metadata);
    REQUIRE(reader.entries().size() == content.specs.size());
    for (const TensorNameDtypeAndShape& spec : content.specs) {
      const auto entry = std::ranges::find(reader.entries(), spec.name, &TensorEntry::name);
      REQUIRE(entry != reader.entries().end());
      CHECK(entry->dtype == spec.dtype);
      CHECK(entry->shape == spec.shape);
      CHECK(entry->begin % bytes_of(spec.dtype) == 0);
      std::string bytes(static_cast<size_t>(entry->bytes()), '\0');
      reader.read(*entry, bytes.data());
      CHECK(bytes == bytes_for(*entry));
    }
    CHECK(reader.head().size() % 4096 == 0);
  }
}

TEST_CASE("offsets follow from the specs alone with the widest elements first") {
  const std::vector<TensorNameDtypeAndShape> specs{
      {"a", Dtype::u8, {3}}, {"b", Dtype::f64, {2}}, {"none", Dtype::f32, {0}}, {"c", Dtype::u8, {1}}};
  const std::vector<TensorEntry> entries = lay_out(specs);
  std::string places;
  for (const TensorEntry& entry : entries)
    places += entry.name + " " + std::to_string(entry.begin) + "-" + std::to_string(entry.end) + ", ";
  CHECK(places == "b 0-16, none 16-16, a 16-19, c 19-20, ");
  CHECK(data_bytes_of(entries) == 20);
  CHECK(data_bytes_of({}) == 0);
}

TEST_CASE("specs that no file can hold are rejected") {
  const auto refusal = [&](const std::vector<TensorNameDtypeAndShape>& specs) {
    try {
      print_header({lay_out(specs), {}});
    } catch (const MalformedFileError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(refusal({{"a", Dtype::u8, {1}}, {"a", Dtype::f32, {1}}}) == "'a' is there twice");
  CHECK(refusal({{"__metadata__", Dtype::u8, {1}}}) == "'__metadata__' is there twice");
  CHECK(refusal({{"a", Dtype::u8, {-1}}}) == "'a' has the size -1");
  CHECK(refusal({{"a", Dtype::f64, {int64_t{1} << 40, int64_t{1} << 40}}}) ==
        "'a' has a shape that needs more bytes than can be counted");
  CHECK(refusal({{"a", Dtype::u8, {INT64_MAX}}, {"b", Dtype::u8, {1}}}) ==
        "'b' makes it more bytes than can be counted");
  CHECK(refusal({{"\xFF", Dtype::u8, {1}}}) == "a name or a text in it is no UTF-8");
}

}  // namespace
}  // namespace memtune::safetensors::safetensors_layout_test
