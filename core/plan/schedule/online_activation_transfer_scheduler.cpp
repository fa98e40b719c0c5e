#include "core/plan/schedule/online_activation_transfer_scheduler.h"

namespace memtune::schedule {

void OnlineActivationTransferScheduler::begin_step() {
  learned_.begin_step();
  stash_.begin_step();
  reloads_.begin_step();
}

void OnlineActivationTransferScheduler::start_offload(ActivationOffloadAndReloadState& transfer) {
  reloads_.add(transfer);
  stash_.add(transfer);
}

void OnlineActivationTransferScheduler::count_save() {
  if (settings_.compatibility.counts_all) stash_.count_save();
}

void OnlineActivationTransferScheduler::count_checkpoint_input() {
  count_save();
  count_save();
}

void OnlineActivationTransferScheduler::begin_block(int block) {
  stash_.end_block();
  reloads_.begin_block(block, stash_.group());
}

void OnlineActivationTransferScheduler::end_forward() {
  stash_.end_forward();
  reloads_.end_forward(stash_.group());
}

void OnlineActivationTransferScheduler::reload(ActivationOffloadAndReloadState& transfer) {
  const bool other_node = reloads_.ask(transfer);
  if (other_node && settings_.compatibility.empties_stash) stash_.evict_all();
  if (!transfer.has_source()) reloads_.reload(transfer);
}

void OnlineActivationTransferScheduler::prefetch(bool in_head) {
  if (!in_head || learned_.learned() || !settings_.compatibility.learns) reloads_.prefetch();
}

void OnlineActivationTransferScheduler::forget(ActivationOffloadAndReloadState& transfer) {
  stash_.forget(transfer);
  reloads_.forget(transfer);
}

}  // namespace memtune::schedule
