// The settings that a user trains with, from config and command. Also writes the config with some of them changed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/answer/trainer/trainer_profile.h"

namespace memtune::trainer {

class EditableUserTrainerSettings {
 public:
  // Throws UsageError for a config in a form that the trainer does not read. `profile` must outlive this object.
  // Without a config (`name` is "") settings are arguments; a trainer may have no arguments.
  enum class Absent { refused, allowed };
  EditableUserTrainerSettings(const TrainerProfile& profile, std::string text, std::string name,
                              std::vector<std::string> command, const std::map<std::string, std::string>& releases,
                              Absent absent = Absent::refused);
  ~EditableUserTrainerSettings();

  bool has_config() const { return !name_.empty(); }
  const std::string& name() const { return name_; }
  const std::string& form() const { return form_; }  // "yaml", "json", "toml"; "": no config
  Path path_of(const std::string& key) const;        // with the name that this release or the config uses
  // A key's value with `changes` applied; its default if it is not set.
  nlohmann::json value(const std::string& key, const Changes& changes = {}) const;
  nlohmann::json fallback(const std::string& key) const;  // its default
  bool is_user_set(const std::string& key) const;         // set by the user, in config or command
  // Set in the command, which takes precedence over the config.
  bool is_in_command(const std::string& key) const;
  // False if the command sets the key, and no argument gives it back its default.
  bool can_remove(const std::string& key) const;
  // A key whose value the trainer does not accept, with a message. check_kinds() throws UsageError for the first one.
  struct WrongKind {
    std::string key, text;
  };
  std::vector<WrongKind> wrong_kinds() const;
  void check_kinds() const;
  // False for "${key}", a reference of OmegaConf, which is not followed.
  bool is_read(const std::string& key) const;
  // The line of the config in which the setting begins, like ConfigKeyLineNumbers::line_of().
  size_t line_of(const Path& path) const;
  // Calls `see` with the path and the value of each setting that is no mapping, in config and command.
  void visit(const std::function<void(const Path&, const nlohmann::json&)>& see) const;
  // All settings as one value.
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

  const TrainerProfile& profile_;
  std::string text_, name_;
  std::string command_line_;
  std::map<std::string, JsonText> command_;   // by dotted path
  std::map<std::string, std::string> names_;  // other names of keys in this release or config
  std::string form_;
  std::unique_ptr<Parsed> parsed_;  // config and command, each parsed on first use
};

}  // namespace memtune::trainer
