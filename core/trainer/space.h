// Every memory setting that a trainer has, as configs made from the user's own: its settings, exclusions and what is
// known to do nothing are data, profiles/trainers/*.json. A sweep of the user's command runs the variants in this
// order.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace memtune::trainer {

struct Variant {
  std::string name;                    // of what it changes: "checkpoint-full+compile"; "own"
  std::string config;                  // the whole file; "" where there is no config file
  std::vector<std::string> arguments;  // the same as words of a command line, behind the user's own
  std::vector<std::string> parts;      // of a combination what makes one of its changes each, "own" aside; a variant's
                                       // name, or one of what is skipped as it does nothing alone
  std::string like;                    // memtune's own strategy that does nearly the same; "": none is known
};

struct Skipped {
  std::string name, reason;
};

struct Space {
  std::string file_name;          // for the configs; "": there are none
  std::vector<Variant> variants;  // first the user's own, as it is; then what changes one thing, then what changes more
  std::vector<Skipped> skipped;   // not to be run, and why: excluded, without effect, the same as another
};

struct SpaceSettings {
  bool optimizer = false;  // other optimizers may be tried, which changes training
  // The user's command: settings among its words are known; they win over a config's, so what they fix is not tried.
  std::vector<std::string> command = {};
  // "transformers": "5.24.0", where they are known to be others than the profile's. Keys come and go with releases.
  std::map<std::string, std::string> releases = {};
};

// `own_text` is the config named `own_name` (.yaml, .yml or .json); both "": the settings go into the command line.
// UsageError, one line: an unknown trainer (with the nearest), a config that is none, a key of the wrong kind.
Space make_space(const std::string& trainer, const std::string& own_text, const std::string& own_name,
                 const SpaceSettings& settings);

}  // namespace memtune::trainer
