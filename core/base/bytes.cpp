#include "core/base/bytes.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "core/base/bounds.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune {
namespace {

constexpr std::string_view kPrefixes = "KMGTPE";

// "" and "B" count bytes, "K" and "KiB" 1024, "KB" 1000, and so on; letters of either case.
std::optional<int64_t> unit_size(std::string_view unit) {
  std::string upper;
  for (const char c : unit) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (upper.empty() || upper == "B") return 1;
  const size_t power = kPrefixes.find(upper[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string rest = upper.substr(1);
  if (!rest.empty() && rest != "B" && rest != "IB") return std::nullopt;
  int64_t size = 1;
  for (size_t i = 0; i <= power; ++i) size *= rest == "B" ? 1000 : 1024;
  return size;
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw UsageError("'" + std::string(text) + "' " + why +
                   "; valid forms: 16GiB, 1.5GiB, 80GB (decimal), 64M (binary), 123 (bytes)");
}

}  // namespace

int64_t parse_bytes(std::string_view text) {
  const std::string trimmed = trim(text);
  if (trimmed.starts_with('-')) refuse(text, "is a negative byte count");
  if (trimmed.empty() || !std::isdigit(static_cast<unsigned char>(trimmed[0]))) refuse(text, "is not a byte count");
  // A long double's 64 bits of mantissa hold every count up to kMaxBytes exactly.
  long double number = 0;
  const char* end = trimmed.data() + trimmed.size();
  const auto [rest, error] = std::from_chars(trimmed.data(), end, number, std::chars_format::fixed);
  const auto unit = unit_size(trim(std::string_view(rest, static_cast<size_t>(end - rest))));
  const bool part_of_a_byte = unit == 1 && number != std::floor(number);
  if (!unit || part_of_a_byte) refuse(text, "is not a byte count");
  if (error != std::errc{} || number * *unit > static_cast<long double>(kMaxBytes)) refuse(text, "is more than 1 PiB");
  return static_cast<int64_t>(std::llround(number * *unit));
}

std::string format_bytes(int64_t bytes) {
  static constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = std::abs(static_cast<double>(bytes));
  size_t unit = 0;
  // From 1023.5 on, four digits would round up to the next unit's 1.
  for (; value >= 1023.5 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  const bool whole = bytes % (int64_t{1} << (10 * unit)) == 0;
  const int digits = whole || value >= 999.95 ? 0 : value >= 99.995 ? 1 : 2;
  char text[32];
  std::snprintf(text, sizeof text, "%s%.*f %s", bytes < 0 ? "-" : "", digits, value, kUnits[unit]);
  return text;
}

}  // namespace memtune
