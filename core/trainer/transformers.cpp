// The Trainer of transformers, and what takes its arguments from it.
#include "core/trainer/saving.h"

namespace memtune::trainer {
namespace {

constexpr size_t kSaveModes = 1;  // training waits

void save(const Saving& saving, Config& to) {
  put_huggingface_saving(saving, to);
  if (saving.keep_last == 0) to.notes.push_back("without save_total_limit all saves are kept");
}

}  // namespace

const Trainer& transformers() {
  static constexpr Trainer kTrainer = {
      .name = "transformers", .version = "5.17.0", .save_modes = kSaveModes, .save = save};
  return kTrainer;
}

const Trainer& trl() {
  static constexpr Trainer kTrainer = {.name = "trl", .version = "1.16.0", .save_modes = kSaveModes, .save = save};
  return kTrainer;
}

const Trainer& ms_swift() {
  static constexpr Trainer kTrainer = {.name = "ms-swift", .version = "4.6.0", .save_modes = kSaveModes, .save = save};
  return kTrainer;
}

}  // namespace memtune::trainer
