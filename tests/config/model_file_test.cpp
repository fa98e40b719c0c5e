// People pass whatever lies around: each file must be named for what it is before anything is asked for, and a hostile
// one must not be read beyond its end.
#include "core/config/model_file.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

#include "core/base/error.h"

namespace memtune::config {
namespace {

namespace fs = std::filesystem;

struct Place {
  fs::path path = fs::temp_directory_path() / ("memtune-model-file-" + std::to_string(::getpid()));
  Place() { fs::create_directories(path); }
  ~Place() { fs::remove_all(path); }
  std::string instead(const std::string& content) const {
    std::ofstream(path / "file", std::ios::binary) << content;
    return look_at_model(path / "file").instead;
  }
};

std::string bytes(uint64_t number, int count) {
  std::string text;
  for (int i = 0; i < count; ++i, number >>= 8) text += static_cast<char>(number);
  return text;
}

// A zip archive with stored records of the folder "m".
std::string zip(const std::vector<std::pair<std::string, std::string>>& records) {
  std::string file, directory;
  for (const auto& [name, content] : records) {
    const std::string path = "m/" + name, sizes = bytes(content.size(), 4) + bytes(content.size(), 4);
    directory += "PK\1\2" + bytes(0, 16) + sizes + bytes(path.size(), 2) + bytes(0, 12) + bytes(file.size(), 4) + path;
    file += "PK\3\4" + bytes(0, 14) + sizes + bytes(path.size(), 2) + bytes(0, 2) + path + content;
  }
  return file + directory + "PK\5\6" + bytes(0, 8) + bytes(directory.size(), 4) + bytes(file.size(), 4) + bytes(0, 2);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("a file that is no TorchScript is named for what it is") {
  const Place place;
  CHECK(look_at_model(place.path / "none").instead == "there is no such file");
  CHECK(has(look_at_model(place.path).instead, "it is a folder"));
  CHECK(place.instead("") == "it is empty");
  CHECK(has(place.instead("hello"), "it is no zip archive"));
  CHECK(has(place.instead(bytes(20, 8) + "{\"w\":{}}" + std::string(40, ' ')), "safetensors"));
  CHECK(has(place.instead("{\n \"architectures\": [], \"model_type\": \"llama\"}"), "Hugging Face config.json"));
  CHECK(has(place.instead("\x80\x02}q"), "it is a pickle"));
  CHECK(has(place.instead("GGUF...."), "GGUF"));
  CHECK(has(place.instead(zip({{"archive_format", "pt2"}, {"models/model.json", "{}"}})), "torch.export archive"));
  CHECK(has(place.instead(zip({{"data.pkl", "OrderedDict"}, {"data/0", "x"}})), "it is a state_dict"));
  CHECK(has(place.instead(zip({{"data.pkl", "_parameters _buffers _modules"}})), "pickled by torch.save"));
  CHECK(has(place.instead(zip({{"readme.txt", "x"}})), "without TorchScript code"));
  std::ofstream(place.path / "config.json") << "{}";
  CHECK(has(look_at_model(place.path).instead, "Hugging Face folder"));
}

TEST_CASE("TorchScript is what has constants and code, and its records are told") {
  const Place place;
  const std::string whole = zip({{"data.pkl", "x"}, {"code/__torch__.py", "x"}, {"constants.pkl", "x"}});
  CHECK(place.instead(whole) == "");
  CHECK(look_at_model(place.path / "file").has("code/__torch__"));
  CHECK(has(place.instead(whole.substr(0, whole.size() / 2)), "damaged or cut off"));
}

TEST_CASE("a directory that lies about where it is or how long is read to the file's end, no further") {
  const Place place;
  const std::string whole = zip({{"data.pkl", "x"}, {"code/__torch__.py", "x"}});
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char value : {'\x00', '\x7f', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = value;
      place.instead(damaged);  // any answer
    }
}

}  // namespace
}  // namespace memtune::config
