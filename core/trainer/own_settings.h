// The settings that a user trains with, from the config and the command; and the config with some of them changed.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/trainer/space_profile.h"

namespace memtune::trainer {

class OwnSettings {
 public:
  // UsageError for a config of a form that the trainer does not read. `profile` must outlive this.
  // Without a config (`name` is "") settings are arguments, which a trainer may not have.
  enum class Absent { refused, allowed };
  OwnSettings(const SpaceProfile& profile, std::string text, std::string name, std::vector<std::string> command,
              const std::map<std::string, std::string>& releases, Absent absent = Absent::refused);
  ~OwnSettings();

  bool has_config() const { return !name_.empty(); }
  const std::string& form() const { return form_; }  // "yaml", "json", "toml"; "": there is no config
  Path path_of(const std::string& key) const;        // as this release, or the config, calls it
  // What a key is with `changes` made; null where nobody says.
  nlohmann::json value(const std::string& key, const Changes& changes = {}) const;
  nlohmann::json fallback(const std::string& key) const;  // what it is where nobody says
  bool says(const std::string& key) const;                // the user does, in the config or the command
  // The command has it, and with that the last word.
  bool is_in_command(const std::string& key) const;
  // A key with a value of a kind that it does not take, in words; UsageError: the first of those.
  struct WrongKind {
    std::string key, text;
  };
  std::vector<WrongKind> wrong_kinds() const;
  void check_kinds() const;
  // Whether text tells what the key has; false: an alias, say, which is not followed.
  bool is_read(const std::string& key) const;
  // UsageError where others' keys are merged into the config, which whole() and the rest do not see.
  void refuse_merges() const;
  // All that is set, as one value; what of it text does not tell is text.
  const nlohmann::json& whole() const;
  std::string with(const Changes& changes) const;
  std::vector<std::string> arguments(const Changes& changes) const;

 private:
  struct Parsed;

  const nlohmann::json& own(const std::string& key) const;  // discarded: not set
  const nlohmann::json& in_config(const std::string& key) const;
  const nlohmann::json& whole_config() const;
  void choose_names(const std::map<std::string, std::string>& releases);
  void add_argument(const std::string& key, const nlohmann::json& value, std::vector<std::string>& to) const;

  const SpaceProfile& profile_;
  std::string text_, name_;
  std::string command_line_;
  std::map<std::string, JsonText> command_;   // by dotted path
  std::map<std::string, std::string> names_;  // of keys that have another name here
  std::string form_;
  std::unique_ptr<Parsed> parsed_;  // of the config and the command, each once, when it is first asked for
};

}  // namespace memtune::trainer
