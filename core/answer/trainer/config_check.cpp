#include "core/answer/trainer/config_check.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/answer/trainer/rules.h"
#include "core/answer/trainer/trainers.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;

constexpr size_t kMaxTypos = 2;       // a trainer's other keys differ more from memory keys
constexpr size_t kMaxProblems = 100;  // per config

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string& line : split(text, '\n'))
    for (const std::string& word : split(trim(line.substr(0, line.find('#'))), ' '))
      if (!word.empty() && word != "\\") words.push_back(word);
  return words;
}

// The settings that a program's text assigns, as words, found by the known forms of assignment. Sets `several` if a
// setting gets different values, because then the value is unknown.
std::vector<std::string> words_of_program(const TrainerProfile& profile, const std::string& text, bool& several) {
  std::map<std::string, std::set<std::string>> found;  // by the first part of the words: values
  for (const auto& [value, code] : profile.program)
    for (const auto& [key, form] : profile.arguments) {
      if (form.starts_with("--") || text.find(key) == std::string::npos) continue;
      for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
        const size_t equals = text.find_first_not_of(" \t", at + key.size());
        if (equals == std::string::npos || text[equals] != '=') continue;
        const size_t begin = text.find_first_not_of(" \t", equals + 1);
        if (begin == std::string::npos || text.compare(begin, code.size(), code) != 0) continue;
        found[form.substr(0, form.find('{'))].insert(value);
      }
    }
  std::vector<std::string> words;
  for (const auto& [word, values] : found) {
    several |= values.size() > 1;
    if (values.size() == 1) words.push_back(word + *values.begin());
  }
  return words;
}

class Checker {
 public:
  Checker(TrainerProfileAndPackageVersions known, const std::string& text, const std::string& name, int blocks)
      : known_(std::move(known)),
        text_(text),
        is_config_(!known_.profile.forms.empty()),
        own_(known_.profile, is_config_ ? text : "", is_config_ ? name : "",
             is_config_              ? std::vector<std::string>()
             : name.ends_with(".py") ? words_of_program(known_.profile, text, several_)
                                     : words_of(text),
             known_.releases, EditableUserTrainerSettings::Absent::allowed),
        dialect_(known_.profile, own_, known_.releases, blocks) {}

  ConfigProblemsAndEquivalentStrategy check() {
    check_names(own_.whole());
    check_mappings(own_.whole());
    for (const EditableUserTrainerSettings::WrongKind& wrong : own_.wrong_kinds())
      add(own_.path_of(wrong.key), wrong.text);
    check_rules();
    check_releases();
    for (const auto& [key, setting] : known_.profile.settings)
      if (!own_.is_read(key))
        result_.notes.push_back(join(own_.path_of(key), ".") + " is '" +
                                shorten(own_.value(key).get<std::string>(), 60) + "', which is not followed");
    if (several_) result_.notes.emplace_back("the program has several configs, which differ: give the one that is run");
    if (more_) result_.notes.push_back("only the first " + std::to_string(kMaxProblems) + " problems are listed");
    result_.meaning = dialect_.meaning();
    if (!result_.meaning) result_.why_none = dialect_.why_none();
    std::ranges::stable_sort(result_.problems, {}, &ConfigProblem::line);
    return std::move(result_);
  }

 private:
  // A limit, because more problems mean that it is not such a config.
  bool is_full() const { return result_.problems.size() >= kMaxProblems; }

  void add(const Path& path, const std::string& text) {
    more_ |= is_full();
    if (!is_full()) result_.problems.push_back({line(path), text});
  }

  size_t line(const Path& path) const {
    if (is_config_) return own_.line_of(path);
    std::string flag = join(path, ".");
    for (const char dash : {'_', '-'}) {
      std::ranges::replace(flag, dash == '-' ? '_' : '-', dash);
      const size_t at = text_.find(flag);
      if (at != std::string::npos) return size_t(std::count(text_.begin(), text_.begin() + ptrdiff_t(at), '\n')) + 1;
    }
    return 0;
  }

  // Includes names that other releases use: check_releases() reports those.
  std::vector<std::string> names_in(const Path& mapping) const {
    std::vector<std::string> names;
    for (const auto& [key, setting] : known_.profile.settings) {
      const Path path = own_.path_of(key);
      if (path.size() > mapping.size() && std::equal(mapping.begin(), mapping.end(), path.begin()))
        names.push_back(path[mapping.size()]);
    }
    if (mapping.empty())
      for (const ConfigKeyRename& rename : known_.profile.renames) names.insert(names.end(), {rename.from, rename.to});
    return names;
  }

  std::string near(const std::string& key, const std::vector<std::string>& names) const {
    const auto found = std::ranges::find_if(names, [&](const std::string& name) {
      const size_t longer = std::max(key.size(), name.size()), shorter = std::min(key.size(), name.size());
      return name.size() > 2 * kMaxTypos && longer - shorter <= kMaxTypos && edit_distance(key, name) <= kMaxTypos;
    });
    return found == names.end() ? "" : *found;
  }

