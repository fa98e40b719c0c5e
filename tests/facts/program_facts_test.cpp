// Facts cross a process boundary. Strategies use their numbers as indices, so wrong numbers must be refused here.
#include "core/plan/facts/program_facts.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace memtune::program_facts_test {

using namespace memtune;
using namespace memtune::plan;
using nlohmann::json;

namespace {

ProgramFacts example() {
  ProgramFacts facts;
  facts.kind = "scripted";
  facts.blocks = {{"layers.0"}};
  facts.ops.resize(2);
  facts.ops[0].name = "aten::linear";
  facts.ops[0].region = "layers.0.up";
  facts.ops[0].block = 0;
  facts.ops[0].inputs = {0};
  facts.ops[0].outputs = {1};
  facts.ops[0].op_class = OpClass::matmul;
  facts.ops[0].source = "model.py:42";
  facts.ops[0].output_bytes = {64};
  facts.ops[0].output_saved = {true};
  facts.ops[0].private_bytes = 8;
  facts.ops[0].flops = 96;
  facts.ops[0].dtype = "bfloat16";
  facts.ops[1].name = "aten::dropout_";
  facts.ops[1].after_blocks = facts.ops[1].view = facts.ops[1].in_place = true;
  facts.ops[1].random = true;
  facts.ops[1].inputs = {1};
  facts.ops[1].outputs = {2};
  facts.parameters = 5;
  facts.parameter_bytes = 20;
  facts.trained_bytes = 12;
  facts.trained_embeddings = 3;
  facts.notes = {"dropout is fixed by the trace"};
  facts.owner = {-1, 0, 0};
  return facts;
}

void check_refused(const json& patch, const std::string& message) {
  json facts = example();
  facts.merge_patch(patch);
  CHECK_THROWS_WITH_AS(facts.get<ProgramFacts>(), message.c_str(), UsageError);
}

}  // namespace

TEST_CASE("autograd saves the private bytes of an op and the outputs that it marks") {
  ProgramOpFacts op = example().ops[0];
  CHECK(saved_bytes(op) == 72);
  op.output_bytes = {64, 100};
  op.output_saved = {false, true};
  CHECK(saved_bytes(op) == 108);
  op.output_saved = {};  // not measured
  CHECK(saved_bytes(op) == 8);
}

TEST_CASE("program facts are read back from their file unchanged") {
  const json written = example();
  const ProgramFacts facts = json::parse(written.dump()).get<ProgramFacts>();
  CHECK(json(facts) == written);
  REQUIRE(facts.ops.size() == 2);
  CHECK(facts.ops[0].block == 0);
  CHECK(facts.ops[0].op_class == OpClass::matmul);
  CHECK_FALSE(facts.ops[0].view);
  CHECK(facts.ops[0].source == "model.py:42");
  CHECK(facts.ops[0].output_bytes == std::vector<int64_t>{64});
  CHECK(facts.ops[0].output_saved == std::vector<bool>{true});
  CHECK(facts.ops[0].private_bytes == 8);
  CHECK(facts.ops[0].flops == 96);
  CHECK(facts.ops[0].dtype == "bfloat16");
  CHECK(facts.ops[1].output_bytes.empty());
  CHECK(facts.ops[1].block == -1);
  CHECK((facts.ops[1].after_blocks && facts.ops[1].view && facts.ops[1].in_place));
  CHECK(facts.ops[1].random);
  CHECK(facts.ops[1].op_class == OpClass::unknown);
  CHECK(facts.parameter_bytes == 20);
  CHECK(facts.trained_bytes == 12);
  CHECK(facts.trained_embeddings == 3);
  CHECK(facts.notes.size() == 1);
  CHECK(facts.owner == std::vector<int>{-1, 0, 0});
}

TEST_CASE("empty program facts are valid") {
  const ProgramFacts facts = json(ProgramFacts{}).get<ProgramFacts>();
  CHECK(facts.ops.empty());
  CHECK(facts.owner.empty());
}

TEST_CASE("fields of another version are ignored in program facts") {
  const json facts = {{"kind", "scripted"},
                      {"ops", {{{"name", "a"}, {"matmul", true}}}},
                      {"owner", json::array()},
                      {"blocks", {{{"region", "layers.0"}, {"size", 3}}}},
                      {"inputs", json::array()}};
  CHECK(facts.get<ProgramFacts>().ops[0].name == "a");
}

TEST_CASE("measurements of an op have one entry per output") {
  check_refused({{"ops", {{{"name", "a"}, {"outputs", {1}}, {"output_bytes", {1, 2}}}, {{"name", "b"}}}}},
                "facts.ops[0].output_bytes must have one entry an output, 1, not 2");
  check_refused({{"ops", {{{"name", "a"}, {"outputs", {1}}, {"output_saved", {true, true}}}, {{"name", "b"}}}}},
                "facts.ops[0].output_saved must have one entry an output, 1, not 2");
  check_refused({{"ops", {{{"name", "a"}, {"outputs", {1}}, {"output_saved", {1}}}, {{"name", "b"}}}}},
                "facts.ops[0].output_saved[0] must be true or false, not 1");
}

TEST_CASE("numbers out of range are refused in program facts") {
  check_refused({{"owner", {-1, 0, 2}}}, "facts.owner[2] must be an integer from -1 to 1, not 2");
  check_refused({{"ops", {{{"name", "a"}, {"inputs", {3}}}, {{"name", "b"}}}}},
                "facts.ops[0].inputs[0] must be an integer from 0 to 2, not 3");
  check_refused({{"ops", {{{"name", "a"}}, {{"name", "b"}, {"block", 1}}}}},
                "facts.ops[1].block must be an integer from -1 to 0, not 1");
  check_refused({{"ops", {{{"name", "a"}}, {{"nome", "b"}}}}}, "facts.ops[1].name is missing");
}

}  // namespace memtune::program_facts_test
