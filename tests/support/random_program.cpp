#include "tests/support/random_program.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <regex>

#include "tests/support/statement_writer.h"

namespace memtune::tests {
namespace {

using Lines = RandomProgram::Lines;

const char* const kBlockSignature = "def forward(self, x, s, ids):\n";
const char* const kModelSignature = "def forward(self, x, y, ids):\n";

std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// Calls the blocks in order. A block's `s` comes from an earlier block.
Lines model_body(Random& random, const RandomProgram& program) {
  Lines lines;
  // An in-place write to x is an error if it is a leaf that needs a gradient.
  lines.push_back(std::string("    h = ") + (program.input_needs_grad
                                                 ? random.of({"x * 0.5", "torch.matmul(x, self.w)"})
                                                 : random.of({"x", "x * 0.5"})));
  lines.push_back(std::string("    s = ") + random.of({"y", "y * 0.5", "torch.matmul(y, self.w)"}));
  lines.push_back("    first = h");
  for (size_t i = 0; i < program.blocks.size(); ++i) {
    const std::string shared = random.of({"s", "s", "first", "h * 0.3"});
    lines.push_back("    h, s = self.block" + std::to_string(i) + ".forward(h, " + shared + ", ids)");
    if (random.one_in(4)) lines.push_back("    first = first * 0.5 + s");
  }
  if (!program.input_needs_grad || random.one_in(2)) lines.push_back("    h = torch.matmul(h, self.w)");
  lines.push_back(std::string("    second = ") +
                  random.of({"torch.tanh(s).sum() * 0.1", "(s * s).mean()", "torch.mse_loss(s, y)"}));
  lines.push_back(std::string("    loss = ") +
                  random.of({"(h * h).mean()", "torch.cross_entropy_loss(h, ids)", "torch.sin(h).sum()"}) +
                  " + second");
  lines.push_back("    return (loss, second)");
  return lines;
}

}  // namespace

std::string RandomProgram::text() const {
  std::string text = "# seed " + std::to_string(seed) + (input_needs_grad ? ", x needs a gradient" : "") +
                     (tied_blocks ? ", the blocks share a" : "") + (autocast ? ", autocast" : "") + "\n";
  for (size_t i = 0; i + 1 < functions.size(); ++i) {
    std::string who;
    for (size_t block = 0; block < blocks.size(); ++block)
      if (blocks[block] == static_cast<int>(i)) who += " block" + std::to_string(block);
    text += "#" + who + "\n" + kBlockSignature + joined(functions[i]);
  }
  return text + "# model\n" + kModelSignature + joined(functions.back());
}

RandomProgram random_program(uint64_t seed) {
  Random random(seed);
  RandomProgram program;
  program.seed = seed;
  const int bodies = 1 + random.below(2);
  const int blocks = 2 + random.below(3);
  for (int i = 0; i < blocks; ++i) program.blocks.push_back(i % bodies);
  program.input_needs_grad = !random.one_in(3);
  program.tied_blocks = random.one_in(3);
  program.autocast = random.one_in(6);
  for (int i = 0; i < bodies; ++i) program.functions.push_back(StatementWriter(random).body(3 + random.below(8)));
  program.functions.push_back(model_body(random, program));
  return program;
}

RandomModel build(const RandomProgram& program, c10::Device device) {
  at::manual_seed(program.seed);
  const at::TensorOptions options(device);
  const auto weight = [&](std::initializer_list<int64_t> shape) {
    return (at::randn(shape, options) * 0.35).requires_grad_();
  };
  RandomModel model{torch::jit::Module("Model"), {}};
  const at::Tensor shared = weight({kWidth, kWidth});
  for (size_t i = 0; i < program.blocks.size(); ++i) {
    torch::jit::Module block("Block");
    const at::Tensor a = program.tied_blocks ? shared : weight({kWidth, kWidth});
    block.register_attribute("training", c10::BoolType::get(), true);
    block.register_parameter("a", a, false);
    block.register_parameter("b", weight({kWidth, kWidth}), false);
    block.register_parameter("alias", a, false);
    block.register_parameter("gain", weight({kWidth}), false);
    block.register_parameter("table", weight({10, kWidth}), false);
    block.register_parameter("frozen", weight({kWidth, kWidth}).detach(), false);
    block.register_buffer("mean", at::zeros({kWidth}, options));
    block.register_buffer("variance", at::ones({kWidth}, options));
    block.register_buffer("count", at::zeros({1}, options));
    block.define(kBlockSignature + joined(program.functions[static_cast<size_t>(program.blocks[i])]));
    model.module.register_module("block" + std::to_string(i), block);
  }
  model.module.register_parameter("w", weight({kWidth, kWidth}), false);
  model.module.define(kModelSignature + joined(program.functions.back()));
  model.inputs = {at::randn({kRows, kWidth}, options), at::randn({kRows, kWidth}, options),
                  at::randint(kRows, {kRows}, options.dtype(at::kLong))};
  return model;
}

namespace {

size_t depth(const std::string& line) { return line.find_first_not_of(' '); }

// Index after a line and its indented lines.
size_t end_of(const Lines& lines, size_t at) {
  size_t end = at + 1;
  while (end < lines.size() && depth(lines[end]) > depth(lines[at])) ++end;
  return end;
}

Lines without(Lines lines, size_t at) {
  const auto begin = lines.begin();
  lines.erase(begin + static_cast<std::ptrdiff_t>(at), begin + static_cast<std::ptrdiff_t>(end_of(lines, at)));
  return lines;
}

// Replaces a branch or loop by its body.
Lines unwrapped(Lines lines, size_t at) {
  for (size_t i = at + 1, end = end_of(lines, at); i < end; ++i) lines[i].erase(0, 4);
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
  return lines;
}

Lines renamed(Lines lines, size_t from, const std::string& name, const std::string& other) {
  const std::regex word("\\b" + name + "\\b");
  for (size_t i = from; i < lines.size(); ++i) lines[i] = std::regex_replace(lines[i], word, other);
  return lines;
}

// Removes the line "    v3 = torch.tanh(v1)" and replaces v3 by v1 after it. One result for each value on its right
// side.
std::vector<Lines> substituted(const Lines& lines, size_t at) {
  static const std::regex binding(R"(^ *(v\d+|out|h|s|first) = (.*)$)"), operand(R"(\b(v\d+|out|x|y|h|s)\b)");
  std::smatch match;
  std::vector<Lines> result;
  if (!std::regex_match(lines[at], match, binding)) return result;
  const std::string name = match[1], expression = match[2];
  for (auto found = std::sregex_iterator(expression.begin(), expression.end(), operand);
       found != std::sregex_iterator(); ++found)
    result.push_back(renamed(without(lines, at), at, name, (*found)[1]));
  return result;
}

std::vector<Lines> smaller(const Lines& lines, size_t at) {
  std::vector<Lines> result;
  if (lines.size() > 1) result.push_back(without(lines, at));
  if (end_of(lines, at) > at + 1) result.push_back(unwrapped(lines, at));
  for (Lines& candidate : substituted(lines, at)) result.push_back(std::move(candidate));
  return result;
}

}  // namespace

RandomProgram reduce(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails) {
  const auto improve = [&](size_t function, size_t at) {
    for (Lines& lines : smaller(program.functions[function], at)) {
      RandomProgram candidate = program;
      candidate.functions[function] = std::move(lines);
      if (!fails(candidate)) continue;
      program = std::move(candidate);
      return true;
    }
    return false;
  };
  for (bool again = true; again;) {
    again = false;
    for (size_t function = program.functions.size(); function-- > 0;)
      for (size_t at = program.functions[function].size(); at-- > 0;)
        if (at < program.functions[function].size() && improve(function, at)) again = true;
  }
  return program;
}

}  // namespace memtune::tests
