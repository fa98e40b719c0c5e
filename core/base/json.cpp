#include "core/base/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace memtune {
namespace {

using nlohmann::json;

class Refused : public json::exception {
 public:
  explicit Refused(const std::string& why) : exception(0, why.c_str()) {}
};

// Over the text, before anything is built from it.
void check_nesting(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostNesting) throw Refused("it is nested deeper than " + std::to_string(kMostNesting) + " levels");
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

class UniqueKeys {
 public:
  bool operator()(int /*depth*/, json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end) open_.pop_back();
    if (event == Event::key && !open_.back().insert(parsed.get<std::string>()).second)
      throw Refused("'" + parsed.get<std::string>() + "' is there twice");
    return true;
  }

 private:
  std::vector<std::set<std::string>> open_;
};

}  // namespace

json parse_json(std::string_view text, EqualKeys keys) {
  check_nesting(text);
  if (keys == EqualKeys::last_counts) return json::parse(text);
  UniqueKeys unique;
  return json::parse(text,
                     [&](int depth, json::parse_event_t event, json& parsed) { return unique(depth, event, parsed); });
}

int64_t whole(const json& value, int64_t least, int64_t most) {
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t(std::numeric_limits<int64_t>::max())
                                               : value.is_number_integer();
  if (fits && value.get<int64_t>() >= least && value.get<int64_t>() <= most) return value.get<int64_t>();
  std::string shown = value.dump(-1, ' ', false, json::error_handler_t::replace);
  throw Refused(shown.substr(0, 60) + " is no whole number from " + std::to_string(least) + " to " +
                std::to_string(most));
}

int whole_int(const json& value, int least, int most) { return static_cast<int>(whole(value, least, most)); }

}  // namespace memtune
