// Reads the fields of one JSON object and complains in the reader's words: "plan.placements[3].op must be an integer,
// not \"x\"". Fields that are missing leave the value as it is. Fields that nobody asked for are an error in what
// people write; in what memtune writes they are a later version's and passed over.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bounds.h"

namespace memtune::config {

// What people write: an object, no key of it twice. UsageError that begins with `name`.
nlohmann::json parse_json_object(const std::string& name, std::string_view text);

enum class Unknown { refused, passed_over };

class JsonObject {
 public:
  // `path` names the object in messages. `json` must outlive this. UsageError when it is no object.
  JsonObject(const nlohmann::json& json, std::string path);

  // Each throws UsageError when the field has another type or is out of range.
  void read(const char* key, std::string& out);
  void read(const char* key, bool& out);
  // Numbers have bounds where none are given, too: core/base/bounds.h.
  void read(const char* key, double& out, double least = -kMostNumber, double most = kMostNumber);
  void read(const char* key, int64_t& out, int64_t least = -kMostCount, int64_t most = kMostCount);
  void read(const char* key, int& out, int least = std::numeric_limits<int>::min(),
            int most = std::numeric_limits<int>::max());
  void read(const char* key, std::vector<std::string>& out);
  void read(const char* key, std::vector<int64_t>& out, int64_t least);
  void read(const char* key, std::vector<int>& out, int least, int most);
  void read(const char* key, std::vector<bool>& out);

  // nullptr when the field is missing.
  const nlohmann::json* find(const char* key);
  // An empty array when the field is missing.
  const nlohmann::json& array(const char* key);

  void require(std::initializer_list<const char*> keys) const;
  // Call it last, of what people write: UsageError for a field that was never asked for.
  void finish(Unknown unknown = Unknown::refused) const;

  // "plan.transfer", "plan.placements[3]"
  std::string path(const std::string& key) const { return path_ + "." + key; }
  std::string path(const std::string& key, size_t index) const;

 private:
  const nlohmann::json& json_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace memtune::config
