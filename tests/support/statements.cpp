// The kinds of statements in random blocks. Tensors stay small: a few hundred elements at most.
#include <algorithm>
#include <numeric>

#include "tests/support/random_program.h"
#include "tests/support/statement_writer.h"

namespace memtune::tests {
namespace {

constexpr int64_t kMaxElements = 256;

int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string text(const Shape& shape) {
  std::string result = "[";
  for (size_t i = 0; i < shape.size(); ++i) result += (i ? ", " : "") + std::to_string(shape[i]);
  return result + "]";
}

std::string text(size_t number) { return std::to_string(number); }

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1, right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1) return std::nullopt;
    result[result.size() - 1 - i] = std::max(left, right);
  }
  return result;
}

struct Elementwise {
  const char* expression;
  bool saves_operands, saves_result;
};

const std::vector<Elementwise> kUnary = {
    {"torch.tanh($0)", false, true},
    {"torch.sigmoid($0)", false, true},
    {"torch.gelu($0)", true, false},
    {"torch.silu($0)", true, false},
    {"torch.relu($0)", false, true},
    {"torch.sin($0)", true, false},
    {"torch.abs($0)", true, false},
    {"torch.pow($0, 2.0)", true, false},
    {"torch.rsqrt($0 * $0 + 1.0)", true, true},
    {"torch.clamp($0, -1.0, 1.0)", true, false},
    {"torch.leaky_relu($0, 0.1)", true, false},
    {"$0 * 0.5", false, false},
    {"$0 + 1.0", false, false},
    {"-$0", false, false},
    {"$0.clone()", false, false},
    {"$0.to(7).to(6)", false, false},
    {"torch.zeros_like($0)", false, false},
    {"torch.exp(-torch.detach($0).abs())", false, true},
    {"torch.dropout($0, 0.3, True)", false, false},
    {"torch.dropout($0, 0.4, self.training)", false, false},
    {"torch.rrelu($0, 0.1, 0.3, True)", true, false},
    {"$0 * torch.rand_like($0)", false, false},
    {"$0 * torch.bernoulli(torch.full_like($0, 0.5))", false, false},
    {"$0 * torch.empty_like($0).uniform_(0.5, 1.5)", false, false},
    {"torch.masked_fill($0, $0 > 0.5, 0.25)", false, false},
    {"torch.where($0 > 0.0, $0, $0 * 0.1)", false, false},
};

const std::vector<Elementwise> kBinary = {
    {"$0 + $1", false, false},
    {"$0 - $1", false, false},
    {"$0 * $1", true, false},
    {"$0 / ($1 * $1 + 1.0)", true, false},
    {"torch.maximum($0, $1)", true, false},
    {"torch.addcmul($0, $1, $1)", true, false},
    {"torch.where($0 > $1, $0, $1)", false, false},
    {"torch.mul(torch.sigmoid($0), $1)", true, false},
};

const std::vector<Elementwise> kInPlace = {
    {"$0.mul_(0.5)", false, false},
    {"torch.relu_($0)", false, true},
    {"torch.sigmoid_($0)", false, true},
    {"torch.tanh_($0)", false, true},
    {"$0.clamp_(-1.0, 1.0)", false, false},
    {"torch.dropout_($0, 0.3, True)", false, false},
    {"$0.masked_fill_($0 > 0.5, 0.25)", false, false},
};

const std::vector<Elementwise> kInPlaceBinary = {
    {"$0.add_($1)", false, false},  {"$0.sub_($1)", false, false},        {"$0.mul_($1)", true, false},
    {"$0.copy_($1)", false, false}, {"$0.addcmul_($1, $1)", true, false},
};

}  // namespace

const std::vector<StatementWriter::Choice>& StatementWriter::choices() {
  using Writer = StatementWriter;
  static const std::vector<Choice> choices = {
      {10, &Writer::elementwise}, {7, &Writer::binary},    {7, &Writer::weighted},       {4, &Writer::squares},
      {2, &Writer::products},     {3, &Writer::attention}, {5, &Writer::normalised},     {3, &Writer::reduced},
      {3, &Writer::gathered},     {4, &Writer::reshaped},  {4, &Writer::permuted},       {4, &Writer::sliced},
      {2, &Writer::expanded},     {3, &Writer::split_up},  {2, &Writer::copied},         {4, &Writer::joined},
      {2, &Writer::listed},       {9, &Writer::in_place},  {4, &Writer::in_place_slice}, {2, &Writer::buffers},
      {2, &Writer::odd},          {2, &Writer::branch},    {2, &Writer::loop},
  };
  return choices;
}

