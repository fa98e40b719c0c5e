// Writes the statements of a random block. It tracks shapes, so that the source runs, and which storages autograd has
// saved, so that most in-place writes are legal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/random.h"

namespace memtune::tests {

using Shape = std::vector<int64_t>;

class StatementWriter {
 public:
  explicit StatementWriter(Random& random) : random_(random) {}

  // The body of forward(self, x, s, ids): `statements` statements and a return.
  std::vector<std::string> body(int statements);

 private:
  struct Value {
    std::string name;
    Shape shape;
    int storage = 0;
    bool contiguous = true;
    bool writable = true;  // false: overlaps itself, or is one of several views of one op
  };
  using Statement = bool (StatementWriter::*)();  // returns false if no operand fits; writes nothing then
  struct Choice {
    int weight;
    Statement statement;
  };
  static const std::vector<Choice>& choices();
  void write(int statements);

  // Kinds of statements.
  bool elementwise();
  bool binary();
  bool weighted();
  bool squares();
  bool products();
  bool attention();
  bool normalised();
  bool reduced();
  bool gathered();
  bool reshaped();
  bool permuted();
  bool sliced();
  bool expanded();
  bool split_up();
  bool copied();
  bool joined();
  bool listed();
  bool in_place();
  bool in_place_slice();
  bool buffers();
  bool odd();
  bool branch();
  bool loop();

  void line(const std::string& text);
  std::string fresh_name(const char* prefix = "v");
  int new_storage();
  // Bind `expression` to a new value, with its own storage or with that of `of`.
  Value make(const std::string& expression, const Shape& shape);
  Value alias(const Value& of, const std::string& expression, const Shape& shape, bool contiguous);
  Value add(Value value, const std::string& expression);
  std::string filled(const std::string& text, std::initializer_list<Value> operands);

  Value pick();
  template <typename Fits>
  std::optional<Value> pick_that(const Fits& fits) {
    std::vector<Value> fitting;
    std::copy_if(pool_.begin(), pool_.end(), std::back_inserter(fitting), fits);
    if (fitting.empty()) return std::nullopt;
    return random_.of(fitting);
  }
  void saves(const Value& value) { saved_[static_cast<size_t>(value.storage)] = true; }
  bool may_write(const Value& value) const;
  std::string as_block_shape(const Value& value);
  void finish();

  Random& random_;
  std::vector<std::string> lines_;
  int depth_ = 1, names_ = 0;
  std::vector<Value> pool_;
  std::vector<bool> saved_;  // by storage: a write would break a backward
  std::set<std::string> used_;
};

}  // namespace memtune::tests
