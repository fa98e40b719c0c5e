// All memory settings of a trainer as variants of the user's config. Settings, exclusions and settings without effect
// are data, profiles/trainers/*.json. A sweep of the user's command runs the variants in this order.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace memtune::trainer {

struct TrainerConfigVariant {
  std::string name;                    // names its changes: "checkpoint-full+compile"; "own"
  std::string config;                  // the whole file; "" without a config file
  std::vector<std::string> arguments;  // the same changes as words to append to the user's command
  std::vector<std::string> parts;      // variants of a combination's single changes, without "own"; may be skipped
  std::string like;                    // memtune's most similar strategy; "": none
};

struct SkippedTrainerConfigVariant {
  std::string name, reason;
};

struct TrainerConfigVariants {
  std::string file_name;                             // for the configs; "": no config file
  std::vector<TrainerConfigVariant> variants;        // the user's own first, then single changes, then combinations
  std::vector<SkippedTrainerConfigVariant> skipped;  // not run, with the reason: excluded, no effect, equal to another
};

struct TrainerConfigVariantGenerationOptions {
  bool optimizer = false;  // allows other optimizers, which change training
  // The user's command. Settings among its words take precedence over the config, so variants do not change them.
  std::vector<std::string> command = {};
  // "transformers": "5.24.0", if different from the profile's. Keys depend on the release.
  std::map<std::string, std::string> releases = {};
};

// Throws a one-line UsageError for an unknown trainer, and for one whose settings are in the script alone.
void require_variants(const std::string& trainer);

// `own_text` is the config and `own_name` its file name (.yaml, .yml or .json). If both are "", settings become
// arguments. Throws a one-line UsageError for an unknown trainer (with the nearest), an unreadable config, or a key of
// the wrong kind.
TrainerConfigVariants make_space(const std::string& trainer, const std::string& own_text, const std::string& own_name,
                                 const TrainerConfigVariantGenerationOptions& settings);

}  // namespace memtune::trainer
