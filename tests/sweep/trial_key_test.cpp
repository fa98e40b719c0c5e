// A key of too few inputs would show old figures for a new setting. A key of too many would repeat finished trials.
#include "core/sweep/loop/trial_key.h"

#include <doctest/doctest.h>

#include <fstream>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "tests/support/run_program.h"

namespace memtune::trial_key_test {

using namespace memtune;
using memtune::sweep::TrialKeyHasher;

namespace {

plan::TrialRequest request(const std::filesystem::path& model) {
  plan::TrialRequest request;
  request.model.path = model.string();
  request.model.inputs = {plan::parse_input_spec("tokens:int64[2,4]<8")};
  request.plan.strategy = "none";
  return request;
}

}  // namespace

TEST_CASE("the hash of a file is the hash of its content even if it is empty") {
  const test::ScratchFolder folder;
  std::ofstream(folder.path / "a") << "content";
  std::ofstream(folder.path / "b");
  CHECK(sweep::hash_file(folder.path / "a") == hash_hex("content"));
  CHECK(sweep::hash_file(folder.path / "b") == hash_hex(""));
  CHECK_THROWS_WITH_AS(sweep::hash_file(folder.path / "c"),
                       ("cannot read '" + (folder.path / "c").string() + "': No such file or directory").c_str(),
                       IoError);
}

TEST_CASE("keys depend on the contents of model and settings and plan but not on paths") {
  const test::ScratchFolder folder;
  std::ofstream(folder.path / "model.pt") << "weights";
  std::ofstream(folder.path / "same.pt") << "weights";
  std::ofstream(folder.path / "other.pt") << "weight5";
  std::ofstream(folder.path / "program") << "v1";
  const plan::TrialRequest base = request(folder.path / "model.pt");
  const TrialKeyHasher keys(base.model, base.training, folder.path / "program");
  const std::string key = keys.trial(base);
  CHECK(key.size() == 32);

  plan::TrialRequest moved = request(folder.path / "same.pt");
  moved.envelope.trace = "elsewhere/trace", moved.envelope.command = "memtune profile",
  moved.envelope.reference = "elsewhere/reference";
  CHECK(TrialKeyHasher(moved.model, moved.training, folder.path / "program").trial(moved) == key);

  const plan::TrialRequest other_model = request(folder.path / "other.pt");
  CHECK(TrialKeyHasher(other_model.model, other_model.training, folder.path / "program").trial(other_model) != key);
  plan::TrialRequest other = base;
  other.training.batch = 8;
  CHECK(keys.trial(other) != key);
  CHECK(keys.setting(other) != keys.setting(base));
  other = base;
  other.plan.strategy = "checkpoint:full";
  CHECK(keys.trial(other) != key);
  CHECK(keys.setting(other) == keys.setting(base));

  std::ofstream(folder.path / "program") << "v2";
  CHECK(TrialKeyHasher(base.model, base.training, folder.path / "program").trial(base) != key);
}

TEST_CASE("the key of a config depends on the weights in its folder") {
  const test::ScratchFolder folder;
  std::ofstream(folder.path / "program") << "v1";
  std::ofstream(folder.path / "config.json") << "{}";
  const plan::TrialRequest base = request(folder.path / "config.json");
  const auto key = [&] { return TrialKeyHasher(base.model, base.training, folder.path / "program").trial(base); };
  const std::string made_up = key();
  std::ofstream(folder.path / "model.safetensors") << "weights";
  const std::string first = key();
  CHECK(first != made_up);
  std::ofstream(folder.path / "model.safetensors") << "weight5";
  CHECK(key() != first);
}

}  // namespace memtune::trial_key_test
