// What is written has to be read again to the bit, by us and by others, and a write that fails leaves nothing behind.
#include "core/safetensors/writer.h"

#include <doctest/doctest.h>

#include <random>

#include "core/safetensors/reader.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/run_program.h"

namespace memtune::safetensors {
namespace {

namespace fs = std::filesystem;

struct Content {
  std::vector<Spec> specs;
  std::map<std::string, std::string> metadata;
};

Content random_content(std::mt19937_64& random) {
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<uint64_t>(end)); };
  static const char* const kNames[] = {"", "layers.0.weight", "\xC3\xBC", "a \"b\"\n", "x", "data_offsets"};
  Content content;
  for (const char* name : kNames)
    if (below(3) > 0) {
      Spec spec{name, static_cast<Dtype>(below(10)), {}};
      for (int sizes = below(4); sizes > 0; --sizes) spec.shape.push_back(below(6));
      content.specs.push_back(spec);
    }
  for (int i = below(3); i > 0; --i) content.metadata["key " + std::to_string(i)] = std::string(kNames[below(6)]);
  return content;
}

// Bytes that tell where they belong.
std::string bytes_for(const Entry& entry) {
  std::string bytes(static_cast<size_t>(entry.bytes()), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(std::hash<std::string>()(entry.name) + i);
  return bytes;
}

void write(const fs::path& path, const Content& content, FileSystem& system = system_files()) {
  Writer writer(path, content.specs, content.metadata, system);
  for (const Entry& entry : writer.entries()) {
    const std::string bytes = bytes_for(entry);
    writer.write(bytes.data(), entry.bytes());
  }
  writer.finish();
}

TEST_CASE("what is written is read: names, types, shapes, bytes and metadata, every tensor aligned") {
  const test::ScratchFolder folder;
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const Content content = random_content(random);
    write(folder.path / "a", content);
    const Reader reader(folder.path / "a");
    CHECK(reader.metadata() == content.metadata);
    REQUIRE(reader.entries().size() == content.specs.size());
    for (const Spec& spec : content.specs) {
      const auto entry = std::ranges::find(reader.entries(), spec.name, &Entry::name);
      REQUIRE(entry != reader.entries().end());
      CHECK(entry->dtype == spec.dtype);
      CHECK(entry->shape == spec.shape);
      CHECK(entry->begin % bytes_of(spec.dtype) == 0);
      std::string bytes(static_cast<size_t>(entry->bytes()), '\0');
      reader.read(*entry, bytes.data());
      CHECK(bytes == bytes_for(*entry));
    }
    CHECK((fs::file_size(folder.path / "a") - (reader.entries().empty() ? 0 : reader.entries().back().end)) % 4096 ==
          0);
  }
}

TEST_CASE("bytes may come in any portions, but neither too many nor too few") {
  const test::ScratchFolder folder;
  const std::vector<Spec> specs{{"a", Dtype::u8, {3}}, {"b", Dtype::u8, {2}}};
  {
    Writer writer(folder.path / "a", specs, {});
    writer.write("1234", 4);
    CHECK_THROWS_WITH(writer.finish(), "a safetensors file lacks 1 bytes");
    CHECK_THROWS_WITH(writer.write("56", 2), "a safetensors file is given 1 bytes too many");
    writer.write("5", 1);
    writer.finish();
  }
  const Reader reader(folder.path / "a");
  std::string bytes(2, '.');
  reader.read(reader.entries()[1], bytes.data());
  CHECK(bytes == "45");
}

TEST_CASE("what no file can hold is refused before anything is written") {
  const test::ScratchFolder folder;
  const auto refusal = [&](const std::vector<Spec>& specs) {
    try {
      Writer(folder.path / "a", specs, {});
    } catch (const UsageError& error) {
      const std::string text = error.what();
      return text.substr(text.rfind(": ") + 2);
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
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("whichever call of the system fails, the file is there whole or not at all") {
  const test::ScratchFolder folder;
  const Content content{{{"a", Dtype::f32, {2}}, {"b", Dtype::u8, {5}}}, {}};
  int failing = 1, absent = 0;
  for (bool struck = true; struck; ++failing) {
    CAPTURE(failing);
    test::FaultyDisk disk;
    disk.arm({test::Fault::Kind::refused, ENOSPC, failing});
    bool threw = false;
    try {
      write(folder.path / "a", content, disk);
    } catch (const IoError&) {
      threw = true;
    }
    struck = disk.calls() >= failing;
    if (fs::exists(folder.path / "a")) {
      CHECK(Reader(folder.path / "a").entries().size() == 2);
      fs::remove(folder.path / "a");
    } else {
      CHECK(threw);
      ++absent;
    }
    CHECK(fs::is_empty(folder.path));
  }
  CHECK(absent == 6);  // open, header, two tensors, sync, rename
}

}  // namespace
}  // namespace memtune::safetensors
