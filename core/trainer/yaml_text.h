// YAML as a person wrote it: entries of lines, of which single settings are read and put, at any depth; comments,
// order, quotes and whatever is not understood stay where they are.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace memtune::trainer {

using Lines = std::vector<std::string>;

// A key with its value, and before it the comments and blank lines above.
struct YamlEntry {
  Lines above;
  std::string key;  // "": the document's beginning, "---"
  Lines lines;
};

struct YamlDocument {
  std::string mark;  // kByteOrderMark, or ""
  std::vector<YamlEntry> entries;
  Lines below;  // comments behind the last

  std::string text() const;
};

// UsageError naming `name`, the file, where it is no YAML document with one key a line at its top, or has other ends of
// lines than line feeds, with or without a carriage return before them.
YamlDocument parse_yaml(const std::string& text, const std::string& name);

// The entry of that key, nullptr where there is none; UsageError where there are two.
YamlEntry* find_entry(YamlDocument& document, const std::string& key, const std::string& name);

// A document's keys at its top with their values, each worked out when it is first asked for, since many are and few
// matter. UsageError as of parse_yaml().
class YamlValues {
 public:
  YamlValues(const std::string& text, std::string name);
  ~YamlValues();
  YamlValues(const YamlValues&) = delete;
  YamlValues& operator=(const YamlValues&) = delete;

  // nullptr: there is none; UsageError where there are two.
  const nlohmann::json* find(const std::string& key);
  std::vector<std::string> keys() const;  // each once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Nothing: there is no such setting. What text alone does not tell (an alias, a tag) comes as that text.
std::optional<nlohmann::json> read_yaml(const std::string& text, std::span<const std::string> path,
                                        const std::string& name);

// As put_in_flow() does it, in blocks and in braces. UsageError also for a value that has an anchor: others may have
// it too.
std::string put_in_yaml(const std::string& text, std::span<const std::string> path,
                        const std::optional<nlohmann::json>& value, const std::string& name);

}  // namespace memtune::trainer
