// A config of a trainer as flags of memtune's own sweep: the model, the batch and how it is trained. What is said of
// keys is data, profiles/training/*.json; docs/extend.md explains it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace memtune::trainer {

struct NativeFlag {
  std::string name, value;        // without "--"; a switch has "true"
  std::vector<std::string> keys;  // of the config that it comes from; none: the trainer's own habit
};

struct NativeFlags {
  std::vector<NativeFlag> flags;                            // each name once
  std::vector<std::string> notes;                           // what measures something else than the trainer does
  std::map<std::string, std::vector<std::string>> missing;  // flags that it asks for: keys that it lacks for them
  std::string strategy;  // memtune's that does nearly what the config has now; "": none is known
};

// `text` is the config named `name` (.yaml, .yml or .json), both "" where there is none; settings among the words of
// `command` win over it. UsageError, one line: an unknown trainer, one whose config
// says nothing of the model, a config that is none, a key of the wrong kind.
NativeFlags native_flags(const std::string& trainer, const std::string& text, const std::string& name,
                         const std::vector<std::string>& command = {});

}  // namespace memtune::trainer
