#include "core/trainer/merge.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/trainer/yaml_text.h"

namespace memtune::trainer {
namespace {

// What an earlier export wrote above its keys says nothing of these.
Lines without_earlier(Lines above) {
  const auto begin =
      std::ranges::find_if(above, [](const std::string& line) { return line.starts_with("# memtune "); });
  above.erase(begin, above.end());
  return above;
}

}  // namespace

std::string merge(const std::string& config, const std::string& keys, const std::string& name) {
  YamlDocument document = parse_yaml(config, "--into: " + name), replacements = parse_yaml(keys, "what is exported");
  Lines comments = replacements.entries.empty() ? Lines() : std::exchange(replacements.entries.front().above, {});
  std::vector<YamlEntry> added;
  for (YamlEntry& wanted : replacements.entries) {
    if (YamlEntry* const found = find_entry(document, wanted.key, "--into: " + name))
      found->lines = wanted.lines;
    else
      added.push_back(wanted);
  }
  for (YamlEntry& entry : document.entries) {
    if (std::ranges::count(replacements.entries, entry.key, &YamlEntry::key) == 0) continue;
    entry.above = without_earlier(entry.above);
    const Lines here = std::exchange(comments, {});
    entry.above.insert(entry.above.end(), here.begin(), here.end());
  }
  document.below.insert(document.below.end(), comments.begin(), comments.end());
  for (YamlEntry& entry : added) {
    entry.above = std::exchange(document.below, {});
    document.entries.push_back(entry);
  }
  return document.text();
}

}  // namespace memtune::trainer
