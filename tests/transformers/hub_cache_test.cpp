// A model that huggingface_hub downloaded is found by its name in the cache; nothing else is.
#include "core/model/transformers/hub_cache.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/run_program.h"
namespace memtune::model::hub_cache_test {
namespace {

namespace fs = std::filesystem;

struct Cache : test::ScratchFolder {
  Cache() { setenv("HF_HUB_CACHE", path.c_str(), 1); }
  ~Cache() { unsetenv("HF_HUB_CACHE"); }

  fs::path add(const std::string& revision) const {
    const fs::path folder = path / "models--acme--tiny" / "snapshots" / revision;
    fs::create_directories(folder);
    std::ofstream(folder / "config.json") << "{}";
    return folder;
  }
  void set_main(const std::string& revision) const {
    fs::create_directories(path / "models--acme--tiny" / "refs");
    std::ofstream(path / "models--acme--tiny" / "refs" / "main") << revision;
  }
};

TEST_CASE("a hub model is the revision of main or the only one in the cache") {
  const Cache cache;
  CHECK_FALSE(cached_model("acme/tiny"));
  const fs::path first = cache.add("aaa");
  CHECK(cached_model("acme/tiny") == first);
  const fs::path second = cache.add("bbb");
  CHECK_FALSE(cached_model("acme/tiny"));  // nothing selects one of them
  cache.set_main("bbb");
  CHECK(cached_model("acme/tiny") == second);
  fs::remove(second / "config.json");  // only its weights were downloaded
  CHECK(cached_model("acme/tiny") == first);
}

TEST_CASE("a text that is no name of the hub is not looked up") {
  const Cache cache;
  cache.add("aaa");
  for (const char* name : {"acme", "acme/tiny/x", "/acme/tiny", "../tiny", "acme/", "acme/ti ny", "./tiny", ""}) {
    CHECK_FALSE_MESSAGE(is_hub_name(name), name);
    CHECK_FALSE(cached_model(name));
  }
  CHECK(is_hub_name("acme/tiny-1.5_b"));
}

TEST_CASE("the cache is the folder that the variables of huggingface_hub select") {
  const char* home = std::getenv("HOME");
  REQUIRE(home != nullptr);
  unsetenv("HF_HUB_CACHE");
  setenv("HF_HOME", "/somewhere", 1);
  CHECK(hub_cache() == "/somewhere/hub");
  unsetenv("HF_HOME");
  const char* old = std::getenv("XDG_CACHE_HOME");
  const std::string kept = old ? old : "";
  setenv("XDG_CACHE_HOME", "/cache", 1);
  CHECK(hub_cache() == "/cache/huggingface/hub");
  unsetenv("XDG_CACHE_HOME");
  CHECK(hub_cache() == fs::path(home) / ".cache/huggingface/hub");
  if (old) setenv("XDG_CACHE_HOME", kept.c_str(), 1);
}

}  // namespace
}  // namespace memtune::model::hub_cache_test