bool StatementWriter::elementwise() {
  const Value value = pick();
  const Elementwise& op = random_.of(kUnary);
  if (op.saves_operands) saves(value);
  const Value result = make(filled(op.expression, {value}), value.shape);
  if (op.saves_result) saves(result);
  return true;
}

bool StatementWriter::binary() {
  const Value a = pick();
  const auto b = pick_that([&](const Value& other) {
    const auto shape = broadcast(a.shape, other.shape);
    return shape && elements(*shape) <= kMaxElements;
  });
  const Elementwise& op = random_.of(kBinary);
  if (op.saves_operands) saves(a), saves(*b);
  make(filled(op.expression, {a, *b}), *broadcast(a.shape, b->shape));
  return true;
}

// Uses a parameter: the block's own, one with two names, one without gradient, or one of all blocks.
bool StatementWriter::weighted() {
  const auto value = pick_that([](const Value& v) { return !v.shape.empty() && v.shape.back() == kWidth; });
  if (!value) return false;
  saves(*value);
  make(filled(random_.of({"torch.matmul($0, self.a)", "torch.matmul($0, self.b)", "torch.matmul($0, self.a.t())",
                          "torch.linear($0, self.b)", "torch.linear($0, self.alias, self.gain)",
                          "torch.matmul($0, self.frozen)", "$0 * self.gain", "torch.matmul($0, self.b * 0.5)"}),
              {*value}),
       value->shape);
  return true;
}

// One tensor in two layouts.
bool StatementWriter::squares() {
  const auto value = pick_that([](const Value& v) { return v.shape.size() == 2; });
  if (!value) return false;
  saves(*value);
  const int64_t rows = value->shape[0], columns = value->shape[1];
  const int kind = random_.below(rows == columns ? 4 : 2);
  if (kind == 0) make(filled("torch.matmul($0.t(), $0) * 0.2", {*value}), {columns, columns});
  if (kind == 1) make(filled("torch.matmul($0, $0.t()) * 0.2", {*value}), {rows, rows});
  if (kind == 2) make(filled("torch.tanh($0) * $0.t()", {*value}), value->shape);
  if (kind == 3) make(filled("torch.matmul($0, $0) * 0.2 + $0.t() * $0", {*value}), value->shape);
  return true;
}

bool StatementWriter::products() {
  const Value a = pick();
  if (a.shape.size() == 3) {
    saves(a);
    make(filled("torch.bmm($0, $0.transpose(1, 2)) * 0.2", {a}), {a.shape[0], a.shape[1], a.shape[1]});
    return true;
  }
  const auto b =
      pick_that([&](const Value& v) { return a.shape.size() == 2 && v.shape.size() == 2 && v.shape[0] == a.shape[1]; });
  if (!b) return false;
  saves(a), saves(*b);
  make(filled("torch.matmul($0, $1) * 0.3", {a, *b}), {a.shape[0], b->shape[1]});
  return true;
}

bool StatementWriter::attention() {
  const auto fits = [](const Value& v) { return elements(v.shape) == kRows * kWidth; };
  const Value q = *pick_that(fits), k = *pick_that(fits), v = *pick_that(fits);
  saves(q), saves(k), saves(v);
  const std::string shape = ".reshape([1, 2, 2, 8])";
  const Value result = make(filled("torch.scaled_dot_product_attention($0" + shape + ", $1" + shape + ", $2" + shape +
                                       ", None, " + random_.of({"0.0, True", "0.0, False", "0.4, False"}) + ")",
                                   {q, k, v}),
                            {1, 2, 2, 8});
  saves(result);
  return true;
}

