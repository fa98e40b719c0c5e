#include "core/state/manifest.h"

#include <doctest/doctest.h>

#include "core/state/state_folder.h"

namespace memtune::state {
namespace {

TEST_CASE("a manifest is read as it was printed") {
  Manifest manifest;
  manifest.step = 12;
  manifest.settings = {{"--lora", ""}, {"--lr", "0.001"}};
  manifest.files = {{kDataFile, 4100, "00ff"}, {"shard-00001-model-00002-of-00003.safetensors", 0, "11"}};
  manifest.tensors = {{"a", safetensors::Dtype::bf16, {2, 1}, 0, "22"},
                      {"\xC3\xBC \"", safetensors::Dtype::i64, {}, 1, "33"}};
  const Manifest read = parse_manifest(print(manifest));
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

TEST_CASE("a manifest names files of its own folder alone, and tensors in files that it has") {
  Manifest manifest;
  for (const char* name : {"", "../x", "shard-00001-model-00001-of-00001.safetensors/", "model.safetensors",
                           "shard-0000a-model-00001-of-00001.safetensors"}) {
    manifest.files = {{name, 1, ""}};
    CHECK_THROWS_AS(parse_manifest(print(manifest)), Damaged);
  }
  manifest.files.clear();
  manifest.tensors = {{"a", safetensors::Dtype::u8, {}, 0, ""}};
  CHECK_THROWS_AS(parse_manifest(print(manifest)), Damaged);
}

TEST_CASE("a manifest of which any word was changed is refused, whatever it says") {
  Manifest manifest;
  manifest.files = {{kDataFile, 4100, "00ff"}};
  std::string text = print(manifest);
  text.replace(text.find("00ff"), 4, "00fe");
  CHECK_THROWS_WITH_AS(parse_manifest(text), "its manifest was changed", Damaged);
}

TEST_CASE("states' folders are in the order of their steps by name") {
  CHECK(folder_name(4) == "step-00000004");
  CHECK(folder_name(123'456'789) == "step-123456789");
}

}  // namespace
}  // namespace memtune::state
