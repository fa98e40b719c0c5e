// The roofline of an op, on numbers that can be checked by hand. One machine computes 1e8 flops and transfers 1e6 bytes
// per ms, the other 2e8 and 0.8e6.
#include "core/plan/planner/cross_machine_roofline.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/record/trace/private_save.h"

namespace memtune::roofline_test {

using namespace memtune;
using plan::MachineProfile;
using plan::RecordedStepCosts;
using planner::CrossMachineRoofline;

namespace {

MachineProfile machine(const char* name, std::map<std::string, double> tflops, double memory_gb_per_s) {
  MachineProfile machine;
  machine.name = name;
  machine.tflops = std::move(tflops);
  machine.memory_gb_per_s = memory_gb_per_s;
  return machine;
}

const MachineProfile kHere = machine("here", {{"float32", 0.01}, {"tf32", 0.05}, {"bfloat16", 0.1}}, 1);
const MachineProfile kThere = machine("there", {{"float32", 0.04}, {"tf32", 0.1}, {"bfloat16", 0.2}}, 0.8);

struct Program {
  Program() { facts.parameters = 250'000; }

  plan::ProgramFacts facts;
  RecordedStepCosts costs;

  int value(int64_t bytes, int run = -1, int output = 0) {
    costs.values.push_back({.run = run, .output = output, .bytes = bytes});
    return static_cast<int>(costs.values.size()) - 1;
  }
  RecordedStepCosts::Run& run(const std::string& name, double flops, std::vector<int> reads, int64_t made,
                              const std::string& dtype = "bfloat16") {
    plan::ProgramOpFacts op;
    op.name = name;
    op.op_class = plan::traits_of(name).op_class;
    op.flops = flops;
    op.dtype = flops > 0 ? dtype : "";
    facts.ops.push_back(op);
    const int i = static_cast<int>(costs.runs.size());
    costs.runs.push_back({.op = i, .reads = std::move(reads)});
    if (made > 0) costs.runs.back().makes = {value(made, i)};
    return costs.runs.back();
  }
  CrossMachineRoofline roofline() const { return {facts, costs, kHere, kThere, "bfloat16"}; }
};

}  // namespace

TEST_CASE("an op without flops is bound by the bytes it moves and a view takes no time") {
  Program program;
  const int x = program.value(1'000'000);
  program.run("aten::silu", 0, {x}, 1'000'000);
  program.run("aten::transpose", 0, {x}, 0);
  const CrossMachineRoofline roofline = program.roofline();
  CHECK(roofline.forward(0).from_ms == doctest::Approx(2));
  CHECK(roofline.forward(0).to_ms == doctest::Approx(2.5));
  CHECK(roofline.forward(1).from_ms == 0);
  CHECK(roofline.memory_ratio() == doctest::Approx(1.25));
  CHECK(roofline.arithmetic_ratio(0) == doctest::Approx(0.25));  // by float32
}

TEST_CASE("a matmul is bound by its flops or by its bytes with the parameter") {
  Program program;
  const int x = program.value(1'000'000);  // 1000 by 500, the parameter 500 by 500
  program.run("aten::linear", 5e8, {x}, 1'000'000);
  const CrossMachineRoofline roofline = program.roofline();
  CHECK(roofline.forward(0).from_ms == doctest::Approx(5));
  CHECK(roofline.forward(0).to_ms == doctest::Approx(2.5e6 / 0.8e6));
  CHECK(roofline.arithmetic_ratio(0) == doctest::Approx(0.5));
  CHECK(roofline.bound_by_arithmetic(0));
}

TEST_CASE("both factors of a matmul are read once and a private value is no output") {
  Program program;
  const int a = program.value(1'000'000), b = program.value(500'000);
  RecordedStepCosts::Run& run = program.run("aten::matmul", 1e6, {a, b}, 1'000'000);
  CHECK(program.roofline().forward(0).from_ms == doctest::Approx(2.5));
  CHECK_FALSE(program.roofline().bound_by_arithmetic(0));
  run.reads = {a};
  run.makes.push_back(program.value(500'000, 0, kPrivateSave));  // the parameter, cast
  program.facts.ops[0].flops = 5e8;
  CHECK(program.roofline().forward(0).to_ms == doctest::Approx(3e6 / 0.8e6));
  program.facts.parameters = 100'000;  // the model has no more parameters
  CHECK(program.roofline().forward(0).to_ms == doctest::Approx(2.7e6 / 0.8e6));
}

TEST_CASE("float32 convolutions use tf32 and matmuls do not and a missing dtype is the usual one") {
  Program program;
  const int x = program.value(1000);
  program.run("aten::conv2d", 1e9, {x}, 1000, "float32");
  program.run("aten::linear", 1e9, {x}, 1000, "float32");
  program.run("aten::linear", 1e9, {x}, 1000, "");
  const CrossMachineRoofline roofline = program.roofline();
  CHECK(roofline.arithmetic_ratio(0) == doctest::Approx(0.5));
  CHECK(roofline.forward(0).from_ms == doctest::Approx(20));
  CHECK(roofline.arithmetic_ratio(1) == doctest::Approx(0.25));
  CHECK(roofline.arithmetic_ratio(2) == doctest::Approx(0.5));
}

TEST_CASE("an op that runs twice has half of its flops each time and invalid flops are unknown") {
  Program program;
  const int x = program.value(1000);
  program.run("aten::linear", 1e9, {x}, 1000);
  program.run("aten::linear", 1e300, {x}, 1000);
  program.costs.runs.push_back(program.costs.runs[0]);
  const CrossMachineRoofline roofline = program.roofline();
  CHECK(roofline.forward(0).from_ms == doctest::Approx(5));
  CHECK(roofline.forward(2).from_ms == doctest::Approx(5));
  CHECK(roofline.forward(1).from_ms == 0);
  CHECK((roofline.unknown(1) && !roofline.unknown(0)));
}

TEST_CASE("a backward takes twice its forward and includes earlier ops that saved nothing") {
  Program program;
  const int x = program.value(1'000'000);
  program.run("aten::add", 0, {x}, 1'000'000);
  program.run("aten::silu", 0, {x}, 1'000'000).saves = {0};
  program.run("aten::relu", 0, {x}, 1'000'000).saves = {1};
  const CrossMachineRoofline roofline = program.roofline();
  CHECK(roofline.backward(0).from_ms == 0);
  CHECK(roofline.backward(1).from_ms == doctest::Approx(2 * 2 + 2));
  CHECK(roofline.backward(2).from_ms == doctest::Approx(2 * 2));
}

TEST_CASE("a dtype without a rate in the machine profile is a usage error") {
  Program program;
  program.run("aten::linear", 1e9, {program.value(1000)}, 1000, "float16");
  CHECK_THROWS_WITH_AS(program.roofline(),
                       "machine 'here' has no rate of float16, in which this model multiplies; it has bfloat16, "
                       "float32, tf32",
                       UsageError);
}

}  // namespace memtune::roofline_test