bool StatementWriter::normalised() {
  const auto value = pick_that([](const Value& v) { return !v.shape.empty() && v.shape.back() > 1; });
  if (!value) return false;
  saves(*value);
  const std::string width = text(Shape{value->shape.back()});
  if (value->shape.size() == 2 && value->shape[1] == kWidth && random_.one_in(2)) {
    make(filled(random_.of({"torch.batch_norm($0, None, None, self.mean, self.variance, True, 0.1, 1e-5, False)",
                            "torch.batch_norm($0, self.gain, None, self.mean, self.variance, True, 0.2, 1e-5, False)",
                            "torch.layer_norm($0, [8], self.gain, None, 1e-5, False)",
                            "$0 * torch.rsqrt(($0 * $0).mean(-1, True) + 1e-5) * self.gain"}),
                {*value}),
         value->shape);
    return true;
  }
  saves(make(filled(random_.of<std::string>({"torch.softmax($0, -1)", "torch.log_softmax($0, -1)",
                                             "torch.layer_norm($0, " + width + ")",
                                             "$0 * torch.rsqrt(($0 * $0).mean(-1, True) + 1e-5)"}),
                    {*value}),
             value->shape));
  return true;
}

bool StatementWriter::reduced() {
  const auto value = pick_that([](const Value& v) { return !v.shape.empty(); });
  if (!value) return false;
  const size_t dim = static_cast<size_t>(random_.below(static_cast<int>(value->shape.size())));
  Shape kept = value->shape, gone = value->shape;
  kept[dim] = 1;
  gone.erase(gone.begin() + static_cast<std::ptrdiff_t>(dim));
  const int kind = random_.below(5);
  if (kind == 0) make(filled("$0.sum(" + text(dim) + ", True)", {*value}), kept);
  if (kind == 1) make(filled("$0.mean(" + text(dim) + ")", {*value}), gone);
  if (kind == 2) make(filled("torch.tanh($0.sum())", {*value}), {});
  if (kind == 3) {
    saves(*value);
    saves(make(filled("torch.logsumexp($0, [" + text(dim) + "])", {*value}), gone));
  }
  if (kind == 4) {  // an op with several outputs, one of them not differentiable
    const std::string best = fresh_name(), where = fresh_name("i");
    line(filled(best + ", " + where + " = torch.max($0, " + text(dim) + ", True)", {*value}));
    pool_.push_back({best, kept, new_storage()});
    make(filled("torch.gather($0, " + text(dim) + ", " + where + ") * 0.5", {*value}), kept);
  }
  return true;
}

bool StatementWriter::gathered() {
  const Shape block = {kRows, kWidth};
  if (random_.one_in(3)) {
    make(random_.of({"torch.embedding(self.table, ids)", "torch.index_select(self.table, 0, ids)"}), block);
    return true;
  }
  const auto value = pick_that([](const Value& v) { return !v.shape.empty() && v.shape[0] == kRows; });
  if (!value) return false;
  make(filled(random_.of({"torch.index_select($0, 0, ids)", "$0[ids]", "torch.index_select($0, 0, torch.argsort(ids))",
                          "torch.index_select($0, 0, torch.randperm(4, device=ids.device))"}),
              {*value}),
       value->shape);
  return true;
}

bool StatementWriter::reshaped() {
  const Value value = pick();
  const int64_t count = elements(value.shape);
  std::vector<Shape> shapes = {{count}, {1, count}, {count, 1}};
  for (const int64_t factor : {2, 4, 8})
    if (count % factor == 0) shapes.insert(shapes.end(), {{factor, count / factor}, {count / factor, factor}});
  if (count % 4 == 0) shapes.insert(shapes.end(), {{2, 2, count / 4}, {2, count / 4, 2}});
  if (count % 8 == 0) shapes.push_back({2, 2, 1, count / 4});
  const Shape shape = random_.of(shapes);
  const std::string how = value.contiguous && random_.one_in(2) ? "$0.view(" : "$0.reshape(";
  alias(value, filled(how + text(shape) + ")", {value}), shape, value.contiguous);
  return true;
}

bool StatementWriter::permuted() {
  const auto value = pick_that([](const Value& v) { return v.shape.size() >= 2; });
  if (!value) return false;
  std::vector<size_t> order(value->shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[static_cast<size_t>(random_.below(static_cast<int>(i) + 1))]);
  if (order.size() == 2) order = {1, 0};
  Shape shape, dims;
  for (const size_t dim : order) {
    shape.push_back(value->shape[dim]);
    dims.push_back(static_cast<int64_t>(dim));
  }
  const std::string how = order.size() == 2 ? random_.of({"$0.t()", "torch.transpose($0, 0, 1)", "$0.permute([1, 0])"})
                                            : "$0.permute(" + text(dims) + ")";
  alias(*value, filled(how, {*value}), shape, false);
  return true;
}

