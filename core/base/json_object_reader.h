// Reads the fields of one JSON object. Errors name the path: "plan.placements[3].op must be an integer, not \"x\"". A
// missing field keeps the variable's value. Unknown fields are refused in files that people write; in memtune's own
// files a later version may have added them, so they are ignored.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bounds.h"

namespace memtune {

// Parses text that people write: an object without repeated keys. Throws UsageError that begins with `name`.
nlohmann::json parse_json_object(const std::string& name, std::string_view text);

enum class UnknownFieldPolicy { refused, passed_over };

class JsonObjectReader {
 public:
  // `path` names the object in messages. `json` must outlive this reader. Throws UsageError if `json` is no object.
  JsonObjectReader(const nlohmann::json& json, std::string path);

  // Each read() throws UsageError if the field has another type or is out of range.
  void read(const char* key, std::string& out);
  void read(const char* key, bool& out);
  // The default bounds are those of core/base/bounds.h.
  void read(const char* key, double& out, double least = -kMaxNumber, double most = kMaxNumber);
  void read(const char* key, int64_t& out, int64_t least = -kMaxCount, int64_t most = kMaxCount);
  void read(const char* key, int& out, int least = std::numeric_limits<int>::min(),
            int most = std::numeric_limits<int>::max());
  void read(const char* key, std::vector<std::string>& out);
  void read(const char* key, std::vector<int64_t>& out, int64_t least);
  void read(const char* key, std::vector<int>& out, int least, int most);
  void read(const char* key, std::vector<bool>& out);

  // Returns nullptr if the field is missing.
  const nlohmann::json* find(const char* key);
  // Returns an empty array if the field is missing.
  const nlohmann::json& array(const char* key);

  void require(std::initializer_list<const char*> keys) const;
  // Call it last, for text that people write. Throws UsageError for a field that was never read.
  void finish(UnknownFieldPolicy unknown = UnknownFieldPolicy::refused) const;

  // "plan.transfer", "plan.placements[3]"
  std::string path(const std::string& key) const { return path_ + "." + key; }
  std::string path(const std::string& key, size_t index) const;

 private:
  const nlohmann::json& json_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace memtune
