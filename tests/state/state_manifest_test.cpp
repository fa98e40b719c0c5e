#include "core/engine/state/state_manifest.h"

#include <doctest/doctest.h>

#include "core/engine/state/saved_states_folder.h"
namespace memtune::state::state_manifest_test {
namespace {

TEST_CASE("a printed manifest is read back unchanged") {
  StateManifest manifest;
  manifest.step = 12;
  manifest.settings = {{"--lora", ""}, {"--lr", "0.001"}};
  manifest.files = {{kDataFile, 4100, "00ff"}, {"shard-00001-model-00002-of-00003.safetensors", 0, "11"}};
  manifest.tensors = {{"a", safetensors::Dtype::bf16, {2, 1}, 0, "22"},
                      {"\xC3\xBC \"", safetensors::Dtype::i64, {}, 1, "33"}};
  const StateManifest read = parse_manifest(print(manifest));
  CHECK(read.step == 12);
  CHECK(read.settings == manifest.settings);
  REQUIRE(read.files.size() == 2);
  CHECK(read.files[1].name == "shard-00001-model-00002-of-00003.safetensors");
  CHECK(read.files[0].bytes == 4100);
  CHECK(read.files[0].hash == "00ff");
  REQUIRE(read.tensors.size() == 2);
  CHECK(read.tensors[0].dtype == safetensors::Dtype::bf16);
  CHECK(read.tensors[0].shape == std::vector<int64_t>{2, 1});
  CHECK(read.tensors[1].name == "\xC3\xBC \"");
  CHECK(read.tensors[1].file == 1);
  CHECK(read.tensors[1].hash == "33");
}

ManifestTensorEntry part_of(size_t file, int64_t begin, int64_t count, std::vector<int64_t> whole = {3, 4}) {
  return {"w", safetensors::Dtype::f32, {count}, file, "44", ShardExtent{std::move(whole), {1, 0}, begin}};
}

TEST_CASE("a manifest of several ranks has the extents of their parts and format 2 instead of 1") {
  StateManifest manifest;
  manifest.files = {{data_file(0), 4100, "00ff"}};
  CHECK(print(manifest).find("\"format\": 1") != std::string::npos);
  manifest.files.push_back({data_file(1), 4101, "00fe"});
  manifest.tensors = {part_of(1, 5, 7), part_of(0, 0, 5), {"s", safetensors::Dtype::f32, {}, 0, "55"}};
  CHECK(print(manifest).find("\"format\": 2") != std::string::npos);
  const StateManifest read = parse_manifest(print(manifest));
  CHECK(read.tensors[0].part == manifest.tensors[0].part);
  CHECK_FALSE(read.tensors[2].part);
  CHECK_NOTHROW(check_whole(read));
}

TEST_CASE("parts that do not cover one tensor exactly once are rejected") {
  const auto said_of = [](std::vector<ManifestTensorEntry> tensors) -> std::string {
    try {
      check_whole({1, {}, {{data_file(0), 1, ""}, {data_file(1), 1, ""}}, std::move(tensors)});
      return "";
    } catch (const DamagedSavedStateError& why) {
      return why.what();
    }
  };
  CHECK(said_of({part_of(0, 0, 5), part_of(1, 5, 7)}) == "");
  CHECK(said_of({part_of(0, 0, 5), part_of(1, 6, 6)}) == "its manifest has 'w' in parts that leave a hole or overlap");
  CHECK(said_of({part_of(0, 0, 5), part_of(1, 4, 8)}) == "its manifest has 'w' in parts that leave a hole or overlap");
  CHECK(said_of({part_of(1, 5, 7)}) == "its manifest has 'w' in parts that leave a hole or overlap");
  CHECK(said_of({part_of(0, 0, 5), part_of(1, 5, 6)}) == "its manifest has 'w' in parts that are not all of it");
  CHECK(said_of({part_of(0, 0, 5), part_of(1, 5, 7, {4, 3})}) == "its manifest has 'w' in parts of different tensors");
  const ManifestTensorEntry whole{"w", safetensors::Dtype::f32, {3, 4}, 1, "44"};
  CHECK(said_of({part_of(0, 0, 12), whole}) == "its manifest has 'w' in parts of different tensors");
  CHECK(said_of({whole, whole}) == "its manifest has 'w' twice");
  StateManifest manifest;
  manifest.files = {{data_file(0), 1, ""}};
  manifest.tensors = {part_of(0, 0, 12)};
  manifest.tensors[0].part->order = {0, 0};
  CHECK_THROWS_WITH_AS(parse_manifest(print(manifest)), "its manifest has a tensor whose dimensions are in no order",
                       DamagedSavedStateError);
  manifest.tensors[0].part->order.clear();
  manifest.tensors[0].part->whole.assign(65, 1);
  CHECK_THROWS_WITH_AS(parse_manifest(print(manifest)), "its manifest has a tensor of too many dimensions",
                       DamagedSavedStateError);
}

TEST_CASE("a manifest may name only files of its own folder and tensors of files that it lists") {
  StateManifest manifest;
  for (const char* name : {"", "../x", "shard-00001-model-00001-of-00001.safetensors/", "model.safetensors",
                           "shard-0000a-model-00001-of-00001.safetensors"}) {
    manifest.files = {{name, 1, ""}};
    CHECK_THROWS_AS(parse_manifest(print(manifest)), DamagedSavedStateError);
  }
  manifest.files.clear();
  manifest.tensors = {{"a", safetensors::Dtype::u8, {}, 0, ""}};
  CHECK_THROWS_AS(parse_manifest(print(manifest)), DamagedSavedStateError);
}

TEST_CASE("a manifest with a changed word is rejected") {
  StateManifest manifest;
  manifest.files = {{kDataFile, 4100, "00ff"}};
  std::string text = print(manifest);
  text.replace(text.find("00ff"), 4, "00fe");
  CHECK_THROWS_WITH_AS(parse_manifest(text), "its manifest was changed", DamagedSavedStateError);
}

TEST_CASE("folder names of states sort by step") {
  CHECK(folder_name(4) == "step-00000004");
  CHECK(folder_name(123'456'789) == "step-123456789");
}

}  // namespace
}  // namespace memtune::state::state_manifest_test
