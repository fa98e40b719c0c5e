// The settings that a user trains with, from the config and the command; and the config with some of them changed.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/trainer/space_profile.h"

namespace memtune::trainer {

class OwnSettings {
 public:
  // UsageError for a config of a form that the trainer does not read, and a value of a kind that its key does not take.
  // `profile` must outlive this.
  OwnSettings(const SpaceProfile& profile, std::string text, std::string name, std::vector<std::string> command,
              const std::map<std::string, std::string>& releases);

  bool has_config() const { return !name_.empty(); }
  // What a key is with `changes` made; null where nobody says.
  nlohmann::json value(const std::string& key, const Changes& changes = {}) const;
  bool says(const std::string& key) const;  // the user does, in the config or the command
  // The command has it, and with that the last word.
  bool is_in_command(const std::string& key) const;
  std::string with(const Changes& changes) const;
  std::vector<std::string> arguments(const Changes& changes) const;

 private:
  nlohmann::json own(const std::string& key) const;  // discarded: nobody says
  nlohmann::json in_config(const std::string& key) const;
  void check_kind(const std::string& key, const SpaceKey& setting) const;
  void choose_names(const std::map<std::string, std::string>& releases);
  Path path_of(const std::string& key) const;
  void add_argument(const std::string& key, const nlohmann::json& value, std::vector<std::string>& to) const;

  const SpaceProfile& profile_;
  std::string text_, name_;
  std::string command_line_;
  std::map<std::string, JsonText> command_;   // by dotted path
  std::map<std::string, std::string> names_;  // of keys that have another name here
  bool json_ = false;
};

}  // namespace memtune::trainer
