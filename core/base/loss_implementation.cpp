#include "core/base/loss_implementation.h"

#include <algorithm>
#include <string_view>

#include "core/base/error.h"

namespace memtune {
namespace {

constexpr std::string_view kChunked = "chunked=";
constexpr size_t kMaxDigits = 6;

bool is_count(std::string_view text) {
  return !text.empty() && text.size() <= kMaxDigits && text[0] != '0' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

LossImplementation parse_loss_implementation(const std::string& text) {
  using Kind = LossImplementation::Kind;
  if (text == "plain") return {};
  if (text == "fused") return {Kind::fused, 0};
  if (text.starts_with(kChunked)) {
    const std::string count = text.substr(kChunked.size());
    if (is_count(count)) return {Kind::chunked, std::stoll(count)};
  }
  throw UsageError("--loss-impl '" + text + "': known are plain, fused, and chunked=N for N chunks");
}

}  // namespace memtune