bool StatementWriter::sliced() {
  const auto value = pick_that([](const Value& v) { return !v.shape.empty() && v.shape.back() > 1; });
  if (!value) return false;
  const size_t dim = random_.one_in(2) ? value->shape.size() - 1 : 0;
  const int64_t size = value->shape[dim], start = random_.below(static_cast<int>(size));
  const int64_t length = 1 + random_.below(static_cast<int>(size - start));
  Shape shape = value->shape;
  const int kind = random_.below(3);
  if (kind == 0) {
    shape[dim] = length;
    alias(*value,
          filled("torch.narrow($0, " + text(dim) + ", " + std::to_string(start) + ", " + std::to_string(length) + ")",
                 {*value}),
          shape, value->contiguous && dim == 0);
  } else if (kind == 1) {
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
    alias(*value, filled("torch.select($0, " + text(dim) + ", " + std::to_string(start) + ")", {*value}), shape,
          value->contiguous && dim == 0);
  } else {
    shape[dim] = (length + 1) / 2;
    std::string before;
    for (size_t i = 0; i < dim; ++i) before += ":, ";
    alias(*value,
          filled("$0[" + before + std::to_string(start) + ":" + std::to_string(start + length) + ":2]", {*value}),
          shape, false);
  }
  return true;
}

bool StatementWriter::expanded() {
  const auto value = pick_that([](const Value& v) { return v.shape.size() <= 2; });
  if (!value) return false;
  Shape shape = value->shape;
  Value seen = *value;
  seen.writable = false;
  if (!shape.empty() && random_.one_in(2)) {
    alias(seen, filled("torch.narrow($0, 0, 0, 1).expand(" + text(shape) + ")", {*value}), shape, false);
  } else {
    shape.insert(shape.begin(), 2);
    alias(seen, filled("$0.unsqueeze(0).expand(" + text(shape) + ")", {*value}), shape, false);
  }
  return true;
}

bool StatementWriter::split_up() {
  const auto value = pick_that([](const Value& v) { return !v.shape.empty() && v.shape.back() % 2 == 0; });
  if (!value) return false;
  const size_t last = value->shape.size() - 1;
  Shape half = value->shape;
  half[last] /= 2;
  const std::string parts = fresh_name("l"), dim = text(last);
  Value seen = *value;
  seen.writable = false;
  saves(seen);  // views of such an op become invalid when their base is written
  line(parts + " = " +
       filled(random_.of({"torch.chunk($0, 2, " + dim + ")",
                          "torch.split($0, " + std::to_string(half[last]) + ", " + dim + ")"}),
              {*value}));
  alias(seen, parts + "[0]", half, false);
  alias(seen, parts + "[1]", half, false);
  if (random_.one_in(2))
    make("torch.cat([torch.tanh(e) for e in " + parts + "], 0)", [&] {
      Shape shape = half;
      shape[0] *= 2;
      return shape;
    }());
  return true;
}

bool StatementWriter::copied() {
  const Value value = pick();
  if (random_.one_in(3)) {
    alias(value, filled("torch.detach($0)", {value}), value.shape, value.contiguous);
  } else if (value.shape.size() == 4 && random_.one_in(2)) {
    make(filled("$0.clone().contiguous(memory_format=2)", {value}), value.shape);  // channels last
    pool_.back().contiguous = false;
  } else if (value.contiguous) {
    alias(value, filled("$0.contiguous()", {value}), value.shape, true);
  } else {
    make(filled("$0.contiguous()", {value}), value.shape);
    saved_.back() = true;  // it may share memory after all
  }
  return true;
}

bool StatementWriter::joined() {
  const auto a = pick_that([](const Value& v) { return elements(v.shape) * 2 <= kMaxElements; });
  if (!a) return false;
  const auto b = pick_that([&](const Value& v) { return v.shape == a->shape; });
  Shape shape = a->shape;
  if (!shape.empty() && random_.one_in(2)) {
    const size_t dim = static_cast<size_t>(random_.below(static_cast<int>(shape.size())));
    shape[dim] *= 2;
    make(filled("torch.cat([$0, $1], " + text(dim) + ")", {*a, *b}), shape);
  } else {
    shape.insert(shape.begin(), 2);
    make(filled("torch.stack([$0, $1])", {*a, *b}), shape);
  }
  return true;
}

