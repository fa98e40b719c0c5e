#include "core/plan/schedule/transfer_schedule.h"

namespace memtune::schedule {

void TransferSchedule::begin_step() {
  learned_.begin_step();
  stash_.begin_step();
  reloads_.begin_step();
}

void TransferSchedule::start_offload(OffloadedActivation& transfer) {
  reloads_.add(transfer);
  stash_.add(transfer);
}

void TransferSchedule::count_save() {
  if (settings_.compatibility.counts_all) stash_.count_save();
}

void TransferSchedule::count_checkpoint_input() {
  count_save();
  count_save();
}

void TransferSchedule::begin_block(int block) {
  stash_.end_block();
  reloads_.begin_block(block, stash_.group());
}

void TransferSchedule::end_forward() {
  stash_.end_forward();
  reloads_.end_forward(stash_.group());
}

void TransferSchedule::reload(OffloadedActivation& transfer) {
  const bool other_node = reloads_.ask(transfer);
  if (other_node && settings_.compatibility.empties_stash) stash_.evict_all();
  if (!transfer.has_source()) reloads_.reload(transfer);
}

void TransferSchedule::prefetch(bool in_head) {
  if (!in_head || learned_.learned() || !settings_.compatibility.learns) reloads_.prefetch();
}

void TransferSchedule::forget(OffloadedActivation& transfer) {
  stash_.forget(transfer);
  reloads_.forget(transfer);
}

}  // namespace memtune::schedule
