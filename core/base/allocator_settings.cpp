#include "core/base/allocator_settings.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace memtune {
namespace {

constexpr const char* kNewerVariable = "PYTORCH_ALLOC_CONF";

const char* variable() {
  return !std::getenv(kAllocatorVariable) && std::getenv(kNewerVariable) ? kNewerVariable : kAllocatorVariable;
}

std::string in_environment() {
  const char* settings = std::getenv(variable());
  return settings ? settings : "";
}

// The bytes that end before `words`, which two words name: "7.01 GiB". Throws UsageError if the message has other
// words.
int64_t bytes_before(std::string_view words, const std::string& message) {
  const size_t end = message.find(words);
  if (end == std::string::npos || end == 0) throw UsageError("no '" + std::string(words) + "'");
  const size_t begin = message.rfind(' ', message.rfind(' ', end - 1) - 1) + 1;
  return parse_bytes(message.substr(begin, end - begin));
}

}  // namespace

bool may_expand_segments() { return in_environment().find("expandable_segments") == std::string::npos; }

bool expands_segments() { return in_environment().find(kExpandableSegments) != std::string::npos; }

std::string allocator_environment(const std::string& settings) {
  const std::string before = in_environment();
  return std::string(variable()) + "=" + (before.empty() ? "" : before + ",") + settings;
}

std::optional<int64_t> asked_bytes(const std::string& message) try {
  constexpr std::string_view kAsked = "ried to allocate ";  // messages differ in the first letter
  const size_t found = message.find(kAsked), begin = found + kAsked.size();
  if (found == std::string::npos) return {};
  const size_t end = message.find_first_not_of("KMGTiB", message.find(' ', begin) + 1);  // of "1.95 GiB", or of "401 "
  return parse_bytes(message.substr(begin, end - begin));
} catch (const UsageError&) {  // other words
  return {};
}

// A limit of the process leaves room beside what is reserved; a device that is full does not.
bool says_fragmented(const std::string& message) try {
  constexpr std::string_view kAllowed = " allowed";
  const std::optional<int64_t> asked = asked_bytes(message);
  if (!asked) return false;
  int64_t room = bytes_before(" is reserved by PyTorch but unallocated", message);
  if (message.find(kAllowed) != std::string::npos) {
    const int64_t used = bytes_before(" is allocated by PyTorch", message);
    room = std::max(room, bytes_before(kAllowed, message) - used);
  }
  return *asked <= room;
} catch (const UsageError&) {  // other words
  return false;
}

}  // namespace memtune