bool StatementWriter::listed() {
  const auto a = pick_that([](const Value& v) { return elements(v.shape) * 4 <= kMaxElements; });
  if (!a) return false;
  const auto b = pick_that([&](const Value& v) { return v.shape == a->shape; });
  const std::string list = fresh_name("l");
  saves(*a), saves(*b);
  line(filled(list + " = [torch.tanh($0), $1]", {*a, *b}));
  line(list + ".append(" + list + "[0] * " + list + "[1])");
  const std::string dict = fresh_name("d");
  line(dict + " = {\"last\": " + list + "[2], \"first\": " + list + "[0]}");
  Shape shape = a->shape;
  shape.insert(shape.begin(), 3);
  make("torch.stack(" + list + ")", shape);
  make(dict + "[\"last\"] + " + dict + "[\"first\"]", a->shape);
  return true;
}

bool StatementWriter::in_place() {
  const auto target = pick_that([&](const Value& v) { return may_write(v); });
  if (!target) return false;
  const auto other = pick_that([&](const Value& v) {
    return v.storage != target->storage && broadcast(target->shape, v.shape) == target->shape;
  });
  const bool two = other && random_.one_in(2);
  const Elementwise& op = random_.of(two ? kInPlaceBinary : kInPlace);
  if (two && op.saves_operands) saves(*other);
  const std::string written = filled(op.expression, {*target, two ? *other : *target});
  if (random_.one_in(2))
    alias(*target, written, target->shape, target->contiguous);
  else
    line(written);
  if (op.saves_result) saves(*target);
  if (two) used_.erase(target->name);  // only the write counts
  return true;
}

bool StatementWriter::in_place_slice() {
  const auto target = pick_that([&](const Value& v) { return may_write(v) && v.shape.size() == 2 && v.shape[1] > 1; });
  if (!target) return false;
  const auto other =
      pick_that([&](const Value& v) { return v.storage != target->storage && v.shape == target->shape; });
  if (!other) return false;
  if (target->shape[0] == kRows && random_.one_in(4))
    line(filled("$0[torch.argsort(ids)] = $1", {*target, *other}));
  else
    line(filled(
        random_.of({"$0[:, 0:1] = $1[:, 1:2]", "$0[0] = $1[0] * 2.0", "$0[0:1] *= 0.5", "$0[:, 1:] += $1[:, 1:]"}),
        {*target, *other}));
  used_.erase(target->name);
  return true;
}

// Buffers of the module.
bool StatementWriter::buffers() {
  const Value value = pick();
  if (random_.one_in(2)) line("self.count.add_(1.0)");
  if (random_.one_in(4) && !value.shape.empty() && value.shape.back() == kWidth)
    make(filled("$0 - self.mean", {value}), value.shape);
  else
    make(filled("$0 * torch.tanh(self.count)", {value}), value.shape);
  return true;
}

// Empty tensors, complex numbers and conjugates, diagonals, overlapping windows.
bool StatementWriter::odd() {
  const Value value = pick();
  const int64_t count = elements(value.shape);
  if (value.shape.size() == 2 && random_.one_in(2)) {
    const int64_t rows = value.shape[0], columns = value.shape[1];
    if (random_.one_in(3)) {
      make(filled("torch.cat([$0, torch.tanh($0[0:0])], 0)", {value}), value.shape);
    } else if (random_.one_in(2)) {
      alias(value, filled("torch.diagonal($0)", {value}), {std::min(rows, columns)}, false);
    } else if (columns > 1) {
      Value seen = value;
      seen.writable = false;
      alias(seen, filled("$0.unfold(1, 2, 1)", {value}), {rows, columns - 1, 2}, false);
    } else {
      make(filled("torch.matmul($0[:, 0:0], self.a[0:0])", {value}), {rows, kWidth});
    }
    return true;
  }
  if (count % 2) return false;
  const std::string number = fresh_name("c");
  line(
      filled(number + " = torch.view_as_complex($0.reshape([" + std::to_string(count / 2) + ", 2]).clone())", {value}));
  make("torch.view_as_real(torch.conj(" + number + ") * " + number + " * " + number + ")", {count / 2, 2});
  return true;
}

}  // namespace memtune::tests
