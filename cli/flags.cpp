#include "cli/flags.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/plan/request/trial_request.h"

namespace memtune::cli {

int64_t integer_flag(const std::string& flag, const std::string& text, int64_t least, int64_t most) {
  const int64_t value = parse_integer(text, flag);
  if (value < least || value > most) {
    throw UsageError(flag + ": " + text + " is out of range; it takes " + std::to_string(least) + " to " +
                     std::to_string(most));
  }
  return value;
}

std::vector<int64_t> integers_flag(const std::string& flag, const std::vector<std::string>& texts) {
  std::vector<int64_t> values;
  for (const std::string& text : texts) {
    for (const std::string& part : split(text, ',')) {
      const int64_t value = integer_flag(flag, trim(part), 1, int64_t{1} << 40);
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
  }
  return values;
}

int64_t bytes_flag(const std::string& flag, const std::string& text) try {
  const std::string number = trim(text);
  if (!number.empty() && number.find_first_not_of("0123456789.") == std::string::npos)
    throw UsageError("'" + text + "' has no unit; did you mean " + number + "GiB? (" + number + "B is bytes)");
  const int64_t bytes = parse_bytes(text);
  if (bytes == 0) throw UsageError("'" + text + "' is zero; give a size such as 16GiB");
  return bytes;
} catch (const UsageError& error) {
  throw UsageError(flag + ": " + error.what());
}

std::chrono::milliseconds duration_flag(const std::string& flag, const std::string& text) {
  std::string number = trim(text);
  double seconds = 1;
  if (!number.empty() && std::string("smh").find(number.back()) != std::string::npos) {
    seconds = number.back() == 's' ? 1 : number.back() == 'm' ? 60 : 3600;
    number = trim(number.substr(0, number.size() - 1));
  }
  constexpr double kYear = 365 * 86400.0;
  double value = 0;
  try {
    value = parse_number(number, flag) * seconds;
  } catch (const UsageError&) {
  }
  if (!(value >= 0.001 && value <= kYear)) {
    throw UsageError(flag + ": '" + text + "' is no time; give seconds, or 90s, 5m, 1h");
  }
  return std::chrono::milliseconds(static_cast<int64_t>(value * 1000 + 0.5));
}

std::string choice_flag(const std::string& flag, const std::string& text, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  throw UsageError(flag + ": " + unknown_name("value", text, choices));
}

std::string dtype_flag(const std::string& flag, const std::string& text, const std::vector<std::string>& choices) {
  std::string name = text;
  try {
    name = plan::canonical_dtype(text);
  } catch (const UsageError&) {
  }
  if (std::find(choices.begin(), choices.end(), name) != choices.end()) return name;
  throw UsageError(flag + ": " + unknown_name("dtype", text, choices));
}

void check_utf8(const std::string& flag, const std::string& path) {
  if (valid_utf8(path) != path) throw UsageError(flag + ": the path " + path + " is no UTF-8");
}

}  // namespace memtune::cli
