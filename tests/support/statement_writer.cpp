#include "tests/support/statement_writer.h"

#include <algorithm>

#include "tests/support/random_program.h"

namespace memtune::tests {

std::vector<std::string> StatementWriter::body(int statements) {
  const Shape shape = {kRows, kWidth};
  pool_ = {{"x", shape, new_storage()}, {"s", shape, new_storage()}};
  // The previous block may have saved the inputs: writing to them is correct in some programs and an error in others.
  saved_ = {!random_.one_in(6), !random_.one_in(6)};
  write(statements);
  finish();
  return std::move(lines_);
}

void StatementWriter::write(int statements) {
  int total = 0;
  for (const Choice& choice : choices()) total += choice.weight;
  for (int written = 0, tried = 0; written < statements && tried < 20 * statements; ++tried) {
    int at = random_.below(total);
    auto choice = choices().begin();
    while (at >= choice->weight) at -= (choice++)->weight;
    if ((this->*choice->statement)()) ++written;
  }
}

void StatementWriter::line(const std::string& text) {
  lines_.push_back(std::string(static_cast<size_t>(4 * depth_), ' ') + text);
}

std::string StatementWriter::fresh_name(const char* prefix) { return prefix + std::to_string(names_++); }

int StatementWriter::new_storage() {
  saved_.push_back(false);
  return static_cast<int>(saved_.size()) - 1;
}

StatementWriter::Value StatementWriter::add(Value value, const std::string& expression) {
  value.name = fresh_name();
  line(value.name + " = " + expression);
  pool_.push_back(value);
  return value;
}

StatementWriter::Value StatementWriter::make(const std::string& expression, const Shape& shape) {
  return add({"", shape, new_storage()}, expression);
}

StatementWriter::Value StatementWriter::alias(const Value& of, const std::string& expression, const Shape& shape,
                                              bool contiguous) {
  return add({"", shape, of.storage, contiguous, of.writable}, expression);
}

// Replaces "$0" with the first operand, "$1" with the second.
std::string StatementWriter::filled(const std::string& text, std::initializer_list<Value> operands) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      result += text[i];
      continue;
    }
    const Value& operand = operands.begin()[text[++i] - '0'];
    used_.insert(operand.name);
    result += operand.name;
  }
  return result;
}

// Prefers late values, because recomputation must follow chains.
StatementWriter::Value StatementWriter::pick() {
  const int count = static_cast<int>(pool_.size());
  return pool_[static_cast<size_t>(std::max(random_.below(count), random_.below(count)))];
}

bool StatementWriter::may_write(const Value& value) const {
  return value.writable && !saved_[static_cast<size_t>(value.storage)];
}

// Values of the branch stay inside it, except one that it assigns.
bool StatementWriter::branch() {
  if (depth_ > 2) return false;
  const Value from = pick(), asked = pick();
  const std::string name = fresh_name();
  const auto outer = pool_;
  line(filled(name + " = $0", {from}));
  saves(from);
  line(filled("if " +
                  std::string(random_.of(
                      {"self.training", "bool($0.sum() > 0.0)", "int(ids[0]) % 2 == 0", "bool(torch.any($0 > 1.0))"})) +
                  ":",
              {asked}));
  for (const bool otherwise : {false, true}) {
    if (otherwise && random_.one_in(2)) break;
    if (otherwise) line("else:");
    ++depth_;
    write(1 + random_.below(3));
    const auto same = pick_that([&](const Value& value) { return value.shape == from.shape; });
    line(filled(name + " = $0" + random_.of({" * 0.5", "", " + 1.0"}), {*same}));
    saves(*same);
    --depth_;
    pool_ = outer;
  }
  pool_.push_back({name, from.shape, new_storage(), false});
  saved_.back() = !random_.one_in(8);
  return true;
}

// Does not write to outer values, because a second iteration would overwrite what the first one saved.
bool StatementWriter::loop() {
  if (depth_ > 2) return false;
  const Value from = pick();
  const std::string name = fresh_name(), index = fresh_name("i");
  const auto outer = pool_;
  line(filled(name + " = $0" + random_.of({"", " * 0.5"}), {from}));
  const bool by_data = random_.one_in(3);
  line("for " + index + " in range(3):");
  ++depth_;
  if (by_data) {
    line("if bool(torch.abs(" + name + ").sum() < 1.0):");
    line("    break");
  }
  std::fill(saved_.begin(), saved_.end(), true);
  pool_.push_back({name, from.shape, new_storage(), false});
  saved_.back() = true;
  write(1 + random_.below(3));
  const auto same = pick_that([&](const Value& value) { return value.shape == from.shape; });
  line(filled(name + (by_data ? " = torch.tanh($0 + " + name + ") * 0.4" : " = $0 * 0.5 + " + name), {*same}));
  if (!by_data && random_.one_in(2)) {
    line("if " + index + " == 1:");
    line("    " + name + " = torch.sigmoid(" + name + ")");
  }
  --depth_;
  pool_ = outer;
  pool_.push_back({name, from.shape, new_storage(), false});
  saved_.back() = true;
  return true;
}

std::string StatementWriter::as_block_shape(const Value& value) {
  const Shape shape = {kRows, kWidth};
  int64_t elements = 1;
  for (const int64_t size : value.shape) elements *= size;
  if (value.shape == shape) return filled("$0", {value});
  if (elements == kRows * kWidth) return filled("$0.reshape([4, 8])", {value});
  return filled(random_.of({"$0.mean()", "torch.tanh($0.sum())"}), {value});
}

// Most unused values become part of the result; the others are computed without a use.
void StatementWriter::finish() {
  line(std::string("out = ") + random_.of({"x * 0.5", "x + 0.0", "torch.tanh(x)"}));
  for (const Value& value : std::vector<Value>(pool_))
    if (!used_.count(value.name) && !random_.one_in(5)) line("out = out + 0.5 * " + as_block_shape(value));
  if (random_.one_in(3))
    line(random_.of({"out = torch.tanh(out)", "out = torch.layer_norm(out, [8])", "out = torch.relu_(out)",
                     "out = torch.softmax(out, 1)"}));
  const auto shared = pick_that([](const Value& value) { return value.shape == Shape{kRows, kWidth}; });
  line(filled("return (out, $0)", {*shared}));
}

}  // namespace memtune::tests
