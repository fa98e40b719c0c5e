// What libc++ 13, that of Debian's Emscripten, lacks of C++20 and the viewer uses: algorithms over ranges, the order of
// strings and optionals, floating-point numbers from and to text. Every source of the web build includes it first. It
// is empty with a later libc++.
#pragma once

#include <version>

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 15000
#include <algorithm>
#include <charconv>
#include <cmath>
#include <compare>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace std {

inline strong_ordering operator<=>(const string& a, const string& b) {
  const int order = a.compare(b);
  return order < 0 ? strong_ordering::less : order > 0 ? strong_ordering::greater : strong_ordering::equal;
}

template <class T>
strong_ordering operator<=>(const optional<T>& a, const optional<T>& b) {
  if (!a || !b) return a.has_value() <=> b.has_value();
  return *a <=> *b;
}

// Accepts what strtold does, apart from signs, blanks and hexadecimal digits at the start.
template <class Number>
requires is_floating_point_v<Number> from_chars_result from_chars(const char* first, const char* last, Number& number,
                                                                  chars_format format = chars_format::general) {
  const char* end = first;
  const auto digits = [&] {
    const char* start = end;
    while (end != last && *end >= '0' && *end <= '9') ++end;
    return end != start;
  };
  if (end != last && *end == '-') ++end;
  bool some = digits();
  if (end != last && *end == '.') ++end, some |= digits();
  if (!some) return {first, errc::invalid_argument};
  if (const char* mantissa = end; format != chars_format::fixed && end != last && (*end == 'e' || *end == 'E')) {
    ++end;
    if (end != last && (*end == '+' || *end == '-')) ++end;
    if (!digits()) end = mantissa;
  }
  number = static_cast<Number>(strtold(string(first, end).c_str(), nullptr));
  return {end, isinf(number) ? errc::result_out_of_range : errc()};
}

// The shortest text that reads back as the same number.
template <class Number>
requires is_floating_point_v<Number> to_chars_result to_chars(char* first, char* last, Number number) {
  char text[64];
  int size = 0;
  for (int digits = 1; digits <= 17; ++digits) {
    size = snprintf(text, sizeof text, "%.*g", digits, static_cast<double>(number));
    if (static_cast<Number>(strtod(text, nullptr)) == number) break;
  }
  if (last - first < size) return {last, errc::value_too_large};
  return {copy(text, text + size, first), errc()};
}

namespace ranges {

// A comparison or a predicate of what `projection` makes of an element.
template <class Function, class Projection>
auto projected_by(Function function, Projection projection) {
  return [function, projection](const auto&... values) -> bool {
    return std::invoke(function, std::invoke(projection, values)...);
  };
}

#define MEMTUNE_RANGE_PREDICATE(name)                                                          \
  template <class Range, class Predicate, class Projection = identity>                         \
  requires requires(Range & range) { std::begin(range); }                                      \
  auto name(Range&& range, Predicate predicate, Projection projection = {}) {                  \
    return std::name(std::begin(range), std::end(range), projected_by(predicate, projection)); \
  }                                                                                            \
  template <class Iterator, class Predicate, class Projection = identity>                      \
  auto name(Iterator begin, Iterator end, Predicate predicate, Projection projection = {}) {   \
    return std::name(begin, end, projected_by(predicate, projection));                         \
  }
MEMTUNE_RANGE_PREDICATE(any_of)
MEMTUNE_RANGE_PREDICATE(all_of)
MEMTUNE_RANGE_PREDICATE(none_of)
MEMTUNE_RANGE_PREDICATE(count_if)
MEMTUNE_RANGE_PREDICATE(find_if)
#undef MEMTUNE_RANGE_PREDICATE

#define MEMTUNE_RANGE_ORDER(name)                                                          \
  template <class Range, class Order = less, class Projection = identity>                  \
  auto name(Range&& range, Order order = {}, Projection projection = {}) {                 \
    return std::name(std::begin(range), std::end(range), projected_by(order, projection)); \
  }
MEMTUNE_RANGE_ORDER(max_element)
MEMTUNE_RANGE_ORDER(min_element)
MEMTUNE_RANGE_ORDER(sort)
MEMTUNE_RANGE_ORDER(stable_sort)
#undef MEMTUNE_RANGE_ORDER

template <class Range, class Value, class Projection = identity>
auto find(Range&& range, const Value& value, Projection projection = {}) {
  return std::find_if(std::begin(range), std::end(range),
                      [&](const auto& each) -> bool { return std::invoke(projection, each) == value; });
}

template <class Range, class Value, class Projection = identity>
auto count(Range&& range, const Value& value, Projection projection = {}) {
  return std::count_if(std::begin(range), std::end(range),
                       [&](const auto& each) -> bool { return std::invoke(projection, each) == value; });
}

template <class Range, class Value, class Order = less, class Projection = identity>
auto lower_bound(Range&& range, const Value& value, Order order = {}, Projection projection = {}) {
  return std::lower_bound(std::begin(range), std::end(range), value,
                          [&](const auto& each, const Value& sought) -> bool {
                            return std::invoke(order, std::invoke(projection, each), sought);
                          });
}

template <class Range, class Value, class Order = less, class Projection = identity>
auto upper_bound(Range&& range, const Value& value, Order order = {}, Projection projection = {}) {
  return std::upper_bound(std::begin(range), std::end(range), value,
                          [&](const Value& sought, const auto& each) -> bool {
                            return std::invoke(order, sought, std::invoke(projection, each));
                          });
}

template <class Range, class Order = less, class Projection = identity>
auto min(Range&& range, Order order = {}, Projection projection = {}) {
  return *ranges::min_element(range, order, projection);
}

template <class Range, class Order = less, class Projection = identity>
auto max(Range&& range, Order order = {}, Projection projection = {}) {
  return *ranges::max_element(range, order, projection);
}

template <class Range, class Order = less, class Projection = identity>
auto minmax(Range&& range, Order order = {}, Projection projection = {}) {
  const auto [least, most] = std::minmax_element(std::begin(range), std::end(range), projected_by(order, projection));
  return std::pair(*least, *most);
}

template <class Range, class Middle, class Order = less>
void partial_sort(Range&& range, Middle middle, Order order = {}) {
  std::partial_sort(std::begin(range), middle, std::end(range), order);
}

template <class Range, class Other, class Equal = equal_to>
bool equal(const Range& range, const Other& other, Equal equal = {}) {
  return std::equal(std::begin(range), std::end(range), std::begin(other), std::end(other), equal);
}

template <class Range, class Output>
void move(Range&& range, Output output) {
  std::move(std::begin(range), std::end(range), output);
}

template <class Range, class Output, class Predicate>
void copy_if(const Range& range, Output output, Predicate predicate) {
  std::copy_if(std::begin(range), std::end(range), output, projected_by(predicate, identity()));
}

template <class Range, class Output, class Predicate>
void remove_copy_if(const Range& range, Output output, Predicate predicate) {
  std::remove_copy_if(std::begin(range), std::end(range), output, projected_by(predicate, identity()));
}

template <class Range, class Predicate, class Value>
void replace_if(Range&& range, Predicate predicate, const Value& value) {
  std::replace_if(std::begin(range), std::end(range), projected_by(predicate, identity()), value);
}

}  // namespace ranges
}  // namespace std
#endif
