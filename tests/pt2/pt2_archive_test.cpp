// An archive may be untrusted. No record is read beyond the file, and text that differs from its checksum is refused.
#include "core/model/pt2/pt2_archive.h"

#include <doctest/doctest.h>

#include <fstream>

#include "core/base/error.h"
#include "core/model/pt2/parsed_pt2_program.h"
#include "tests/pt2/made_up_pt2.h"
#include "tests/support/run_program.h"
namespace memtune::model::pt2_archive_test {
namespace {

struct Place : test::ScratchFolder {
  std::filesystem::path write(const std::string& content) const {
    std::ofstream(path / "model.pt2", std::ios::binary) << content;
    return path / "model.pt2";
  }
  // Returns the error, or "" if the archive is read.
  std::string refusal(const std::string& content) const {
    try {
      read_pt2_program(Pt2Archive(write(content)));
    } catch (const UsageError& error) {
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
      return error.what();
    }
    return "";
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("records are found by their names and read whole") {
  const Place place;
  const Pt2Archive archive(place.write(test::MadeUpPt2().archive()));
  CHECK(archive.has("models/model.json"));
  CHECK_FALSE(archive.has("models/other.json"));
  CHECK(archive.text("archive_format") == "pt2");
  CHECK(archive.bytes("data/weights/weight_0") == 48);
  std::string bytes(48, '\0');
  archive.read("data/weights/weight_0", bytes.data());
  CHECK(bytes == std::string(48, '\1'));
  CHECK_THROWS_WITH_AS(archive.bytes("none"), "it is damaged or cut off: it has no record 'none'", UsageError);
}

TEST_CASE("an archive that is truncated anywhere is refused") {
  const Place place;
  const std::string whole = test::MadeUpPt2().archive();
  REQUIRE(place.refusal(whole) == "");
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7)
    CHECK(has(place.refusal(whole.substr(0, bytes)), "it is damaged or cut off"));
}

TEST_CASE("a record that is missing or outside or packed or duplicate is refused") {
  const Place place;
  const std::string whole = test::MadeUpPt2().archive();
  const size_t entry = whole.find("PK\1\2");
  const auto with = [&](size_t at, const std::string& bytes) {
    return place.refusal(std::string(whole).replace(at, bytes.size(), bytes));
  };
  CHECK(has(with(entry + 42, test::little(whole.size(), 4)), "lies outside of it"));
  CHECK(has(with(entry + 42, test::little(5, 4)), "is not where its directory says, or lies outside of it"));
  CHECK(has(with(entry + 20, test::little(1 << 20, 4) + test::little(1 << 20, 4)), "lies outside of it"));
  CHECK(has(with(entry + 10, test::little(8, 2)), "is compressed"));
  CHECK(has(with(entry + 24, test::little(47, 4)), "is compressed"));
  CHECK(has(with(26, test::little(60000, 2)), "lies outside of it"));  // the length of its name, in its own header
  CHECK(has(place.refusal(test::zip({{"archive_format", "pt2"}, {"archive_format", "pt2"}})), "is there twice"));
}

TEST_CASE("text with a wrong checksum is refused and weights are not checked") {
  const Place place;
  const std::string whole = test::MadeUpPt2().archive();
  for (const char* text : {"torch.ops.aten.linear", "weight_0\",\"tensor_meta", "pt2PK"}) {
    std::string damaged = whole;
    damaged[damaged.find(text)] ^= 1;
    CHECK(has(place.refusal(damaged), "differs from its checksum"));
  }
  std::string weights = whole;
  weights[whole.find(std::string(48, '\1'))] ^= 1;
  CHECK(place.refusal(weights) == "");
}

TEST_CASE("an archive with any byte changed is read or refused in one line") {
  const Place place;
  const std::string whole = test::MadeUpPt2().archive();
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char value : {'\x00', '\x7f', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = value;
      place.refusal(damaged);
    }
}

}  // namespace
}  // namespace memtune::model::pt2_archive_test
