#include "core/trainer/config.h"

namespace memtune::trainer {
namespace {

void save(const Saving& saving, Config& to) {
  to.keys.push_back("--save-interval " + std::to_string(saving.every_steps));
  if (saving.mode > 0) {
    to.keys.insert(to.keys.end(), {"--async-save", "--ckpt-format torch_dist"});
    to.notes.push_back("--async-save works with torch_dist alone");
  }
  if (saving.keep_last > 0)
    to.notes.push_back("keeping the last " + std::to_string(saving.keep_last) +
                       " has no flag: --save-retain-interval N keeps the saves of every N-th step and the newest");
}

}  // namespace

const Trainer& megatron() {
  static constexpr Trainer kTrainer = {
      .name = "megatron", .version = "(Megatron-LM at 008e9cdb)", .save_modes = 2, .save = save, .yaml = false};
  return kTrainer;
}

}  // namespace memtune::trainer
