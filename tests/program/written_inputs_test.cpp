// Every step gets the same batch, so a write into it would change the input of the next step.
#include "core/model/program/written_inputs.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/model/frontend/program_emitter.h"
namespace memtune::program::written_inputs_test {
namespace {

using frontend::ProgramEmitter;
using frontend::Value;

using Flags = std::vector<bool>;

TEST_CASE("an input is written directly or through a view or in a branch but not through a copy") {
  Program program;
  ProgramEmitter emit(program);
  const Value a = emit.input("a"), b = emit.input("b"), c = emit.input("c"), d = emit.input("d"), on = emit.input("on");
  emit.op("aten::relu_", "", {a});
  const Value row = emit.op("aten::select", "int", {emit.op("aten::t", "", {b}), 0, 0});
  emit.op("aten::add_", "Scalar", {row, 1});
  emit.op("aten::relu_", "", {emit.op("aten::neg", "", {c})});
  const auto write = [&] { return frontend::Values{emit.op("aten::relu_", "", {d})}; };
  const auto keep = [&] { return frontend::Values{c}; };
  emit.answer(emit.branch(on, write, keep)[0]);
  CHECK(written_inputs(program) == Flags{true, true, false, true, false});
}

TEST_CASE("a write to the result of a branch counts for the inputs it may return") {
  Program program;
  ProgramEmitter emit(program);
  const Value a = emit.input("a"), b = emit.input("b"), on = emit.input("on");
  const auto one = [](Value value) { return [value] { return frontend::Values{value}; }; };
  emit.answer(emit.op("aten::relu_", "", {emit.branch(on, one(a), one(b))[0]}));
  CHECK(written_inputs(program) == Flags{true, true, false});
}

TEST_CASE("inputs that are written are copied and others are not") {
  const at::Tensor a = at::ones({2}), b = at::ones({2});
  const auto values = unwritten({a, b, {}}, {true, false, true});
  CHECK_FALSE(values[0].toTensor().is_alias_of(a));
  CHECK(at::equal(values[0].toTensor(), a));
  CHECK(values[1].toTensor().is_same(b));
  CHECK_FALSE(values[2].toTensor().defined());
}

}  // namespace
}  // namespace memtune::program::written_inputs_test
