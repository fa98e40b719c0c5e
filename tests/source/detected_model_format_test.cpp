// Users pass any file. Its type must be named before anything else is asked, and a hostile file must not be read beyond
// its end.
#include "core/model/source/detected_model_format.h"

#include <doctest/doctest.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/pt2/made_up_zip.h"
#include "tests/support/run_program.h"
namespace memtune::model::model_file_info_test {
namespace {

using test::zip;

struct Place : test::ScratchFolder {
  std::string unusable_reason(const std::string& content) const {
    std::ofstream(path / "file", std::ios::binary) << content;
    return inspect_model_file(path / "file").unusable_reason;
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("a file that is not TorchScript is refused with its actual type") {
  const Place place;
  CHECK(inspect_model_file(place.path / "none").unusable_reason == "there is no such file");
  CHECK(has(inspect_model_file(place.path).unusable_reason, "it is a folder"));
  CHECK(place.unusable_reason("") == "it is empty");
  CHECK(has(place.unusable_reason("hello"), "it is no zip archive"));
  CHECK(has(place.unusable_reason(test::little(20, 8) + "{\"w\":{}}" + std::string(40, ' ')), "safetensors"));
  CHECK(has(place.unusable_reason("\x80\x02}q"), "it is a pickle"));
  CHECK(has(place.unusable_reason("GGUF...."), "GGUF"));
  CHECK(has(place.unusable_reason(zip({{"archive_format", "pt2"}, {"data/aotinductor/m.so", "x"}})),
            "as AOTInductor writes"));
  CHECK(has(place.unusable_reason(zip({{"serialized_exported_program.json", "{}"}})), "of an older torch"));
  CHECK(has(place.unusable_reason(zip({{"data.pkl", "OrderedDict"}, {"data/0", "x"}})), "it is a state_dict"));
  CHECK(has(place.unusable_reason(zip({{"data.pkl", "_parameters _buffers _modules"}})), "pickled by torch.save"));
  CHECK(has(place.unusable_reason(zip({{"readme.txt", "x"}})), "without TorchScript code"));
}

TEST_CASE("a Hugging Face model is a config.json or the folder that has one") {
  const Place place;
  CHECK(place.unusable_reason("{\n \"architectures\": [], \"model_type\": \"llama\"}") == "");
  CHECK(inspect_model_file(place.path / "file").config == place.path / "file");
  std::ofstream(place.path / "config.json") << "{}";
  CHECK(inspect_model_file(place.path).unusable_reason == "");
  CHECK(inspect_model_file(place.path).config == place.path / "config.json");
}

TEST_CASE("an archive with constants and code is TorchScript and its records are listed") {
  const Place place;
  const std::string whole = zip({{"data.pkl", "x"}, {"code/__torch__.py", "x"}, {"constants.pkl", "x"}});
  CHECK(place.unusable_reason(whole) == "");
  CHECK(inspect_model_file(place.path / "file").has("code/__torch__"));
  CHECK(has(place.unusable_reason(whole.substr(0, whole.size() / 2)), "damaged or cut off"));
}

TEST_CASE("an archive with models is one of torch.export") {
  const Place place;
  CHECK(place.unusable_reason(zip({{"archive_format", "pt2"}, {"models/model.json", "{}"}})) == "");
  CHECK(inspect_model_file(place.path / "file").exported);
}

TEST_CASE("an archive with too large unpacked sizes is refused before it is unpacked") {
  const Place place;
  std::string content = zip({{"data.pkl", "x"}, {"code/__torch__.py", "x"}, {"constants.pkl", "x"}});
  const auto says = [&](uint64_t unpacked_bytes) {
    content.replace(content.find("PK\1\2") + 24, 4, test::little(unpacked_bytes, 4));
    return place.unusable_reason(content);
  };
  CHECK(says(uint64_t{256} << 20) == "");
  CHECK(has(says(uint64_t{300} << 20), " B unpack to 300.0 MiB"));
}

TEST_CASE("a zip directory with wrong offsets or lengths is not read beyond the file's end") {
  const Place place;
  const std::string whole = zip({{"data.pkl", "x"}, {"code/__torch__.py", "x"}});
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char value : {'\x00', '\x7f', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = value;
      place.unusable_reason(damaged);  // any answer
    }
}

}  // namespace
}  // namespace memtune::model::model_file_info_test
