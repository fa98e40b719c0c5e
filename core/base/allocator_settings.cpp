#include "core/base/allocator_settings.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace memtune {
namespace {

std::string in_environment() {
  const char* settings = std::getenv(kAllocatorVariable);
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

bool may_grow_segments() { return in_environment().find("expandable_segments") == std::string::npos; }

std::string with_environment(const std::string& settings) {
  const std::string before = in_environment();
  return before.empty() || settings.empty() ? before + settings : before + "," + settings;
}

// A limit of the process leaves room beside what is reserved; a device that is full does not.
bool says_fragmented(const std::string& message) try {
  constexpr std::string_view kAsked = "Tried to allocate ", kAllowed = " allowed";
  size_t asked = message.find(kAsked);
  if (asked == std::string::npos) return false;
  asked += kAsked.size();
  const size_t end = message.find_first_not_of("KMGTiB", message.find(' ', asked) + 1);
  const int64_t wanted = parse_bytes(message.substr(asked, end - asked));
  int64_t room = bytes_before(" is reserved by PyTorch but unallocated", message);
  if (message.find(kAllowed) != std::string::npos) {
    const int64_t used = bytes_before(" is allocated by PyTorch", message);
    room = std::max(room, bytes_before(kAllowed, message) - used);
  }
  return wanted <= room;
} catch (const UsageError&) {  // other words
  return false;
}

}  // namespace memtune
