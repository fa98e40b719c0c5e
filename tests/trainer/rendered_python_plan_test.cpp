// The contents of a plan's Python file, for each mode, and its notes about unsupported parts. tests/python_plan checks
// that the file works.
#include "core/answer/trainer/rendered_python_plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/answer/trainer/equal_blocks_torch_function_placements.h"
#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "tests/report/sample.h"

namespace memtune::python_plan_test {

using namespace memtune;
using plan::ProgramOpFacts;
using plan::TensorPlacement;
using trainer::EagerOrCompiledExecution;

namespace {

constexpr int64_t kMiB = 1 << 20;

struct Program {
  plan::ProgramFacts facts;
  plan::Plan plan;

  ProgramOpFacts& op(int block, const std::string& region, const std::string& name, int64_t bytes, int64_t own = 0) {
    ProgramOpFacts op;
    op.name = name;
    op.region = block < 0 ? region : "model.layers." + std::to_string(block) + (region.empty() ? "" : "." + region);
    op.block = block;
    op.outputs = {static_cast<int>(facts.ops.size())};
    op.output_bytes = {bytes};
    op.output_saved = {true};
    op.private_bytes = own;
    facts.owner.push_back(static_cast<int>(facts.ops.size()));
    facts.ops.push_back(op);
    return facts.ops.back();
  }

