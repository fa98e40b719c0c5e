// The pooling decides which tokens get gradients, so it must be that of the folder.
#include "core/model/transformers/sentence_pooling_config.h"

#include <doctest/doctest.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/support/run_program.h"

namespace memtune::sentence_modules_test {

using namespace memtune::model;

namespace {

constexpr char kTransformer[] = R"({"idx": 0, "name": "0", "path": "", "type": "a.models.Transformer"})";
constexpr char kNormalize[] = R"({"idx": 2, "name": "2", "path": "2_Normalize", "type": "a.modules.Normalize"})";

struct Place : test::ScratchFolder {
  SentencePoolingConfig read(const char* class_name = "LlamaModel") const {
    TransformersConfig model;
    model.class_name = class_name;
    return read_sentence_modules(path / "config.json", model);
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
  SentencePoolingMethod pooled_by(const std::string& config) const {
    write("modules.json", "[" + std::string(kTransformer) + R"(, {"path": "1_Pooling", "type": "a.models.Pooling"}])");
    write("1_Pooling/config.json", config);
    return read().pooling;
  }
};

TEST_CASE("a plain folder pools by the mean, and by the last token if it is of a language model") {
  const Place place;
  CHECK(place.read().pooling == SentencePoolingMethod::mean);
  CHECK(place.read("LlamaForCausalLM").pooling == SentencePoolingMethod::last);
  CHECK_FALSE(place.read().normalized);
  CHECK(read_sentence_modules({}, TransformersConfig()).pooling == SentencePoolingMethod::mean);
}

TEST_CASE("older and newer files of the pooling mean the same") {
  const Place place;
  CHECK(place.pooled_by(R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})") ==
        SentencePoolingMethod::first);
  CHECK(place.pooled_by(R"({"pooling_mode_mean_tokens": true})") == SentencePoolingMethod::mean);
  CHECK(place.pooled_by(R"({"pooling_mode_lasttoken": true})") == SentencePoolingMethod::last);
  CHECK(place.pooled_by(R"({"embedding_dimension": 8})") == SentencePoolingMethod::mean);
  CHECK(place.pooled_by(R"({"pooling_mode": "lasttoken"})") == SentencePoolingMethod::last);
  CHECK(place.pooled_by(R"({"pooling_mode": ["cls"]})") == SentencePoolingMethod::first);
}

TEST_CASE("embeddings are normalized if a module says so") {
  const Place place;
  place.write("modules.json", "[" + std::string(kTransformer) + ", " + kNormalize + "]");
  CHECK(place.read().normalized);
}

TEST_CASE("other modules are refused with what to do") {
  const Place place;
  const std::string way =
      " is not supported. memtune convert --task embedding makes a model.pt2 of it; or measure the "
      "training command: memtune sweep -- COMMAND";
  CHECK_THROWS_WITH_AS(place.pooled_by(R"({"pooling_mode": "max"})"),
                       ("1_Pooling/config.json: pooling by max" + way).c_str(), UsageError);
  CHECK_THROWS_WITH_AS(place.pooled_by(R"({"pooling_mode": ["cls", "mean"]})"),
                       ("1_Pooling/config.json: pooling by several ways" + way).c_str(), UsageError);
  place.write("modules.json", R"([{"path": "2_Dense", "type": "a.models.Dense"}])");
  CHECK_THROWS_WITH_AS(place.read(), ("modules.json: the module Dense" + way).c_str(), UsageError);
  place.write("modules.json", "{}");
  CHECK_THROWS_WITH_AS(place.read(), "modules.json is no list of modules", UsageError);
}

}  // namespace
}  // namespace memtune::sentence_modules_test