  void check_names(const json& whole) {
    const std::vector<std::string> names = names_in({});
    for (const auto& [key, value] : whole.items()) {
      const std::string& top = key;
      if (std::ranges::count(names, top) > 0) continue;
      const std::string meant = near(top, names);
      if (!meant.empty()) add({top}, "unknown key " + top + "; did you mean " + meant + "?");
    }
  }

  void check_mappings(const json& whole) {
    for (const auto& [key, more] : known_.profile.closed) {
      const Path path = own_.path_of(key);
      const json* at = &whole;
      for (const std::string& part : path) at = at && at->is_object() && at->contains(part) ? &(*at)[part] : nullptr;
      if (!at || !at->is_object()) continue;
      std::vector<std::string> names = names_in(path);
      names.insert(names.end(), more.begin(), more.end());
      for (const auto& [member, value] : at->items()) {
        if (std::ranges::count(names, member) > 0) continue;
        const std::string meant = is_full() ? "" : nearest(member, names);
        Path inner = path;
        inner.push_back(member);
        add(inner, "unused key " + join(inner, ".") + (meant.empty() ? "" : "; did you mean " + meant + "?"));
      }
    }
  }

  void check_rules() {
    for (const ConfigRejectionRule& rule : known_.profile.rules) {
      if (rule.when.contains("$name") || !in_range(rule.range, known_.releases) || !holds(rule)) continue;
      const auto said =
          std::ranges::find_if(rule.when, [&](const auto& entry) { return own_.is_user_set(entry.first); });
      if (said == rule.when.end()) continue;
      if (rule.note || rule.when.contains("$command"))
        result_.notes.push_back(rule.reason);
      else
        add(own_.path_of(said->first), rule.reason);
    }
  }

  // Whether the rule may hold. Conditions on the command are ignored, because the command is unknown.
  bool holds(const ConfigRejectionRule& rule) const {
    Conditions when = rule.when;
    when.erase("$command");
    return !when.empty() && conditions_hold(when, own_);
  }

  void check_releases() {
    for (const ConfigKeyRename& rename : known_.profile.renames) {
      const bool in = in_range(rename.range, known_.releases);
      const std::string package = rename.range.package + " " + known_.releases.at(rename.range.package);
      if (!in && is_set(rename.to))
        add({rename.to}, package + " has no key " + rename.to + ": it is called " + rename.from + " there");
      if (in && !rename.older && is_set(rename.from))
        result_.notes.push_back(package + " calls " + rename.from + " " + rename.to + " and may give up the old name");
    }
    for (const SettingAxis& axis : known_.profile.axes)
      for (const SettingAxisOption& choice : axis.choices)
        if (!in_range(choice.range, known_.releases)) check_choice(choice);
    for (const auto& [key, setting] : known_.profile.settings)
      if (!in_range(setting.range, known_.releases) && own_.is_user_set(key)) add_of_release(key, *setting.range);
  }

  bool is_set(const std::string& top) const { return own_.whole().contains(top); }

  // Reports keys that only other releases have.
  void check_choice(const SettingAxisOption& choice) {
    for (const auto& [key, value] : choice.changes) {
      if (!value || key.find('.') == std::string::npos || !own_.is_user_set(key)) continue;
      if (own_.value(key) == own_.fallback(key)) continue;
      add_of_release(key, *choice.range);
    }
  }

  void add_of_release(const std::string& key, const PackageReleaseRange& range) {
    const std::string bound = range.since.empty() ? " before " + range.before : " from " + range.since + " on";
    const std::string text = join(own_.path_of(key), ".") + " is of " + range.package + bound + "; " +
                             known_.releases.at(range.package) + " ignores it";
    if (std::ranges::count(result_.problems, text, &ConfigProblem::text) == 0) add(own_.path_of(key), text);
  }

  const TrainerProfileAndPackageVersions known_;
  const std::string& text_;
  const bool is_config_;
  bool several_ = false, more_ = false;
  const EditableUserTrainerSettings own_;
  const StrategyConfigTranslator dialect_;
  ConfigProblemsAndEquivalentStrategy result_;
};

}  // namespace

ConfigProblemsAndEquivalentStrategy check_config(const std::string& trainer, const std::string& text,
                                                 const std::string& name,
                                                 const std::map<std::string, std::string>& releases, int blocks) {
  const TrainerProfileAndPackageVersions known = known_trainer(trainer, releases);
  const std::string older(find_trainer(trainer).older_before);
  const std::string ending = name.substr(std::min(name.rfind('.'), name.size()));
  if (known.profile.forms.empty() && (ending == ".toml" || ending == ".yaml" || ending == ".yml" || ending == ".json"))
    throw UsageError(name + ": " + known.package + " " + known.releases.at(known.package) + " takes no " + ending +
                     " file" + (older.empty() ? "" : "; --trainer-version below " + older + " does"));
  return Checker(known, text, name, blocks).check();
}

}  // namespace memtune::trainer
