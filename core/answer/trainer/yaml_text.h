// Reads and edits single settings in YAML text, at any depth. Comments, order, quotes and unknown syntax stay
// unchanged.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace memtune::trainer {

using Lines = std::vector<std::string>;

// A key with its value, and the comments and blank lines above it.
struct YamlEntry {
  Lines above;
  std::string key;  // "": the document start, "---"
  Lines lines;
};

struct YamlDocument {
  std::string mark;  // kByteOrderMark, or ""
  std::vector<YamlEntry> entries;
  Lines below;  // comments after the last entry

  std::string text() const;
};

// Throws UsageError with `name`, the file, if the top level is not YAML with one key per line. Lines may end in "\n" or
// "\r\n"; any other line end throws too.
YamlDocument parse_yaml(const std::string& text, const std::string& name);

// The entry of `key`, or nullptr. Throws UsageError if there are two.
YamlEntry* find_entry(YamlDocument& document, const std::string& key, const std::string& name);

// The top-level keys of a document. Each value is parsed when it is first read, because most are never used. Throws
// UsageError like parse_yaml().
class YamlValues {
 public:
  YamlValues(const std::string& text, std::string name);
  ~YamlValues();
  YamlValues(const YamlValues&) = delete;
  YamlValues& operator=(const YamlValues&) = delete;

  // nullptr if the key is missing; UsageError if it occurs twice.
  const nlohmann::json* find(const std::string& key);
  std::vector<std::string> keys() const;  // each once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// None if the setting is missing. A value that needs more than its text (an alias, a tag) is returned as text.
std::optional<nlohmann::json> read_yaml(const std::string& text, std::span<const std::string> path,
                                        const std::string& name);

// Like put_in_flow(), for mappings in lines and in braces. Also throws UsageError for a value with an anchor, because
// other settings may refer to it.
std::string put_in_yaml(const std::string& text, std::span<const std::string> path,
                        const std::optional<nlohmann::json>& value, const std::string& name);

}  // namespace memtune::trainer
