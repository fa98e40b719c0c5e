// The table of trainers, with the function that writes each one's keys of saving.
#include "core/answer/trainer/trainers.h"

#include <algorithm>
#include <array>

#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

std::string quoted(const std::string& text) { return '"' + text + '"'; }

// Keys of transformers and trainers built on it.
void save_by_steps(const RecommendedStateSaveSchedule& saving, ConfigChanges& to) {
  to.changes["save_strategy"] = quoted("steps");
  to.changes["save_steps"] = std::to_string(saving.every_steps);
  if (saving.keep_last > 0) to.changes["save_total_limit"] = std::to_string(saving.keep_last);
}

void save_transformers(const RecommendedStateSaveSchedule& saving, ConfigChanges& to) {
  save_by_steps(saving, to);
  if (saving.keep_last == 0) to.notes.push_back("without save_total_limit all saves are kept");
}

void save_axolotl(const RecommendedStateSaveSchedule& saving, ConfigChanges& to) {
  save_by_steps(saving, to);
  to.notes.push_back("remove saves_per_epoch: axolotl refuses it with save_steps");
  if (saving.keep_last == 0)
    to.notes.push_back("axolotl keeps 4 saves if save_total_limit is missing or 0, and cannot keep all");
}

// torchtune saves at the end of an epoch and keeps all saves.
void save_torchtune(const RecommendedStateSaveSchedule& saving, ConfigChanges& to) {
  const std::string steps = std::to_string(saving.every_steps);
  to.changes["enable_async_checkpointing"] = saving.mode > 0 ? "true" : "false";
  to.notes.push_back("enable_async_checkpointing acts in the recipe full_finetune_distributed only");
  to.notes.push_back("torchtune saves at the end of an epoch, never after steps: max_steps_per_epoch: " + steps +
                     " would save every " + steps +
                     " steps, but ends each epoch there, whatever data is left; it has " +
                     "no key for how many are kept");
}

constexpr std::array kTorchtitanModes = {"disabled", "async", "async_with_pinned_mem"};  // order of kSaveModes

void save_torchtitan(const RecommendedStateSaveSchedule& saving, ConfigChanges& to) {
  const int64_t kept = saving.keep_last == 1 ? 2 : saving.keep_last;
  to.changes["checkpoint.enable"] = "true";
  to.changes["checkpoint.interval"] = std::to_string(saving.every_steps);
  to.changes["checkpoint.async_mode"] = quoted(kTorchtitanModes.at(saving.mode));
  to.changes["checkpoint.keep_latest_k"] = std::to_string(kept);
  if (kept != saving.keep_last)
    to.notes.push_back("keep_latest_k: torchtitan refuses 1, as the last one may not be whole yet; 2 are kept");
  to.notes.push_back(
      "the last save of a run is synchronous, and has the model only unless last_save_model_only = false");
}

void save_megatron(const RecommendedStateSaveSchedule& saving, ConfigChanges& to) {
  to.changes["save_interval"] = std::to_string(saving.every_steps);
  if (saving.mode > 0) {
    to.changes["async_save"] = "true";
    to.changes["ckpt_format"] = quoted("torch_dist");
    to.notes.push_back("--async-save works with torch_dist only");
  }
  if (saving.keep_last > 0)
    to.notes.push_back("keeping the last " + std::to_string(saving.keep_last) +
                       " has no flag: --save-retain-interval N keeps the saves of every N-th step and the newest");
}

constexpr std::string_view kBatch = "per_device_train_batch_size", kAccumulate = "gradient_accumulation_steps";

constexpr TrainerBatchAndSaveKeys kTrainers[] = {
    {"torchtune", "batch_size", kAccumulate, "", "set max_seq_len of the tokenizer to it", 2, save_torchtune},
    {"axolotl", "micro_batch_size", kAccumulate, "sequence_len", "", 1, save_axolotl},
    {"torchtitan", "training.local_batch_size", "", "training.seq_len", "", kTorchtitanModes.size(), save_torchtitan,
     "torchtitan-0.2", "0.3"},
    {"transformers", kBatch, kAccumulate, "", "the script's own tokenization has to make them", 1, save_transformers},
    {"trl", kBatch, kAccumulate, "max_length", "", 1, save_transformers},
    {"ms-swift", kBatch, kAccumulate, "max_length", "", 1, save_transformers},
    {"llamafactory", kBatch, kAccumulate, "cutoff_len", "", 1, save_transformers},
    {"unsloth", kBatch, kAccumulate, "max_seq_length", "", 1, save_transformers},
    {"megatron", "micro_batch_size", "", "seq_length", "", 2, save_megatron},
    {"deepspeed", "train_micro_batch_size_per_gpu", kAccumulate, "", "the script's own data has to have it"},
    {"accelerate", "", "", "", "the script's own data has to have it"},
};

}  // namespace

std::span<const std::string> trainers() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> names;
    for (const TrainerBatchAndSaveKeys& trainer : kTrainers) names.emplace_back(trainer.name);
    return names;
  }();
  return names;
}

const TrainerBatchAndSaveKeys& find_trainer(const std::string& name) {
  const auto found = std::ranges::find(kTrainers, name, &TrainerBatchAndSaveKeys::name);
  if (found == std::end(kTrainers)) throw UsageError(unknown_trainer(name, trainers()));
  return *found;
}

TrainerProfileAndPackageVersions known_trainer(const std::string& name,
                                               const std::map<std::string, std::string>& releases) {
  const TrainerBatchAndSaveKeys& trainer = find_trainer(name);
  std::string profile = name;
  const auto own = releases.find("");
  const std::map<std::string, std::string> asked = {{"", own == releases.end() ? "" : own->second}};
  if (own != releases.end() && !trainer.older_profile.empty() &&
      in_range(PackageReleaseRange{"", "", std::string(trainer.older_before)}, asked))
    profile = trainer.older_profile;
  TrainerProfileAndPackageVersions known{read_space_profile(profile), {}, ""};
  known.releases = known.profile.releases;
  known.package = known.releases.contains(name) ? name : known.releases.begin()->first;
  for (const auto& [package, release] : releases) {
    if (!package.empty() && !known.releases.contains(package))
      throw UsageError("--trainer-version: nothing here depends on the release of " + package);
    known.releases[package.empty() ? known.package : package] = release;
  }
  return known;
}

}  // namespace memtune::trainer
