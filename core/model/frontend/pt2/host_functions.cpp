#include "core/model/frontend/pt2/host_functions.h"

#include <cmath>
#include <map>

#include "core/base/error.h"

namespace memtune::frontend {
namespace {

using c10::IValue;
using program::Stack;

struct Number {
  bool is_real = false;
  int64_t whole = 0;
  double real = 0;
};

Number number(const IValue& value) {
  if (value.isDouble()) return {true, 0, value.toDouble()};
  const int64_t whole = value.isBool() ? int64_t{value.toBool()} : value.toInt();
  return {false, whole, static_cast<double>(whole)};
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min()))
    throw Error("a size is divided by " + std::to_string(b));
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

double floor_divide(double a, double b) { return std::floor(a / b); }

template <typename T>
T remainder(T a, T b) {
  return a - floor_divide(a, b) * b;
}

IValue power(const Number& a, const Number& b) {
  const bool whole = !a.is_real && !b.is_real && b.whole >= 0;
  if (!whole) return std::pow(a.real, b.real);
  int64_t result = 1;
  for (int64_t i = 0; i < b.whole; ++i)
    if (__builtin_mul_overflow(result, a.whole, &result))
      throw Error("a power of sizes is too large");
    else if (result == 0 || (a.whole == 1))
      break;
  return result;
}

int64_t shifted(int64_t a, int64_t by, bool left) {
  if (by < 0 || by > 62) throw Error("a size is shifted by " + std::to_string(by));
  return left ? static_cast<int64_t>(static_cast<uint64_t>(a) << by) : a >> by;
}

template <typename Compute>
HostFunction unary(const Compute& compute) {
  return [compute](Stack& stack) { stack = {IValue(compute(number(stack.at(0))))}; };
}

// For integers and reals, with Python's promotion.
template <typename Compute>
HostFunction binary(const Compute& compute) {
  return [compute](Stack& stack) {
    const Number a = number(stack.at(0)), b = number(stack.at(1));
    stack = {a.is_real || b.is_real ? IValue(compute(a.real, b.real)) : IValue(compute(a.whole, b.whole))};
  };
}

template <typename Compute>
HostFunction of_numbers(const Compute& compute) {
  return [compute](Stack& stack) { stack = {IValue(compute(number(stack.at(0)), number(stack.at(1))))}; };
}

int64_t truncated(const Number& a) {
  if (!a.is_real) return a.whole;
  if (!(std::abs(a.real) < 9e18)) throw Error("a size is too large");
  return static_cast<int64_t>(a.real);
}

IValue negated(const Number& a) { return a.is_real ? IValue(-a.real) : IValue(-a.whole); }
IValue same(const Number& a) { return a.is_real ? IValue(a.real) : IValue(a.whole); }

// Returns the chosen value with its own type. torch.export writes no numbers in place of booleans here.
HostFunction chosen_by_condition() {
  return [](Stack& stack) { stack = {stack.at(0).toBool() ? stack.at(1) : stack.at(2)}; };
}

std::map<std::string, HostFunction> make_table() {
  return {
      {"_operator.add", binary([](auto a, auto b) { return a + b; })},
      {"_operator.sub", binary([](auto a, auto b) { return a - b; })},
      {"_operator.mul", binary([](auto a, auto b) { return a * b; })},
      {"_operator.floordiv", binary([](auto a, auto b) { return floor_divide(a, b); })},
      {"_operator.mod", binary([](auto a, auto b) { return remainder(a, b); })},
      {"_operator.truediv", of_numbers([](const Number& a, const Number& b) { return a.real / b.real; })},
      {"_operator.pow", of_numbers(power)},
      {"_operator.neg", unary(negated)},
      {"_operator.pos", unary(same)},
      {"_operator.eq", binary([](auto a, auto b) { return a == b; })},
      {"_operator.ne", binary([](auto a, auto b) { return a != b; })},
      {"_operator.lt", binary([](auto a, auto b) { return a < b; })},
      {"_operator.le", binary([](auto a, auto b) { return a <= b; })},
      {"_operator.gt", binary([](auto a, auto b) { return a > b; })},
      {"_operator.ge", binary([](auto a, auto b) { return a >= b; })},
      {"_operator.and_", [](Stack& stack) { stack = {stack.at(0).toBool() && stack.at(1).toBool()}; }},
      {"_operator.or_", [](Stack& stack) { stack = {stack.at(0).toBool() || stack.at(1).toBool()}; }},
      {"_operator.lshift",
       of_numbers([](const Number& a, const Number& b) { return shifted(a.whole, b.whole, true); })},
      {"_operator.rshift",
       of_numbers([](const Number& a, const Number& b) { return shifted(a.whole, b.whole, false); })},
      {"torch.sym_max", binary([](auto a, auto b) { return std::max(a, b); })},
      {"torch.sym_min", binary([](auto a, auto b) { return std::min(a, b); })},
      {"torch.sym_float", unary([](const Number& a) { return a.real; })},
      {"torch.sym_int", unary(truncated)},
      {"torch.sym_not", [](Stack& stack) { stack = {!stack.at(0).toBool()}; }},
      {"torch.sym_ite", chosen_by_condition()},
      {"torch._sym_sqrt", unary([](const Number& a) { return std::sqrt(a.real); })},
      {"torch.sym_sqrt", unary([](const Number& a) { return std::sqrt(a.real); })},
      {"math.trunc", unary(truncated)},
      {"math.floor", unary([](const Number& a) {
         return truncated({a.is_real, a.whole, std::floor(a.real)});
       })},
      {"math.ceil", unary([](const Number& a) {
         return truncated({a.is_real, a.whole, std::ceil(a.real)});
       })},
  };
}

}  // namespace

const HostFunction* find_host_function(const std::string& target) {
  static const std::map<std::string, HostFunction> table = make_table();
  const auto found = table.find(target);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace memtune::frontend