  void place(int op, TensorPlacement outputs, TensorPlacement saved = TensorPlacement::keep) {
    plan.placements.push_back({op, full_name(facts.ops[op]), {outputs}, saved});
  }
};

// An embedding, blocks of five ops (one is a view), a head. Op 5b + 1 is the first op of block b.
Program program(int blocks) {
  Program program;
  program.facts.parameters = 1234;
  program.op(-1, "model.embed", "aten::embedding", 4 * kMiB);
  for (int block = 0; block < blocks; ++block) {
    program.facts.blocks.push_back({"model.layers." + std::to_string(block)});
    program.op(block, "attn.q", "aten::linear", 2 * kMiB).inputs = {5 * block};
    program.op(block, "attn", "aten::view", 0).view = true;
    program.op(block, "attn", "aten::softmax", 3 * kMiB, kMiB).inputs = {5 * block + 1};
    program.op(block, "", "aten::add", 4 * kMiB).inputs = {5 * block + 3};
    program.op(block, "", "aten::add_.Tensor", 0).in_place = true;
  }
  program.op(-1, "lm_head", "aten::linear", 8 * kMiB).inputs = {5 * blocks - 1};
  return program;
}

trainer::RenderedPythonPlan written(const Program& program,
                                    EagerOrCompiledExecution running = EagerOrCompiledExecution::eager) {
  const report::Report report = report::sample_report();
  return trainer::write_python_plan(program.plan, program.facts, report.rows[1], report, running);
}

// Parameters and optimizer states of some blocks, or of what is outside of them, in host memory.
Program with_states(Program program) {
  constexpr TensorPlacement kHost = TensorPlacement::host, kKeep = TensorPlacement::keep;
  program.plan.states = {{"model.layers.0", kHost, kHost},
                         {"model.layers.2", kHost, kKeep},
                         {"model.layers.1", kKeep, kHost},
                         {plan::kOutsideUnits, kKeep, kHost}};
  return program;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("equal blocks share one policy with a default placement for most functions") {
  Program p = program(3);
  for (const int block : {0, 2}) p.place(5 * block + 3, TensorPlacement::recompute, TensorPlacement::host);
  const trainer::PythonPlanBlockPlacements treated = trainer::make_block_policies(p.plan, p.facts);
  REQUIRE(treated.block_policies.size() == 2);
  CHECK(treated.block_policies[0].blocks == std::vector{0, 2});
  CHECK(treated.block_policies[0].others == trainer::TorchFunctionResultAndSavePlacements{});
  const trainer::PlacementsByFunction expected = {
      {"attn/softmax#0", {TensorPlacement::recompute, TensorPlacement::host}}};
  CHECK(treated.block_policies[0].functions == expected);
  CHECK(treated.block_policies[1].blocks == std::vector{1});
  CHECK(treated.block_policies[1].functions.empty());
  CHECK(treated.regions == std::vector<std::string>{"attn", "attn.q"});
  CHECK(treated.notes.empty());
}

TEST_CASE("functions are counted per module and in-place writes separately and views not at all") {
  Program p = program(1);
  p.place(1, TensorPlacement::host);
  p.place(5, TensorPlacement::recompute);
  const trainer::PythonPlanBlockPlacements treated = trainer::make_block_policies(p.plan, p.facts);
  const trainer::PlacementsByFunction expected = {{"/add_#0", {TensorPlacement::recompute, TensorPlacement::keep}},
                                                  {"attn.q/linear#0", {TensorPlacement::host, TensorPlacement::keep}}};
  CHECK(treated.block_policies[0].functions == expected);
  CHECK(treated.max_offloaded_bytes == 2 * kMiB);
  CHECK(treated.offloaded_bytes == 2 * kMiB);
}

TEST_CASE("ops that did not run are not counted unless nothing was measured") {
  Program p = program(1);
  p.facts.ops[1].output_bytes.clear();  // an op of a branch that was not taken
  p.op(0, "attn.q", "aten::linear", kMiB);
  p.place(7, TensorPlacement::host);
  CHECK(trainer::make_block_policies(p.plan, p.facts).block_policies[0].functions.contains("attn.q/linear#0"));
  for (ProgramOpFacts& op : p.facts.ops) op.output_bytes.clear();
  CHECK(trainer::make_block_policies(p.plan, p.facts).block_policies[0].functions.contains("attn.q/linear#1"));
}

TEST_CASE("a compiled model may keep as many bytes as the plan keeps and the first input counts") {
  Program p = program(2);
  for (const int block : {0, 1}) p.place(5 * block + 3, TensorPlacement::recompute, TensorPlacement::recompute);
  p.place(6, TensorPlacement::host);
  const trainer::PythonPlanBlockPlacements treated = trainer::make_block_policies(p.plan, p.facts);
  CHECK(treated.left_bytes == 14 * kMiB);  // 4 for the input, 2 for a linear, two sums of 4
  CHECK(treated.offloaded_bytes == 2 * kMiB);
  p.place(0, TensorPlacement::host);
  CHECK(trainer::make_block_policies(p.plan, p.facts).left_bytes == 10 * kMiB);
  CHECK(trainer::make_block_policies(p.plan, p.facts).offloaded_bytes == 6 * kMiB);
}

TEST_CASE("a compiled forward offloads what PCIe carries in most of a third of a step or else the plan's bytes") {
  Program p = program(2);
  p.place(6, TensorPlacement::host);
  report::Report report = report::sample_report();
  for (result::TrialResultRow& row : report.rows) row.measurement.transfer.link_out_gb_per_s = 0;
  const auto compiled = [&] {
    return trainer::write_python_plan(p.plan, p.facts, report.rows[1], report, EagerOrCompiledExecution::compiled).text;
  };
  CHECK(has(compiled(), "\"hidden_bytes\": 2097152}"));
  auto base = std::ranges::find_if(report.rows, result::is_base);
  REQUIRE(base != report.rows.end());
  base->measurement.step_ms.median = 310;
  base->measurement.optimizer_ms = 10;
  base->measurement.outcome = result::TrialOutcome::ok;
  report.rows[1].measurement.transfer.link_out_gb_per_s = 50;
  base->batch = report.rows[1].batch;
  base->sequence = report.rows[1].sequence;
  CHECK(has(compiled(), "\"hidden_bytes\": 3500000000}"));
}

TEST_CASE("the first block's input is offloaded and other places outside blocks and disk are noted") {
  Program p = program(2);
  p.place(0, TensorPlacement::host);
  CHECK(trainer::make_block_policies(p.plan, p.facts).offloads_input);
  CHECK(trainer::make_block_policies(p.plan, p.facts).notes.empty());
  p.place(11, TensorPlacement::recompute);
  p.place(3, TensorPlacement::disk);
  p.plan.nested = true;
  const trainer::PythonPlanBlockPlacements treated = trainer::make_block_policies(p.plan, p.facts);
  REQUIRE(treated.notes.size() == 3);
  CHECK(has(treated.notes[0], "disk"));
  CHECK(has(treated.notes[1], "8 MiB of activations outside"));
  CHECK(has(treated.notes[2], "nested"));
  CHECK(treated.block_policies[0].functions.at("attn/softmax#0").result == TensorPlacement::host);
}

TEST_CASE("the output of the last block does not belong to the blocks") {
  Program p = program(2);
  p.place(9, TensorPlacement::host);
  CHECK(has(trainer::make_block_policies(p.plan, p.facts).notes.at(0), "4 MiB of activations outside"));
}

TEST_CASE("the Python file has measurements and notes in its head and the plan as data and the template's code") {
  Program p = program(2);
  p.place(3, TensorPlacement::disk);
  const trainer::RenderedPythonPlan python = written(p);
  CHECK(python.text.starts_with("# memtune 0.1.0: checkpoint:full,inputs=host as Python, for PyTorch 2.6 or newer\n"));
  CHECK(has(python.text, "# measured:  step 320.0 ms (319.5 to 320.5), 1.28 x none; peak 12 GiB"));
  REQUIRE(python.notes.size() == 1);
  CHECK(has(python.text, "# note:      disk: "));
  CHECK(has(python.text, "\"path\": \"model.layers\", \"blocks\": 2, \"parameters\": 1234,\n"));
  CHECK(has(python.text, "             \"host keep\":\n                 \"attn/softmax#0\",\n"));
  CHECK_FALSE(has(python.text, "\"name\": \"example\""));
  CHECK(has(python.text, "class Value:"));
}

TEST_CASE("the Python file has only what its plan needs and stays short") {
  Program recomputed = program(60), moved = program(2);
  for (int block = 0; block < 60; ++block) recomputed.place(5 * block + 3, TensorPlacement::recompute);
  for (const int block : {0, 1}) moved.place(5 * block + 3, TensorPlacement::host);
  Program input = recomputed;
  input.place(0, TensorPlacement::host);
  const auto reads = [](const std::string& text, size_t most) {
    const std::vector<std::string> lines = split(text, '\n');
    CHECK(lines.size() - 1 <= most);
    for (const std::string& line : lines) {
      CAPTURE(line);
      CHECK(line.size() <= 120);
    }
    CHECK_FALSE(has(text, "# ["));  // marks of the template
    CHECK_FALSE(has(text, "\n\n\n\n"));
  };
  const std::string stays = written(recomputed).text, moves = written(moved).text;
  const std::string compiled = written(recomputed, EagerOrCompiledExecution::compiled).text;
  reads(stays, 435);
  reads(moves, 520);
  reads(compiled, 525);
  const std::string states = written(with_states(recomputed)).text;
  const std::string moving_states = written(with_states(input)).text;
  reads(states, 1055);
  reads(moving_states, 1115);
  for (const char* part : {"torch.cuda.Stream(", "def take(", "\"stash_bytes\"", "\"input\""}) {
    CHECK_FALSE(has(stays, part));
    CHECK(has(moves, part));
    CHECK(has(written(input).text, part));
  }
  for (const char* part : {"class OffloadedModelStates:", "\"states\"", "optimizer: Any"}) {
    for (const std::string& text : {states, moving_states}) CHECK(has(text, part));
    for (const std::string& text : {stays, moves, compiled}) CHECK_FALSE(has(text, part));
  }
  CHECK(has(states, "torch.cuda.Stream("));
  CHECK_FALSE(has(states, "\"stash_bytes\""));
  for (const char* part : {"TorchFunctionMode", "class Node:", "\"treatments\"", "\"regions\""}) {
    CHECK_FALSE(has(compiled, part));
    CHECK(has(moves, part));
  }
  for (const char* part : {"torch._inductor", "\"left_bytes\""}) {
    CHECK(has(compiled, part));
    CHECK_FALSE(has(moves, part));
  }
}

TEST_CASE("parameters and optimizer states in host memory are data of the Python file") {
  const Program p = with_states(program(3));
  const auto states = [&](const report::Report& report, int passes) {
    result::TrialResultRow row = report.rows[1];
    row.passes = passes;
    const std::string text = trainer::write_python_plan(p.plan, p.facts, row, report).text;
    const size_t begin = text.find("    \"states\": {"), end = text.find("# --- end of data ");
    return text.substr(begin, end - begin);
  };
  report::Report report = report::sample_report();
  const std::string placed =
      "    \"states\": {  # in host memory: parameters and optimizer states of these blocks\n"
      "        \"parameters\": [0, 2],\n"
      "        \"moments\": [0, 1],\n"
      "        \"outside\": 1, \"deferred\": ";
  CHECK(states(report, 1) == placed + "0},\n}\n");
  CHECK(states(report, 4) == placed + "1},\n}\n");
  report.clips_gradients = true;
  CHECK(states(report, 1) == placed + "1},\n}\n");
}

TEST_CASE("parameters and optimizer states that the Python file does not offload are refused") {
  Program p = with_states(program(3));
  CHECK_THROWS_WITH_AS(written(p, EagerOrCompiledExecution::compiled), doctest::Contains("leave out --compile"),
                       UsageError);
  CHECK_FALSE(trainer::offloads_outside_parameters(p.plan));
  p.plan.states.back().parameters = TensorPlacement::host;
  CHECK(trainer::offloads_outside_parameters(p.plan));
  CHECK_THROWS_WITH_AS(written(p), doctest::Contains("offloads parameters outside of blocks"), UsageError);
  p.plan.states.back() = {"model.layers.3", TensorPlacement::host, TensorPlacement::host};
  CHECK_THROWS_WITH_AS(written(p), doctest::Contains("'model.layers.3', which is not a block"), UsageError);
}

TEST_CASE("a plan that cannot be written as Python is refused") {
  const report::Report report = report::sample_report();
  Program p = program(1);
  CHECK_THROWS_WITH_AS(trainer::write_python_plan(p.plan, p.facts, report.rows[0], report),
                       doctest::Contains("did not work here"), UsageError);
  p.plan.placements = {{99, "x", {}, TensorPlacement::host}};
  CHECK_THROWS_WITH_AS(written(p), doctest::Contains("the plan of another model"), UsageError);
  CHECK_THROWS_WITH_AS(written({}), doctest::Contains("no repeated blocks"), UsageError);
}

TEST_CASE("a plan that is read and written again is identical byte for byte") {
  const report::Report report = report::sample_report();
  const auto copied = [&](const std::string& text) { return trainer::copy_python_plan(text, report.rows[1], report); };
  Program stays = program(3);
  stays.place(3, TensorPlacement::recompute);
  stays.facts.blocks.front().region = "model.\"l\xC3\xA4yers\\ \xE2\x80\xA8 \xE2\x80\xAE.0";
  Program moves = program(60);
  for (int block = 0; block < 60; ++block)
    moves.place(5 * block + 3, TensorPlacement::recompute, TensorPlacement::host);
  for (int block = 0; block < 60; block += 7) moves.place(5 * block + 1, TensorPlacement::host);
  moves.place(0, TensorPlacement::host);
  for (const std::string& text :
       {written(stays).text, written(moves).text, written(moves, EagerOrCompiledExecution::compiled).text,
        written(with_states(program(3))).text, written(with_states(moves)).text}) {
    CHECK(copied(text).same);
    CHECK(copied(text).text == text);
    CHECK_FALSE(has(text, "\xE2\x80"));  // no hidden characters in the code
    CHECK(copied("# another head\n" + text).same);
    CHECK(copied("# another head\n" + text).text == text);
  }
}

TEST_CASE("only the data of a modified plan file are copied") {
  const report::Report report = report::sample_report();
  Program p = program(3);
  p.place(3, TensorPlacement::recompute, TensorPlacement::host);
  const std::string text = written(p).text, mark = "# --- end of data ";
  const auto changed = [&](const std::string& before, const std::string& with) {
    std::string copy = text;
    return copy.insert(copy.find(before), with);
  };
  for (const std::string& forged :
       {changed("from __future__", "import os\n"), text + "import os\n", "import os\n" + text,
        "# a\nx = " + text.substr(text.find('"')), "# a\rimport os\n" + text, "# a\fimport os\n" + text,
        "# a\vimport os\n" + text, "# a\xE2\x80\xA8import os\n" + text, "# a\xC2\x85import os\n" + text,
        "\xEF\xBB\xBF" + text, "\n" + text, changed(mark, "import os\n"), changed(mark, "PLAN = os\n"),
        changed(mark, "# import os\n"), changed("    \"name\"", "    # \'\'\'; import os; PLAN = {\n"),
        changed("\"name\"", "\"\"  ")}) {
    CAPTURE(forged);
    const trainer::RegeneratedPythonPlan copy = trainer::copy_python_plan(forged, report.rows[1], report);
    CHECK_FALSE(copy.same);
    CHECK(copy.text == text);
  }
}

TEST_CASE("data with more than literals or of no plan are refused") {
  const report::Report report = report::sample_report();
  Program p = program(3);
  p.place(3, TensorPlacement::recompute, TensorPlacement::host);
  const std::string text = written(p).text;
  const auto refused = [&](const std::string& file) {
    CAPTURE(file);
    CHECK_THROWS_AS(trainer::copy_python_plan(file, report.rows[1], report), UsageError);
  };
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string copy = text;
    return copy.replace(copy.find(part), part.size(), other);
  };
  for (const char* value : {"1 << 20", "f()", "{**a}", "[].append(1)", "1 2", "1.5", "-1", "\'x\'", "\"x\"", "None",
                            "True", "0x10", "(3)", "1 # \rimport os\n", "1\r", "1\t", "1;", "99999999999999999999"})
    refused(with("\"blocks\": 3", "\"blocks\": " + std::string(value)));
  for (const char* name : {"r\"model\"", "\"mo\ndel\"", "\"\\x41\"", "\"\\N{BULLET}\"", "\"a\" + \"b\"", "\"a\" % 1",
                           "[\"model\"]", "\"\xFF\"", "\"a"})
    refused(with("\"model.layers\"", name));
  refused(with("\"recompute host\"", "\"disk host\""));
  refused(with("\"recompute host\"", "\"host\""));
  refused(with("\"parameters\": 1234", "\"parameters\": 1234, \"parameters\": 5"));
  refused(with("\"parameters\": 1234", "\"parameters\": 1234, \"more\": 5"));
  refused(with("\"parameters\": 1234,", ""));
  refused(with("{\"blocks\": [0", "{\"blocks\": [7"));
  refused(text.substr(0, text.find("    \"treatments\"")));
  const std::string states = written(with_states(p)).text;
  const auto with_other_states = [&](const std::string& part, const std::string& other) {
    std::string copy = states;
    return copy.replace(copy.find(part), part.size(), other);
  };
  for (const char* list : {"[0, 3]", "[-1]", "[\"0\"]", "0", "{}", "[0.5]", "[f()]"})
    for (const char* key : {"\"parameters\": [0, 2]", "\"moments\": [0, 1]"})
      refused(with_other_states(key, std::string(key).substr(0, std::string(key).find(' ') + 1) + list));
  for (const char* key : {"\"outside\": 1", "\"deferred\": 0"})
    for (const char* value : {"2", "-1", "\"1\"", "True", "[1]"})
      refused(with_other_states(key, std::string(key).substr(0, std::string(key).size() - 1) + value));
  refused(with_other_states("        \"moments\": [0, 1],\n", ""));
  refused(with_other_states("\"outside\": 1", "\"outside\": 1, \"more\": 1"));
  for (const char* other : {"", "#", "# nothing", "\nPLAN: dict[str, Any] = {\n", "\nPLAN: dict[str, Any] = {\n}\n"})
    refused(other);
  refused("\nPLAN: dict[str, Any] = {\n" + std::string(100'000, '['));
}

}  // namespace memtune::python_plan_test
