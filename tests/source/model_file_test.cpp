// People pass whatever lies around: each file must be named for what it is before anything is asked for, and a hostile
// one must not be read beyond its end.
#include "core/model/source/model_file.h"

#include <doctest/doctest.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/pt2/made_up_zip.h"
#include "tests/support/run_program.h"

namespace memtune::model {
namespace {

using test::zip;

struct plan::Place : test::ScratchFolder {
  std::string instead(const std::string& content) const {
    std::ofstream(path / "file", std::ios::binary) << content;
    return look_at_model(path / "file").instead;
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("a file that is no TorchScript is named for what it is") {
  const plan::Place place;
  CHECK(look_at_model(place.path / "none").instead == "there is no such file");
  CHECK(has(look_at_model(place.path).instead, "it is a folder"));
  CHECK(place.instead("") == "it is empty");
  CHECK(has(place.instead("hello"), "it is no zip archive"));
  CHECK(has(place.instead(test::little(20, 8) + "{\"w\":{}}" + std::string(40, ' ')), "safetensors"));
  CHECK(has(place.instead("\x80\x02}q"), "it is a pickle"));
  CHECK(has(place.instead("GGUF...."), "GGUF"));
  CHECK(has(place.instead(zip({{"archive_format", "pt2"}, {"data/aotinductor/m.so", "x"}})), "as AOTInductor writes"));
  CHECK(has(place.instead(zip({{"serialized_exported_program.json", "{}"}})), "of an older torch"));
  CHECK(has(place.instead(zip({{"data.pkl", "OrderedDict"}, {"data/0", "x"}})), "it is a state_dict"));
  CHECK(has(place.instead(zip({{"data.pkl", "_parameters _buffers _modules"}})), "pickled by torch.save"));
  CHECK(has(place.instead(zip({{"readme.txt", "x"}})), "without TorchScript code"));
}

TEST_CASE("a Hugging Face model is its config.json, or the folder that has one") {
  const plan::Place place;
  CHECK(place.instead("{\n \"architectures\": [], \"model_type\": \"llama\"}") == "");
  CHECK(look_at_model(place.path / "file").config == place.path / "file");
  std::ofstream(place.path / "config.json") << "{}";
  CHECK(look_at_model(place.path).instead == "");
  CHECK(look_at_model(place.path).config == place.path / "config.json");
}

TEST_CASE("TorchScript is what has constants and code, and its records are told") {
  const plan::Place place;
  const std::string whole = zip({{"data.pkl", "x"}, {"code/__torch__.py", "x"}, {"constants.pkl", "x"}});
  CHECK(place.instead(whole) == "");
  CHECK(look_at_model(place.path / "file").has("code/__torch__"));
  CHECK(has(place.instead(whole.substr(0, whole.size() / 2)), "damaged or cut off"));
}

TEST_CASE("an archive of torch.export is what has models") {
  const plan::Place place;
  CHECK(place.instead(zip({{"archive_format", "pt2"}, {"models/model.json", "{}"}})) == "");
  CHECK(look_at_model(place.path / "file").exported);
}

TEST_CASE("an archive that says it becomes far more than it is, is refused before anybody unpacks it") {
  const plan::Place place;
  std::string content = zip({{"data.pkl", "x"}, {"code/__torch__.py", "x"}, {"constants.pkl", "x"}});
  const auto says = [&](uint64_t unpacked_bytes) {
    content.replace(content.find("PK\1\2") + 24, 4, test::little(unpacked_bytes, 4));
    return place.instead(content);
  };
  CHECK(says(uint64_t{256} << 20) == "");
  CHECK(has(says(uint64_t{300} << 20), " B unpack to 300.0 MiB"));
}

TEST_CASE("a directory that lies about where it is or how long is read to the file's end, no further") {
  const plan::Place place;
  const std::string whole = zip({{"data.pkl", "x"}, {"code/__torch__.py", "x"}});
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char value : {'\x00', '\x7f', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = value;
      place.instead(damaged);  // any answer
    }
}

}  // namespace
}  // namespace memtune::model
