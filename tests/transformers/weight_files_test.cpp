// Weights are in the folder of a config.json, in one file or in shards. A missing shard must be named before a process
// starts.
#include "core/model/transformers/weight_files.h"

#include <doctest/doctest.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/support/run_program.h"

namespace memtune::weight_files_test {

using namespace memtune;
using namespace memtune::model;

TEST_CASE("weights are one file or the shards of an index or none") {
  const test::ScratchFolder place;
  const auto config = place.path / "config.json", index = place.path / "model.safetensors.index.json";
  CHECK(weight_files(config).empty());
  std::ofstream(index) << R"({"weight_map": {"a": "two", "b": "one", "c": "two"}})";
  std::ofstream(place.path / "two") << "x";
  CHECK_THROWS_WITH_AS(weight_files(config), "model.safetensors.index.json: there is no one, which has b", UsageError);
  std::ofstream(place.path / "one") << "x";
  CHECK(weight_files(config) == std::vector{place.path / "one", place.path / "two"});
  std::ofstream(index) << R"({"weight_map": {"a": "../elsewhere"}})";
  CHECK_THROWS_AS(weight_files(config), UsageError);
  std::ofstream(index) << "{}";
  CHECK_THROWS_WITH_AS(weight_files(config), "model.safetensors.index.json.weight_map is missing", UsageError);
  std::ofstream(place.path / "model.safetensors") << "x";
  CHECK(weight_files(config) == std::vector{place.path / "model.safetensors"});
}

TEST_CASE("a git-lfs pointer in place of weights is refused with the command that fetches them") {
  const test::ScratchFolder place;
  const auto config = place.path / "config.json", index = place.path / "model.safetensors.index.json";
  const auto one = place.path / "one", whole = place.path / "model.safetensors";
  const char* const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5368709120\n";
  const auto told = [](const std::filesystem::path& path) {
    return "'" + path.string() + "' is a pointer of git-lfs, without the weights: git lfs pull brings them";
  };
  std::ofstream(index) << R"({"weight_map": {"a": "one"}})";
  std::ofstream(one) << pointer;
  CHECK_THROWS_WITH_AS(weight_files(config), told(one).c_str(), UsageError);
  std::ofstream(index) << pointer;
  CHECK_THROWS_WITH_AS(weight_files(config), told(index).c_str(), UsageError);
  std::ofstream(whole) << pointer;
  CHECK_THROWS_WITH_AS(weight_files(config), told(whole).c_str(), UsageError);
}

}  // namespace memtune::weight_files_test
