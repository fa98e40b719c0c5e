#include "core/base/torch_version.h"

#include <algorithm>

namespace memtune {
namespace {

constexpr std::string_view kTestedOnGpu = "2.11";
constexpr std::string_view kDigits = "0123456789";

}  // namespace

std::string torch_minor(std::string_view version) {
  const size_t dot = version.find_first_not_of(kDigits);
  if (dot == 0 || dot == std::string_view::npos || version[dot] != '.') return "";
  const size_t end = std::min(version.find_first_not_of(kDigits, dot + 1), version.size());
  return end == dot + 1 ? "" : std::string(version.substr(0, end));
}

bool other_torch_minor(std::string_view a, std::string_view b) {
  const std::string minor_a = torch_minor(a), minor_b = torch_minor(b);
  return !minor_a.empty() && !minor_b.empty() && minor_a != minor_b;
}

std::string untested_on_gpu(std::string_view version) {
  const std::string minor = torch_minor(version);
  return minor.empty() || minor == kTestedOnGpu ? "" : "PyTorch " + minor + ": untested on GPU";
}

}  // namespace memtune
